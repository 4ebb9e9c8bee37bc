"""From what ``planner choose`` is given to what the search takes: limits, users, hardware."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from planner.cli.common.planning import catalog_of
from planner.cli.common.ticker import Ticker
from planner.errors import SpecError, UsageError
from planner.importers.engine import engine_command, sayable
from planner.registry import nearest
from planner.report.choose import Answer
from planner.serving.choose import choose
from planner.serving.choose_types import Chosen, Wish
from planner.serving.offers import Offer, offers
from planner.serving.targets import Targets
from planner.spec.catalog import Catalog
from planner.spec.load import load_deployment, load_file
from planner.spec.question import CostModel, Question, ask
from planner.spec.types import DeploymentSpec, NetworkSpec, PricesSpec
from planner.units import BYTES_PER_S, SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMES = ("ttft", "tpot", "latency")
_AS = "as in --slo tpot=30ms,ttft=500ms"
_QUIET_S = 1.0
"""How long a search runs before it tells how far it is."""


@dataclass(frozen=True)
class Given:
    """The command line."""

    file: Path
    slos: tuple[str, ...]
    min_throughput: float | None
    prices: Path | None
    gpus: tuple[str, ...]
    max_gpus: int
    concurrency: int | None
    input_: int | None
    output: int | None
    lossless: bool
    top: int
    network: str | None
    sets: tuple[str, ...]
    catalogs: tuple[Path, ...]
    cost_model: CostModel


def answered(given: Given) -> Answer:
    """What a command line asks for. Raises UsageError and SpecError for what cannot be asked."""
    limits, catalog = targets(given.slos, given.min_throughput), catalog_of(given.catalogs)
    sizes = {"concurrency": given.concurrency, "input": given.input_, "output": given.output}
    sets = (*given.sets, *workload_sets(sizes))
    deployment = load_deployment(given.file, sets)
    users = users_of(deployment)
    found = hardware(deployment, given.prices, given.gpus, catalog)
    asked = ask(deployment, catalog, given.cost_model)
    flags = sayable(asked.backend)
    joined = network(given.network) or deployment.network
    wish = Wish(limits, users, given.max_gpus, not given.lossless, flags, given.top, joined)
    chosen = searched(asked, found, wish, catalog)
    commands = {id(choice): engine_command(choice.question) for choice in chosen.every}
    return Answer(chosen, deployment, sets, str(given.file), commands)


def targets(texts: Sequence[str], throughput: float | None) -> Targets:
    """Limits as ``--slo`` and ``--min-throughput`` give them. Raises UsageError."""
    found: dict[str, float] = {}
    for text in (part.strip() for given in texts for part in given.split(",")):
        name, equals, value = text.partition("=")
        if name not in _TIMES:
            near = nearest(name, _TIMES)
            hint = f"did you mean {near!r}?" if near else f"one of {', '.join(_TIMES)}"
            raise UsageError(f"--slo has no limit {name[:40]!r}", hint)
        if not equals:
            raise UsageError(f"--slo {name} has no time", _AS)
        if name in found:
            raise UsageError(f"--slo names {name} twice", "which of the two is to be kept?")
        try:
            found[name] = SECONDS.parse(value)
        except ValueError as error:
            raise UsageError(f"--slo {name}: {error}", _AS) from None
        if not found[name]:
            raise UsageError(f"--slo {name}: must be greater than 0", _AS)
    if throughput is None and not found:
        raise UsageError("there is nothing to keep: no --slo, no --min-throughput", _AS)
    return Targets(found.get("ttft"), found.get("tpot"), found.get("latency"), throughput)


def network(text: str | None) -> NetworkSpec | None:
    """What joins nodes, as ``--network`` gives it. Raises UsageError."""
    if text is None:
        return None
    hint = "as in --network bandwidth=50GB/s,latency=10us"
    given = dict(part.strip().partition("=")[::2] for part in text.split(","))
    if set(given) != {"bandwidth", "latency"}:
        raise UsageError("--network takes bandwidth and latency", hint)
    try:
        bandwidth = BYTES_PER_S.parse(given["bandwidth"])
        SECONDS.parse(given["latency"])
    except ValueError as error:
        raise UsageError(f"--network: {error}", hint) from None
    if not bandwidth:
        raise UsageError("--network bandwidth: must be greater than 0", hint)
    return NetworkSpec.model_validate(given)


def workload_sets(sizes: Mapping[str, int | None]) -> tuple[str, ...]:
    """Users and lengths given on the command line, as ``--set`` takes them."""
    given = [f"workload.{name}={size}" for name, size in sizes.items() if size is not None]
    return ("workload.batch=null", *given) if sizes.get("concurrency") else tuple(given)


def users_of(deployment: DeploymentSpec) -> int:
    """The users of a deployment. Raises UsageError where it has none."""
    workload = deployment.workload
    if deployment.pools is not None:
        # what is chosen is one kind of server
        message, hint = "pools are not chosen for", "leave them out, or --set pools=null"
        raise SpecError([deployment.pools.origin.fault(message, hint, key=True)])
    if workload is None or workload.concurrency is None:
        hint = "--concurrency 32 --input 1024 --output 256, or workload.concurrency in the file"
        raise UsageError("it takes users to choose for", hint)
    return workload.concurrency


def hardware(
    deployment: DeploymentSpec, prices: Path | None, gpus: Sequence[str], catalog: Catalog
) -> tuple[Offer, ...]:
    """What may be rented: what the file of prices has, else the GPUs named, else the deployment's
    own. Raises UsageError for an unknown GPU, SpecError for a faulty file.
    """
    if prices is not None:
        found = cast("PricesSpec", load_file(prices, "prices"))
        _check(found, catalog)
        return offers(found, gpus)
    for name in gpus:
        catalog.find("gpu", name)
    return tuple(
        Offer(name, name, 1, deployment.price if name == deployment.gpu else None)
        for name in gpus or (deployment.gpu,)
    )


def _check(prices: PricesSpec, catalog: Catalog) -> None:
    """Refuse GPUs that no catalogue has, all at once. Raises SpecError."""
    places = [(name, prices.origin.at("gpus", name)) for name in prices.gpus]
    places += [
        (each.gpu, prices.origin.at("instances", name, "gpu"))
        for name, each in prices.instances.items()
    ]
    faults = []
    for name, origin in places:
        try:
            catalog.find("gpu", name)
        except UsageError as error:
            key = origin.path[-1] == name
            message = str(error).removesuffix(f" ({error.hint})")
            faults.append(origin.fault(message, error.hint, key=key))
    if faults:
        raise SpecError(faults)


def searched(asked: Question, found: Sequence[Offer], wish: Wish, catalog: Catalog) -> Chosen:
    """The choice, with progress on stderr once it takes more than a second."""
    ticker = Ticker()
    try:
        questions = _elsewhere(asked, found, catalog)
        return choose(asked, questions, found, wish, _later(ticker))
    finally:
        ticker.end()


def _later(ticker: Ticker) -> Callable[[str], None]:
    begin = time.monotonic()

    def tell(line: str) -> None:
        if time.monotonic() - begin > _QUIET_S:
            ticker(f"choosing: {line}")

    return tell


def _elsewhere(asked: Question, found: Sequence[Offer], catalog: Catalog) -> Mapping[str, Question]:
    """The deployment on each offer's GPU."""
    questions: dict[str, Question] = {}
    for gpu in dict.fromkeys(offer.gpu for offer in found):
        update: dict[str, object] = {"nodes": None, "network": None}
        if gpu != asked.deployment.gpu:
            update |= {"gpu": gpu, "price": None, "calibration": None}
        moved = asked.deployment.model_copy(update=update)
        alike = gpu == asked.deployment.gpu
        questions[gpu] = (
            replace(asked, deployment=moved) if alike else ask(moved, catalog, asked.cost_model)
        )
    return questions
