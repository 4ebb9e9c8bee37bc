"""``planner catalog``: what ships, and what a user's folders add."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common import completing
from planner.cli.common.options import catalog_option, example, json_option

if TYPE_CHECKING:
    from planner.cli.common.deep import Planned


@click.group(
    short_help="GPUs, models, engines, operators: list, show, check.",
    epilog=example("planner catalog list gpus"),
)
def command() -> None:
    """Look into the catalogue: GPUs, models, engines and the operators blocks are made of."""


@command.command(
    "list", short_help="List one kind, or all kinds.", epilog=example("planner catalog list gpus")
)
@click.argument("kind", required=False, shell_complete=completing.kinds)
@catalog_option
@json_option
def list_(kind: str | None, catalogs: tuple[Path, ...], as_json: bool) -> None:
    """List a KIND: gpus, models, blocks, backends, calibrations, prices, spreads or ops; or all
    kinds.
    """
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of
    from planner.desk import catalogue
    from planner.report.catalog import catalog_view, kinds_view
    from planner.report.document import to_json

    catalog = catalog_of(catalogs)
    folder = catalogue.folder_of(kind) if kind else "kinds"
    rows = catalogue.rows(catalog, folder) if kind else catalogue.kinds(catalog)
    if as_json:
        write(to_json("catalog", {"entries_kind": folder, "entries": rows}))
    else:
        show(catalog_view(folder, rows) if kind else kinds_view(rows))


@command.command(
    short_help="Show one entry with its sources.",
    epilog=example("planner catalog show gpus rtx-4090"),
)
@click.argument("kind", shell_complete=completing.kinds)
@click.argument("name", shell_complete=completing.entries)
@catalog_option
@json_option
def show(kind: str, name: str, catalogs: tuple[Path, ...], as_json: bool) -> None:
    """Show the entry NAME of a KIND, with the source of every figure."""
    from planner.cli.common import output
    from planner.cli.common.planning import catalog_of
    from planner.desk import catalogue
    from planner.report.catalog import entry_view
    from planner.report.document import to_json

    entry = catalogue.entry(catalog_of(catalogs), catalogue.folder_of(kind), name)
    if as_json:
        body = {"figures": entry.figures, "entry": entry.content}
        output.write(to_json("catalog-entry", {"name": name, **body}))
    else:
        output.show(entry_view(entry.title, entry.about, entry.figures, entry.text))


@command.command(
    short_help="Check that files load, cite and add up.",
    epilog=example("planner catalog check --catalog ./my-catalog"),
)
@click.option("--deep", is_flag=True, help="Plan every model on ten GPUs too.")
@catalog_option
@json_option
@click.pass_context
def check(ctx: click.Context, *, deep: bool, catalogs: tuple[Path, ...], as_json: bool) -> None:
    """Check every file: it loads, its figures have sources, models have the published size.

    Exits with 1 when something is wrong. With --deep also says what plans nowhere, and why.
    """
    from planner.cli.common.audit import audit
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of
    from planner.plan.values import plain
    from planner.report.catalog import check_view, deep_view
    from planner.report.document import to_json

    found = audit(catalog_of(catalogs))
    planned = _planned(catalogs) if deep and not found.faults else []
    if as_json:
        more = {"planned": plain(planned)} if deep else {}
        write(to_json("catalog-check", {**plain(found), **more}))
    else:
        show(check_view(found.counts, found.worst, found.faults))
        if planned:
            refused = {(each.model, each.gpu): each.reason for each in planned if each.reason}
            show(deep_view(len(planned), refused))
    if found.faults:
        ctx.exit(1)


def _planned(catalogs: tuple[Path, ...]) -> list[Planned]:
    from planner.cli.common.deep import planned_everywhere
    from planner.cli.common.ticker import Ticker

    ticker = Ticker()
    try:
        return list(planned_everywhere(catalogs, ticker))
    finally:
        ticker.end()
