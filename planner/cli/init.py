"""``planner init``: a first deployment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common import completing
from planner.cli.common.options import catalog_option, example, json_option
from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.cli.common.beginning import Answers, Begun, Load
    from planner.spec.catalog import Catalog

_USUAL = {"model": "qwen2.5-7b-instruct", "gpu": "h100-sxm", "engine": "vllm"}
_COUNT = click.IntRange(1, 100_000_000)


@click.command(
    short_help="Write a first deployment, from a few questions.",
    epilog=example(
        "planner init",
        "planner init --model qwen3-8b --gpu l40s --engine vllm -o deploy.yaml --yes",
        "planner init --model llama-3.3-70b-instruct --gpu h100-sxm --users 64 --yes",
    ),
)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=completing.named("models"),
    help="A model of the catalogue, or the path of a spec or config.json.",
)
@click.option("--gpu", metavar="NAME", shell_complete=completing.named("gpus"), help="A GPU.")
@click.option(
    "--engine", metavar="NAME", shell_complete=completing.named("backends"), help="An engine."
)
@click.option(
    "--tp", type=_COUNT, metavar="N", help="Tensor-parallel GPUs; by default the fewest that fit."
)
@click.option("--users", type=_COUNT, metavar="N", help="Users in a closed loop.")
@click.option("--input", "input_", type=_COUNT, metavar="N", help="Prompt tokens of a request.")
@click.option("--output-tokens", type=_COUNT, metavar="N", help="Tokens of each answer.")
@click.option("--batch", type=_COUNT, metavar="N", help="Or a decode step: its sequences.")
@click.option("--context", type=_COUNT, metavar="N", help="And their tokens so far.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("deploy.yaml"),
    show_default=True,
    metavar="FILE",
    help="The file to write.",
)
@click.option("--yes", is_flag=True, help="Ask nothing: what is not given is as usual.")
@click.option("--force", is_flag=True, help="Write over an existing FILE.")
@catalog_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    output: Path,
    yes: bool,
    force: bool,
    catalogs: tuple[Path, ...],
    as_json: bool,
    **given: str | int | None,
) -> None:
    """Ask for model, GPU, engine and load, and write a commented deployment that plans at once.

    It is planned before it is written, over the fewest GPUs of a node that it fits on. Exits with 1
    when it fits on none of them; the file is written all the same.
    """
    from planner.cli.common.beginning import begun, refuse_existing, save
    from planner.cli.common.planning import catalog_of

    refuse_existing(output, force=force)
    catalog = catalog_of(catalogs)
    answers = _answers(given, catalog, asks=not yes)
    found = begun(answers, catalog, output)
    save(output, found.text, force=force)
    _tell(output, found, as_json=as_json)
    ctx.exit(0 if found.plan.memory.fits else 1)


def _answers(given: dict[str, str | int | None], catalog: Catalog, *, asks: bool) -> Answers:
    """What the options say, and of the rest the answers or the usual."""
    from planner.cli.common import asking
    from planner.cli.common.beginning import Answers

    load = _load(given)
    names = {}
    for option, kind in (("model", "model"), ("gpu", "gpu"), ("engine", "backend")):
        name = given[option]
        if name is None and asks:
            name = asking.name_of(kind, option.replace("gpu", "GPU"), _USUAL[option], catalog)
        names[option] = str(name or _USUAL[option])
        catalog.find(kind, names[option])
    tensor = given["tp"]
    if tensor is None and asks:
        tensor = asking.count_or_auto("GPUs that share the model (tensor parallel)")
    if load is None and asks:
        load = _asked_load(names["engine"], catalog)
    return Answers(**names, tensor=None if tensor is None else int(tensor), load=load)


def _load(given: dict[str, str | int | None]) -> Load | None:
    """The load of the options; None without any. Raises UsageError for a mixture."""
    from planner.cli.common.beginning import STEP, USERS

    users = {"concurrency": "users", "input": "input_", "output": "output_tokens"}
    step = {name: name for name in STEP}
    said = [any(given[o] is not None for o in options.values()) for options in (users, step)]
    if all(said):
        raise UsageError("a load is users or a step", "drop --batch and --context, or the others")
    if said[0]:
        return {"workload": {name: given[o] or USERS[name] for name, o in users.items()}}
    return {"step": {"decode": {n: given[n] or STEP[n] for n in step}}} if said[1] else None


def _asked_load(engine: str, catalog: Catalog) -> Load | None:
    """Users, of an engine that serves requests; of others the usual step."""
    from planner.cli.common import asking
    from planner.cli.common.beginning import USERS

    if catalog.find("backend", engine).serving is None:
        return None
    words = {"concurrency": "users at once", "input": "prompt tokens", "output": "answer tokens"}
    return {"workload": {name: asking.count(said, USERS[name]) for name, said in words.items()}}


def _tell(file: Path, found: Begun, *, as_json: bool) -> None:
    from planner.cli.common.output import write
    from planner.report.document import to_json
    from planner.units import show_seconds

    plan = found.plan
    if as_json:
        body = {"file": str(file), "deployment": plan.deployment, "fits": plan.memory.fits}
        write(to_json("init", {**body, "step_s": plan.step.time_s, "text": found.text}))
        return
    said = plan.described
    fits = "it fits" if plan.memory.fits else "it DOES NOT FIT"
    write(
        f"{file}: {said['model']} on {plan.cost.gpus} × {said['device']}, {said['workload']}\n"
        f"{show_seconds(plan.step.time_s)} a step, {fits}\n"
        f"next: planner plan {file}\n"
    )
