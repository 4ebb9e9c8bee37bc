"""``planner kernels``: measured kernels of a run against those of its plan."""

from __future__ import annotations

import click

from planner.cli.common import completing
from planner.cli.common.options import db_option, example, json_option


@click.command(
    short_help="Measured kernels of a run against its plan's.",
    epilog=example(
        "planner kernels 91c0", "planner kernels 91c0 --steps", "planner kernels 91c0 --json"
    ),
)
@click.argument("run_id", metavar="RUN", shell_complete=completing.run_ids)
@click.option("--all", "whole", is_flag=True, help="Every kernel, and names in full.")
@click.option("--steps", is_flag=True, help="Also one step in order, launch by launch.")
@db_option
@json_option
def command(*, run_id: str, whole: bool, steps: bool, db: str | None, as_json: bool) -> None:
    """Measured kernels of the recorded run whose id begins with RUN, against the plan's.

    The engine's name rules say which measured kernel may be which of the plan; where the trace
    keeps the order of launches, that decides, and otherwise kernels of one name are one row. What
    puts the step off by most comes first, then measured kernels that no rule knows, and kernels of
    the plan that were not found.
    """
    from planner.cli.common.output import show, write
    from planner.desk.measured import match_document, matched
    from planner.report.document import to_json
    from planner.report.kernel_match import match_view, sequence_view
    from planner.store.database import open_store

    with open_store(db) as store:
        stored, plan, found = matched(store, run_id)
    if as_json:
        write(to_json("kernels", match_document(stored, found, steps=steps)))
        return
    show(match_view(stored.run_id, plan, found, whole=whole))
    if steps:
        show(sequence_view(plan, found))
