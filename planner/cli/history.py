"""``planner history``: predicted and measured over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.common import completing
from planner.cli.common.options import db_option, example, json_option
from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.plan.types import Plan
    from planner.store.repository import Store
    from planner.store.types import RunRow


@click.command(
    short_help="Predicted and measured over time.",
    epilog=example(
        "planner history --plan 3f2a",
        "planner history --baseline main --limit 200 --chart history.html",
    ),
)
@click.option(
    "--plan",
    "plan_id",
    metavar="ID",
    shell_complete=completing.plan_ids,
    help="Only runs of this plan.",
)
@click.option(
    "--baseline",
    metavar="NAME",
    shell_complete=completing.baselines,
    help="Only runs of the plan of this baseline.",
)
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="The most runs to show.",
)
@click.option(
    "--chart",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw it too: .html (needs no network), .png, .svg, or .json for Vega-Lite.",
)
@db_option
@json_option
def command(
    *,
    plan_id: str | None,
    baseline: str | None,
    limit: int,
    chart: Path | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Show recorded runs, the newest first, each figure beside what its plan predicts.

    Charts need `pip install 'inference-planner[charts]'`.
    """
    from planner.cli.common.output import show, write
    from planner.report.charts import format_of, save_chart
    from planner.report.document import to_json
    from planner.report.verdicts import history_view
    from planner.store.database import open_store

    if plan_id is not None and baseline is not None:
        raise UsageError("history takes a plan or a baseline, not both", "leave one out")
    if chart is not None:
        format_of(chart)
    with open_store(db) as store:
        rows = _rows(store, _plan(store, plan_id, baseline), limit)
    if chart is not None:
        from planner.report.history_chart import history_chart

        save_chart(history_chart(rows), chart)
    if as_json:
        write(to_json("history", {"rows": rows}))
        return
    show(history_view(rows))
    if chart is not None:
        write(f"\nchart: {chart}\n")


def _plan(store: Store, plan_id: str | None, baseline: str | None) -> str | None:
    """The whole id of the plan that is asked for."""
    if plan_id is not None:
        return store.plan(plan_id).plan_id
    if baseline is None:
        return None
    found = store.run(store.baseline(baseline).run_id).plan_id
    if found is None:
        raise UsageError(f"the run of baseline {baseline!r} belongs to no plan")
    return found


def _rows(store: Store, plan_id: str | None, limit: int) -> list[dict[str, Any]]:
    plans: dict[str | None, Plan | None] = {}
    names = {row.run_id: row.name for row in store.baselines()}
    rows = []
    for row in store.runs(limit, plan_id):
        if row.plan_id not in plans:
            plans[row.plan_id] = _kept_plan(store, row.plan_id)
        rows += _figures(row, plans[row.plan_id], names.get(row.run_id))
    return rows


def _kept_plan(store: Store, plan_id: str | None) -> Plan | None:
    """The plan of a run; None where it isn't in this store: a run is a fact without it too."""
    from planner.cli.common.measured import plan_of_run

    try:
        return plan_of_run(store, plan_id)
    except UsageError:
        return None


def _figures(row: RunRow, plan: Plan | None, baseline: str | None) -> list[dict[str, Any]]:
    """A line for each figure that the plan predicts; one without prediction where there is none."""
    from planner.plan.history import history_figures
    from planner.plan.values import plain

    head = {"run_id": row.run_id, "plan_id": row.plan_id, "recorded_at": row.recorded_at}
    head |= {"plan": plan.name if plan else None, "baseline": baseline}
    figures = history_figures(row.metrics, plan)
    return [head | {"tool": row.tool} | plain(each) for each in figures]
