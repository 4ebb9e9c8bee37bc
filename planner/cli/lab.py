"""``planner lab``: measures the machine at hand, and holds it against its plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common.options import (
    catalog_option,
    db_option,
    example,
    json_option,
    set_option,
)

if TYPE_CHECKING:
    from planner.cli.common.lab_report import Followed
    from planner.cli.common.ticker import Ticker
    from planner.spec.catalog import Catalog

SPEC = "qwen2.5-0.5b-lab.yaml"
_FILE = click.argument("file", required=False, type=click.Path(path_type=Path))
_DEVICE = click.option(
    "--device",
    type=click.Choice(["auto", "cuda", "cpu"]),
    default="auto",
    show_default=True,
    help="What to measure; auto: the GPU where torch sees one.",
)
_MODE = click.option(
    "--quick/--full",
    default=True,
    show_default=True,
    help="Under 90 s on a machine that is left alone, or some minutes.",
)
_OUT = click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("lab"),
    show_default=True,
    help="Folder for what is measured and made of it.",
)


@click.group(
    short_help="Measure the machine at hand.",
    epilog=example("planner lab run"),
)
def command() -> None:
    """Measure ceilings, launch costs and a decode step with torch, and learn from them."""


@command.command(
    short_help="Measure, calibrate, plan and judge.",
    epilog=example(
        "planner lab run",
        "planner lab run my-model.yaml --set step.decode.batch=8 --full --out lab-h100",
    ),
)
@_FILE
@set_option
@_DEVICE
@_MODE
@_OUT
@click.option("--force", is_flag=True, help="Measure a busy or throttling machine all the same.")
@click.option("--fresh", is_flag=True, help="Forget what the folder holds already.")
@catalog_option
@db_option
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    *,
    file: Path | None,
    sets: tuple[str, ...],
    device: str,
    quick: bool,
    out: Path,
    force: bool,
    fresh: bool,
    catalogs: tuple[Path, ...],
    db: str | None,
    as_json: bool,
) -> None:
    """Measure this machine with the decode step of FILE, and hold the step against its plan.

    In turn: achieved FLOP/s of the model's projections over M, copy and triad bandwidth, decode
    attention, launch costs, all-reduce where there are several GPUs, and the whole step, op by op
    in torch. Kernel models are fitted to the parts; the step was in no fit, so that its prediction
    is a test. A run that was stopped goes on where it was. FILE is by default a small model's.

    Needs torch and SciPy: `pip install 'inference-planner[lab]'`. Exits with 1 where the step is
    slower than planned, with 2 where the machine is busy.
    """
    from planner.cli.accept import EXIT_CODES
    from planner.cli.common.lab import job_of
    from planner.cli.common.lab_report import follow
    from planner.lab.run import run as measure

    catalog, spec = _catalog(catalogs), _spec(file)
    job = job_of(spec, sets, catalog, _device(device), _budget_s(quick=quick))
    with _progress() as tell:
        notes = measure(job, out, progress=tell, force=force, fresh=fresh)
        found = follow(spec, sets, out, catalogs, db, day=_today(), progress=tell, notes=notes)
    _show(found, as_json=as_json)
    ctx.exit(EXIT_CODES[found.verdict.verdict])


@command.command(
    short_help="Write a job for a machine that has torch alone.",
    epilog=example("planner lab job my-model.yaml > job.json"),
)
@_FILE
@set_option
@_DEVICE
@_MODE
@catalog_option
def job(
    *,
    file: Path | None,
    sets: tuple[str, ...],
    device: str,
    quick: bool,
    catalogs: tuple[Path, ...],
) -> None:
    """Print what `planner lab run FILE` would measure, as a job for another machine.

    There `python -m planner.lab job.json lab` measures it: that part of the package needs torch and
    NumPy alone. Bring the folder back and give it to `planner lab take`.
    """
    from planner.cli.common.lab import job_of
    from planner.cli.common.output import write
    from planner.lab.job import to_json

    wanted = "cuda" if device == "auto" else device
    made = job_of(_spec(file), sets, _catalog(catalogs), wanted, _budget_s(quick=quick))
    write(to_json(made) + "\n")


@command.command(
    short_help="Learn from a folder that was measured elsewhere.",
    epilog=example("planner lab take my-model.yaml --out lab"),
)
@_FILE
@set_option
@_OUT
@catalog_option
@db_option
@json_option
@click.pass_context
def take(
    ctx: click.Context,
    *,
    file: Path | None,
    sets: tuple[str, ...],
    out: Path,
    catalogs: tuple[Path, ...],
    db: str | None,
    as_json: bool,
) -> None:
    """Do what `planner lab run FILE` does after measuring, with the folder of a job of FILE."""
    from planner.cli.accept import EXIT_CODES
    from planner.cli.common.lab_report import follow

    spec = _spec(file)
    with _progress() as tell:
        found = follow(spec, sets, out, catalogs, db, day=_today(), progress=tell)
    _show(found, as_json=as_json)
    ctx.exit(EXIT_CODES[found.verdict.verdict])


def _spec(file: Path | None) -> Path:
    from planner.resources import folder

    return file or folder("specs") / SPEC


def _catalog(catalogs: tuple[Path, ...]) -> Catalog:
    from planner.cli.common.planning import catalog_of

    return catalog_of(catalogs)


def _device(said: str) -> str:
    from planner.lab.machine import require_torch

    if said != "auto":
        return said
    return "cuda" if require_torch().cuda.is_available() else "cpu"


def _budget_s(*, quick: bool) -> float:
    from planner.lab.job import FULL_S, QUICK_S

    return QUICK_S if quick else FULL_S


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


@contextmanager
def _progress() -> Iterator[Ticker]:
    from planner.cli.common.ticker import Ticker

    ticker = Ticker()
    try:
        yield ticker
    finally:
        ticker.end()


def _show(found: Followed, *, as_json: bool) -> None:
    from planner.cli.common.output import show, write
    from planner.report.document import to_json

    if as_json:
        write(to_json("lab", found.document))
    else:
        show(found.view)
