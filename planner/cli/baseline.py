"""``planner baseline``: names for accepted runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planner.cli.common import completing
from planner.cli.common.options import db_option, example, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.store.types import BaselineRow


@click.group(
    short_help="Name accepted runs to hold others against.",
    epilog=example("planner baseline set main 91c0"),
)
def command() -> None:
    """Name accepted runs, to hold others against. One that is replaced stays on record."""


@command.command(
    "set",
    short_help="Let a name stand for a run.",
    epilog=example("planner baseline set main 91c0 --by ci"),
)
@click.argument("name", shell_complete=completing.baselines)
@click.argument("run_id", metavar="RUN", shell_complete=completing.run_ids)
@click.option("--by", "set_by", metavar="WHO", help="Who accepts it; by default your login.")
@db_option
@json_option
def set_(*, name: str, run_id: str, set_by: str | None, db: str | None, as_json: bool) -> None:
    """Let NAME stand for the recorded run whose id begins with RUN, in place of any other."""
    from planner.cli.common.output import write
    from planner.report.document import to_json
    from planner.store.database import open_store

    with open_store(db) as store:
        row = store.set_baseline(name, run_id, set_by or _login())
    if as_json:
        write(to_json("baseline", vars(row)))
    else:
        write(f"baseline {row.name} is run {row.run_id}\n")


@command.command(
    "list", short_help="List the present baselines.", epilog=example("planner baseline list")
)
@db_option
@json_option
def list_(*, db: str | None, as_json: bool) -> None:
    """List which run each name stands for at present."""
    from planner.store.database import open_store

    with open_store(db) as store:
        _print(store.baselines(), as_json)


@command.command(
    short_help="Show what a name has stood for.", epilog=example("planner baseline show main")
)
@click.argument("name", shell_complete=completing.baselines)
@db_option
@json_option
def show(*, name: str, db: str | None, as_json: bool) -> None:
    """Show every run NAME has stood for, the present one first: who set it, in place of which."""
    from planner.store.database import open_store

    with open_store(db) as store:
        _print(store.baseline_history(name), as_json)


def _print(rows: Sequence[BaselineRow], as_json: bool) -> None:
    from planner.cli.common.output import show as print_view
    from planner.cli.common.output import write
    from planner.report.document import to_json
    from planner.report.verdicts import baselines_view

    listed = [vars(row) for row in rows]
    if as_json:
        write(to_json("baselines", {"baselines": listed}))
    else:
        print_view(baselines_view(listed))


def _login() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user may have no name
        return "unknown"
