"""``planner history``: predicted and measured over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common import completing
from planner.cli.common.options import db_option, example, json_option, theme_option

if TYPE_CHECKING:
    from planner.charts.theme import Theme


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
    help="Draw it too: .html (needs no network), .png, .svg, .pdf, or .json for Vega-Lite.",
)
@theme_option
@db_option
@json_option
def command(
    *,
    plan_id: str | None,
    baseline: str | None,
    limit: int,
    chart: Path | None,
    theme: Theme,
    db: str | None,
    as_json: bool,
) -> None:
    """Show recorded runs, the newest first, each figure beside what its plan predicts.

    Charts need `pip install 'inference-planner[charts]'`.
    """
    from planner.charts.files import format_of, save_chart
    from planner.cli.common.output import show, write
    from planner.desk.history import recorded
    from planner.report.document import to_json
    from planner.report.verdicts import history_view

    if chart is not None:
        format_of(chart)
    rows = recorded(db, plan=plan_id, baseline=baseline, limit=limit)
    if chart is not None:
        from planner.charts.history import history_chart

        save_chart(history_chart(rows, theme=theme), chart)
    if as_json:
        write(to_json("history", {"rows": rows}))
        return
    show(history_view(rows))
    if chart is not None:
        write(f"\nchart: {chart}\n")
