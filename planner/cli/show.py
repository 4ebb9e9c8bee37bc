"""``planner show``: a stored plan."""

from __future__ import annotations

import click

from planner.cli.common import completing
from planner.cli.common.options import db_option, example, explain_option, json_option, only_option


@click.command(short_help="Print a stored plan.", epilog=example("planner show 3f2a"))
@click.argument("plan_id", metavar="ID", shell_complete=completing.plan_ids)
@db_option
@json_option
@explain_option
@only_option
def command(
    plan_id: str, db: str | None, as_json: bool, explain: bool, only: tuple[str, ...]
) -> None:
    """Print the stored plan whose id begins with ID, as it was when it was planned."""
    from planner.cli.common.output import show, write
    from planner.desk import archive
    from planner.report.document import plan_document, to_json
    from planner.report.plan import plan_view
    from planner.store.database import open_store

    with open_store(db) as store:
        row = store.plan(plan_id)
    plan, advice = archive.restored(row)
    if as_json:
        write(to_json("plan", plan_document(plan, advice)))
        return
    show(plan_view(plan, advice, explain=explain, only=only))
    write(f"\nplan {plan.plan_id}: saved {row.created_at:%Y-%m-%d %H:%M} UTC\n")
