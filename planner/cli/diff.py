"""``planner diff``: two plans, or one deployment on several GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common import completing
from planner.cli.common.options import (
    catalog_option,
    db_option,
    example,
    json_option,
    model_option,
    set_option,
)
from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.plan.diff import GpuColumn, PlanDiff
    from planner.spec.question import CostModel


@click.command(
    short_help="Compare two plans, or one deployment on several GPUs.",
    epilog=example(
        "planner diff 3f2a 91c0",
        "planner diff before.yaml after.yaml",
        "planner diff specs/qwen2.5-7b-rtx4090.yaml --gpu rtx-4090,l40s,h100-sxm,h200-sxm",
    ),
)
@click.argument("a", shell_complete=completing.plans_or_files)
@click.argument("b", required=False, shell_complete=completing.plans_or_files)
@click.option(
    "--gpu",
    "gpus",
    metavar="G,G,…",
    shell_complete=completing.named("gpus"),
    help="GPUs to plan the deployment A on.",
)
@set_option
@catalog_option
@db_option
@model_option
@click.option("--markdown", is_flag=True, help="Of two plans: Markdown, for a pull request.")
@json_option
def command(
    *,
    a: str,
    b: str | None,
    gpus: str | None,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    db: str | None,
    cost_model: CostModel,
    markdown: bool,
    as_json: bool,
) -> None:
    """Compare plans A and B, each a file or the beginning of a stored plan's id.

    With --gpu, plan the one deployment A on several GPUs side by side. A price in the file counts
    for its own GPU alone. --set changes every file that is planned.
    """
    from planner.cli.common.planning import catalog_of, named_plan
    from planner.desk.comparing import plans_on
    from planner.plan.diff import diff, side_by_side
    from planner.spec.load import deployments_in

    if (b is None) == (gpus is None):
        hint = "planner diff --help"
        raise UsageError("diff takes two plans, or one deployment with --gpu", hint)
    if markdown and (as_json or gpus is not None):
        hint = "planner diff A B --markdown"
        raise UsageError("--markdown is of two plans, without --json", hint)
    catalog = catalog_of(catalogs)
    if gpus is not None:
        plans = plans_on(deployments_in(Path(a)), gpus.split(","), sets, catalog, cost_model)
        found = {name: catalog.find("gpu", name) for name in plans}
        _print_gpus(side_by_side(plans, found), as_json)
    if b is not None:
        first, second = (named_plan(name, sets, catalog, db, cost_model) for name in (a, b))
        _print_two(diff(first, second), as_json=as_json, markdown=markdown)


def _print_two(change: PlanDiff, *, as_json: bool, markdown: bool) -> None:
    from planner.cli.common.output import show, write
    from planner.plan.values import plain
    from planner.report.diff import diff_view
    from planner.report.diff_markdown import diff_markdown
    from planner.report.document import to_json

    if as_json:
        write(to_json("diff", plain(change)))
    elif markdown:
        write(diff_markdown(change))
    else:
        show(diff_view(change))


def _print_gpus(columns: tuple[GpuColumn, ...], as_json: bool) -> None:
    from planner.cli.common.output import show, write
    from planner.plan.values import plain
    from planner.report.diff import gpus_view
    from planner.report.document import to_json

    if as_json:
        write(to_json("gpus", {"gpus": plain(columns)}))
    else:
        show(gpus_view(columns))
