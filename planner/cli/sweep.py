"""``planner sweep``: many deployments at once."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.common.options import (
    catalog_option,
    example,
    json_option,
    model_option,
    set_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.desk.sweep_grid import Grid
    from planner.desk.sweep_summary import Summary
    from planner.desk.sweep_tasks import Executor
    from planner.spec.question import CostModel


@click.command(
    short_help="Plan many deployments at once: a grid, or a table of cases.",
    epilog=example(
        "planner sweep deploy.yaml --over gpu=h100-sxm,h200-sxm,tp=1:8,batch=1:512",
        "planner sweep deploy.yaml --over context=1024:8192:1024 --sort step_ms -o grid.csv",
        "planner sweep --cases cases.csv -o answered.csv",
    ),
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--over",
    "overs",
    metavar="NAME=VALUES",
    multiple=True,
    help="A field of FILE and its values, joined by commas: a:b doubles from a and ends with b, "
    "a:b:step counts. Short names are tp, pp, dp, ep, batch, context, precision, engine, version. "
    "May be repeated.",
)
@click.option(
    "--cases",
    metavar="CSV",
    type=click.Path(path_type=Path),
    help="A table instead of FILE: its columns are an id and the paths of a deployment.",
)
@click.option(
    "-o",
    "--out",
    metavar="CSV",
    type=click.Path(path_type=Path),
    help="Write every row there with what is predicted of it. An interrupted sweep goes on.",
)
@click.option(
    "--sort",
    type=click.Choice(
        ["tok_s_per_gpu", "tok_s", "step_ms", "tpot_ms", "ttft_ms", "latency_s", "usd_per_mtok"]
    ),
    default="tok_s_per_gpu",
    help="What rows are ranked by; those that do not fit come last (tok_s_per_gpu by default).",
)
@click.option(
    "--top", type=click.IntRange(min=0), default=20, help="Rows shown: 20 by default, 0 for all."
)
@click.option(
    "--executor",
    type=click.Choice(["local", "ray"]),
    default="local",
    help="Who plans: this process, or the workers of a Ray cluster (the address in RAY_ADDRESS, "
    "else this machine's cores).",
)
@set_option
@catalog_option
@model_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    file: Path | None,
    overs: tuple[str, ...],
    cases: Path | None,
    out: Path | None,
    sort: str,
    top: int,
    executor: str,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    cost_model: CostModel,
    as_json: bool,
) -> None:
    """Plan every combination of --over of the deployment in FILE, or every row of a table.

    Rows that differ in the sizes of their load alone (batch, context, users, lengths) are planned
    together: a hundred thousand steps a second, tens of thousands of static batches, thousands of
    closed loops. Each row is what `planner plan` says of it. A row that is wrong has its error in
    the column `error` and costs no other.

    Exits with 1 where no row fits, with 2 where all are wrong, or any of a table.
    """
    from planner.cli.common.executors import executor_of
    from planner.desk.sweep_grid import grid_of
    from planner.desk.sweep_summary import Summary
    from planner.desk.sweep_tasks import Circumstances
    from planner.spec.load import deployments_in

    _check(file, cases, (*overs, *sets))
    summary = Summary(sort, top)
    with executor_of(executor, Circumstances(catalogs, cost_model=cost_model)) as found:
        if file is not None:
            columns = _grid(grid_of(deployments_in(file), sets, overs), out, found, summary)
        else:
            assert cases
            columns = _table(cases, out, found, summary)
    _told({**summary.document(), "out": str(out) if out else None}, columns, as_json=as_json)
    ctx.exit(summary.exit_code(strict=cases is not None))


@contextmanager
def _interrupted(out: Path | None) -> Iterator[None]:
    """Say at Ctrl-C what becomes of the rows."""
    try:
        yield
    except KeyboardInterrupt:
        if out:
            click.echo(f"\nrows so far are in {out}.part: the same command goes on", err=True)
        raise


def _check(file: Path | None, cases: Path | None, changes: tuple[str, ...]) -> None:
    from planner.errors import UsageError

    if (file is None) == (cases is None):
        hint = "planner sweep deploy.yaml --over batch=1:512, or planner sweep --cases cases.csv"
        raise UsageError("a sweep is of a FILE or of --cases", hint)
    if cases and changes:
        raise UsageError("--over and --set change a FILE, not the rows of --cases")


def _told(document: dict[str, Any], columns: tuple[str, ...], *, as_json: bool) -> None:
    from planner.cli.common.output import show, write
    from planner.report.document import to_json
    from planner.report.sweep import sweep_view

    if as_json:
        write(to_json("sweep", document))
    else:
        show(sweep_view(document, columns))


def _grid(grid: Grid, out: Path | None, executor: Executor, summary: Summary) -> tuple[str, ...]:
    """The rows of a grid; the columns that tell them apart."""
    from planner.cli.common.progress import Progress
    from planner.desk.sweep_file import part_of

    names, progress = tuple(axis.path for axis in grid.axes), Progress()
    with ExitStack() as stack:
        stack.enter_context(_interrupted(out))
        part = stack.enter_context(part_of(out, names)) if out else None
        if part:
            summary.resume(part.done)
        for piece in grid.pieces(executor, part.done.rows if part else 0):
            if part:
                for place in range(piece.count):
                    part.write(piece.row(place))
                part.keep()
            summary.take(piece)
            progress.add(piece.count)
    return names


def _table(cases: Path, out: Path | None, executor: Executor, summary: Summary) -> tuple[str, ...]:
    """The rows of a table; the columns that tell them apart."""
    from planner.cli.common.progress import Progress
    from planner.desk.sweep_file import part_of
    from planner.desk.sweep_rows import case_rows
    from planner.spec.cases import open_cases

    progress = Progress()
    with ExitStack() as stack:
        stack.enter_context(_interrupted(out))
        table = stack.enter_context(open_cases(cases))
        part = stack.enter_context(part_of(out, [c.name for c in table.columns])) if out else None
        if part:
            summary.resume(part.done)
        for row in case_rows(table, executor, part.done.rows if part else 0):
            if part:
                part.write(row)
                part.keep()
            summary.add(row)
            progress.add()
    return ("id",)
