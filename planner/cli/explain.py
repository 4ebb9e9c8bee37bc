"""``planner explain``: one kernel's time, from its formula with this plan's numbers."""

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

if TYPE_CHECKING:
    from planner.spec.question import CostModel


@click.command(
    short_help="One kernel's time, step by step, with a plan's numbers.",
    epilog=example(
        "planner explain gate_proj specs/qwen2.5-7b-rtx4090.yaml",
        "planner explain layer/input_norm 3f2a",
        "planner explain attention specs/qwen2.5-7b-rtx4090.yaml --set step.decode.batch=64",
    ),
)
@click.argument("kernel")
@click.argument("plan", required=False, shell_complete=completing.plans_or_files)
@set_option
@catalog_option
@db_option
@model_option
@json_option
def command(
    *,
    kernel: str,
    plan: str | None,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    db: str | None,
    cost_model: CostModel,
    as_json: bool,
) -> None:
    """Show how the time of KERNEL in PLAN follows: FLOPs, bytes, roofline, kernel model, start.

    KERNEL is the name of a kernel, the engine's name of one, a node, or BLOCK/NODE; of several the
    costliest is shown, and how to name the others. PLAN is a file or the beginning of a stored
    plan's id; by default the plan that was stored last. A stored plan is solved again by its own
    cost model.
    """
    from planner.cli.common.explaining import explained
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of
    from planner.plan.values import plain
    from planner.report.document import to_json
    from planner.report.explain import explained_view

    found = explained(kernel, plan, sets, catalog_of(catalogs), db=db, cost_model=cost_model)
    if as_json:
        write(to_json("explain", plain(found)))
    else:
        show(explained_view(found.explained, found.others, found.notes))
