"""``planner accept``: is a run what was planned, and no worse than the accepted one?"""

from __future__ import annotations

import click

from planner.cli.common import completing
from planner.cli.common.options import db_option, example, json_option

EXIT_CODES = {"pass": 0, "improve": 0, "regress": 1, "incomparable": 2, "too_few_samples": 2}


@click.command(
    short_help="Judge a run by its plan and its baseline.",
    epilog=example("planner accept 91c0", "planner accept 91c0 --baseline main --json"),
)
@click.argument("run_id", metavar="RUN", shell_complete=completing.run_ids)
@click.option(
    "--baseline",
    metavar="NAME",
    shell_complete=completing.baselines,
    help="The baseline to hold it against; else the newest that was recorded for the same plan.",
)
@db_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, *, run_id: str, baseline: str | None, db: str | None, as_json: bool
) -> None:
    """Judge the recorded run whose id begins with RUN: pass, improve or regress.

    A baseline decides; without one, or where none was named and it has nothing in common with the
    run, the 80 % interval of the plan does. Exits with 1 on regress, and
    with 2 where the two cannot be compared or the samples are too few to tell.
    """
    from planner.cli.common.output import show, write
    from planner.desk.judging import judged
    from planner.desk.measured import verdict_document
    from planner.report.document import to_json
    from planner.report.verdicts import verdict_view
    from planner.store.database import open_store

    with open_store(db) as store:
        stored, verdict = judged(store, run_id, baseline)
    if as_json:
        body = {"run_id": stored.run_id, "plan_id": stored.plan_id, **verdict_document(verdict)}
        write(to_json("verdict", body))
    else:
        show(verdict_view(stored.run_id, verdict))
    ctx.exit(EXIT_CODES[verdict.verdict])
