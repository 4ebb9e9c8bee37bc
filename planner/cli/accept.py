"""``planner accept``: is a run what was planned, and no worse than the accepted one?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from planner.cli.common import completing
from planner.cli.common.options import db_option, example, json_option

if TYPE_CHECKING:
    from planner.plan.verdict import Reference, Verdict
    from planner.store.repository import Store
    from planner.store.types import StoredRun

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
    from planner.cli.common.measured import verdict_document
    from planner.cli.common.output import show, write
    from planner.report.document import to_json
    from planner.report.verdicts import verdict_view
    from planner.store.database import open_store

    with open_store(db) as store:
        stored, verdict = _judged(store, run_id, baseline)
    if as_json:
        body = {"run_id": stored.run_id, "plan_id": stored.plan_id, **verdict_document(verdict)}
        write(to_json("verdict", body))
    else:
        show(verdict_view(stored.run_id, verdict))
    ctx.exit(EXIT_CODES[verdict.verdict])


def _judged(store: Store, run_id: str, baseline: str | None) -> tuple[StoredRun, Verdict]:
    from planner.cli.common.measured import plan_of_run
    from planner.plan.acceptance import accept

    stored = store.run(run_id)
    plan = plan_of_run(store, stored.plan_id)
    verdict = accept(stored.run, plan, _baseline(store, stored, baseline))
    if baseline is None and verdict.verdict == "incomparable" and not verdict.impossible:
        # Nobody asked for this baseline: where it has nothing to say, the plan decides.
        verdict = _by_the_other(verdict)
    return stored, verdict


def _by_the_other(verdict: Verdict) -> Verdict:
    from dataclasses import replace

    if not verdict.others:
        return verdict
    return replace(verdict.others[0], others=(replace(verdict, others=()),))


def _baseline(store: Store, stored: StoredRun, name: str | None) -> Reference | None:
    from planner.cli.common.measured import reference

    if name is not None:
        return reference(store, store.baseline(name))
    if stored.plan_id is None:
        return None
    of_plan = store.baselines(stored.plan_id)
    return reference(store, max(of_plan, key=lambda row: row.set_at)) if of_plan else None
