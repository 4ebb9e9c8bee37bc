"""``planner plan``: a deployment's plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common.options import (
    catalog_option,
    db_option,
    example,
    explain_option,
    json_option,
    model_option,
    only_option,
    set_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.plan.advice import Advice
    from planner.plan.splits import Split
    from planner.plan.types import Plan
    from planner.spec.question import CostModel


@click.command(
    short_help="Plan a deployment: speed, kernels, memory, advice.",
    epilog=example("planner plan specs/qwen2.5-7b-rtx4090.yaml --set step.decode.batch=32"),
)
@click.argument("file", type=click.Path(path_type=Path))
@set_option
@catalog_option
@db_option
@model_option
@click.option("--no-save", is_flag=True, help="Do not keep the plan in the store.")
@json_option
@explain_option
@only_option
@click.option(
    "--tp",
    metavar="N|auto",
    help="Tensor-parallel GPUs; auto searches tensor, pipeline and expert parallelism in a node.",
)
@click.option("--advice/--no-advice", default=True, help="Plan what-ifs too (the default).")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    file: Path,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    db: str | None,
    cost_model: CostModel,
    no_save: bool,
    as_json: bool,
    explain: bool,
    only: tuple[str, ...],
    tp: str | None,
    advice: bool,
) -> None:
    """Plan the deployment in FILE, print the plan and keep it.

    Exits with 1 when it does not fit; the plan is kept all the same.
    """
    from planner.cli.common.output import write
    from planner.cli.common.planning import catalog_of, keep, split_sets
    from planner.plan.advice import advise
    from planner.serving.plan import plan_question
    from planner.spec.load import load_deployment
    from planner.spec.question import ask

    catalog = catalog_of(catalogs)
    found, sets = split_sets(file, sets, catalog, cost_model, tp)
    question = ask(load_deployment(file, sets), catalog, cost_model)
    plan = plan_question(question)
    wanted = advice and (as_json or not no_save or "advice" in only)
    advices = advise(question) if wanted else None
    if as_json:
        _document(plan, advices, found)
    else:
        _report(plan, advices, found, explain=explain, only=only)
    kept = "not saved" if no_save else keep(plan, advices, db)
    if not as_json:
        write(f"\nplan {plan.plan_id}: {kept}\n")
    ctx.exit(0 if plan.memory.fits else 1)


def _document(plan: Plan, advice: Sequence[Advice] | None, splits: Sequence[Split]) -> None:
    from planner.cli.common.output import write
    from planner.report.document import plan_document, to_json

    write(to_json("plan", plan_document(plan, advice, splits)))


def _report(
    plan: Plan,
    advice: Sequence[Advice] | None,
    splits: Sequence[Split],
    *,
    explain: bool,
    only: Sequence[str],
) -> None:
    from planner.cli.common.output import show
    from planner.report.plan import plan_view

    show(plan_view(plan, advice, explain=explain, splits=splits, only=only))
