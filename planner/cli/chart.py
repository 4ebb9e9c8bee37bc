"""``planner chart``: a picture of a plan, a comparison or a choice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from planner.cli.common import completing
from planner.cli.common.options import (
    catalog_option,
    db_option,
    example,
    json_option,
    model_option,
    set_option,
    theme_option,
)
from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.charts.theme import Theme
    from planner.cli.common.subjects import Asked
    from planner.spec.question import CostModel

KINDS = {
    "roofline": "every kernel under its roof",
    "modes": "the step from eager launches to ideal fusion",
    "memory": "memory of one GPU",
    "batch": "steps by batch, or serving by users or rate",
    "context": "steps by context, or steps and serving by the length of prompts",
    "block": "the block's graph with its kernels",
    "timeline": "launches on host and GPU",
    "gpus": "one deployment on several GPUs (--gpu)",
    "diff": "two plans",
    "front": "price against speed, of what `planner choose --json` printed",
    "history": "recorded runs over what their plans predict",
}
"""By what a user types."""


@click.command(
    short_help="Draw a plan, a comparison or a choice.",
    epilog=example(
        "planner chart roofline specs/qwen2.5-7b-rtx4090.yaml -o roofline.svg",
        "planner chart diff 3f2a 91c0 -o diff.png",
        "planner chart gpus specs/qwen2.5-7b-rtx4090.yaml --gpu l40s,h100-sxm -o gpus.pdf",
        "planner chart history --baseline main -o history.svg",
    ),
)
@click.argument("kind", metavar="KIND", type=click.Choice(list(KINDS)))
@click.argument("names", metavar="[PLAN|FILE…]", nargs=-1)
@click.option(
    "-o",
    "--out",
    "files",
    type=click.Path(path_type=Path),
    metavar="FILE",
    multiple=True,
    help="Where to: .svg, .png, .pdf, .html (needs no network), .json for Vega-Lite. May be "
    "repeated.",
)
@click.option("--gpu", "gpus", metavar="G,G,…", help="GPUs to compare, for the kind gpus.")
@click.option("--block", metavar="NAME", help="Which kind of block; else the costliest.")
@click.option(
    "--baseline",
    metavar="NAME",
    shell_complete=completing.baselines,
    help="Runs of the plan of this baseline, for the kind history.",
)
@theme_option
@set_option
@catalog_option
@db_option
@model_option
@json_option
def command(
    *,
    kind: str,
    names: tuple[str, ...],
    files: tuple[Path, ...],
    gpus: str | None,
    block: str | None,
    baseline: str | None,
    theme: Theme,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    db: str | None,
    cost_model: CostModel,
    as_json: bool,
) -> None:
    """Draw one chart of KIND. A plan is a deployment file, the beginning of a stored plan's id, or
    JSON that a command printed.

    Kinds: roofline, modes, memory, batch, context, block and timeline of one plan; gpus of one
    deployment; diff of two plans; front of a choice; history of the runs of a stored plan, of a
    baseline, or of all. Charts need `pip install 'inference-planner[charts]'`.
    """
    from planner.charts.files import format_of, save_chart
    from planner.cli.common.output import write
    from planner.cli.common.planning import catalog_of
    from planner.cli.common.subjects import Asked
    from planner.report.document import to_json

    if not files and not as_json:
        raise UsageError("a chart needs a file", f"as in -o {kind}.svg; --json prints Vega-Lite")
    for file in files:
        format_of(file)
    asked = Asked(sets, catalog_of(catalogs), db, cost_model)
    chart = _drawn(kind, Wanted(names, gpus, block, baseline), asked, theme)
    for file in files:
        save_chart(chart, file)
    if as_json:
        write(to_json("chart", {"chart": kind, "vega_lite": chart.to_dict()}))
        return
    write("".join(f"{file}\n" for file in files))


class Wanted(NamedTuple):
    """What a command line draws of."""

    names: tuple[str, ...]
    gpus: str | None
    block: str | None
    baseline: str | None


def _drawn(kind: str, wanted: Wanted, asked: Asked, theme: Theme) -> Any:
    """The chart. Raises UsageError where the names are of something else than the kind draws."""
    from planner.charts.draw import PLAN_CHARTS, draw
    from planner.charts.gpus import diff_chart, gpus_chart
    from planner.cli.common.subjects import ChoiceSubject, PlanSubject, runs_of, subject
    from planner.plan.diff import PlanDiff

    if kind == "history":
        from planner.charts.history import history_chart

        return history_chart(runs_of(wanted.names, wanted.baseline, asked), theme=theme)
    if wanted.baseline is not None:
        raise UsageError("--baseline is for the kind history", "leave it out")
    found = subject(wanted.names, wanted.gpus, asked)
    if isinstance(found, PlanSubject) and kind in PLAN_CHARTS:
        return draw(kind, found.plan, found.question, block=wanted.block, theme=theme)
    if isinstance(found, PlanDiff) and kind == "diff":
        return diff_chart(found, theme=theme)
    if isinstance(found, tuple) and kind == "gpus":
        return gpus_chart(found, theme=theme)
    if isinstance(found, ChoiceSubject) and kind == "front":
        from planner.cli.common.sheets import front_of

        return front_of(found.document, theme)
    raise UsageError(f"there is nothing here for a chart of kind {kind}", _NEEDS.get(kind, _ONE))


_ONE = "name one deployment file or stored plan"
_NEEDS = {
    "diff": "name two plans",
    "gpus": "name one deployment, and GPUs with --gpu",
    "front": "name a file that `planner choose --json` printed",
}
