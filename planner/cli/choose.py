"""``planner choose``: the cheapest hardware that serves users within limits, and its command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common.options import (
    catalog_option,
    example,
    json_option,
    model_option,
    set_option,
)

if TYPE_CHECKING:
    from planner.spec.question import CostModel


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    del ctx, param
    words = (word.strip() for word in (value or "").split(","))
    return tuple(dict.fromkeys(word for word in words if word))


@click.command(
    short_help="The cheapest hardware that serves users within limits.",
    epilog=example(
        "planner choose specs/llama-3.1-8b-chat.yaml --slo tpot=30ms,ttft=500ms "
        "--price specs/prices-example.yaml"
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--slo",
    "slos",
    metavar="NAME=TIME,…",
    multiple=True,
    help="Most that users may wait on average: ttft, tpot, latency, as in tpot=30ms,ttft=500ms.",
)
@click.option(
    "--min-throughput",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Least output tokens a second, over all GPUs.",
)
@click.option(
    "--price",
    "prices",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What GPUs and instances cost (a spec of kind prices); its hardware is searched.",
)
@click.option(
    "--gpus", metavar="NAME,…", callback=_names, help="Only these GPUs; by default all with prices."
)
@click.option(
    "--max-gpus",
    type=click.IntRange(1, 1024),
    default=8,
    show_default=True,
    help="Most GPUs to rent.",
)
@click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Users at once.")
@click.option("--input", "input_", type=click.IntRange(1), metavar="N", help="Prompt tokens.")
@click.option("--output", type=click.IntRange(1), metavar="N", help="Tokens of each answer.")
@click.option("--lossless", is_flag=True, help="Keep numbers as wide as the deployment has them.")
@click.option(
    "--top",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    help="Choices to list, with the most users that each carries.",
)
@set_option
@catalog_option
@model_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    file: Path,
    slos: tuple[str, ...],
    min_throughput: float | None,
    prices: Path | None,
    gpus: tuple[str, ...],
    max_gpus: int,
    concurrency: int | None,
    input_: int | None,
    output: int | None,
    lossless: bool,
    top: int,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    cost_model: CostModel,
    as_json: bool,
) -> None:
    """Choose hardware for the users of FILE: GPUs, how many, how to split and run the model.

    Every split in a node, FP8 beside the deployment's own formats, replicas and flags of the engine
    are planned, and what keeps the limits is listed, cheapest first, with the engine's command.
    Exits with 1 when nothing keeps them.
    """
    from planner.cli.common import choosing
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of
    from planner.importers.engine import engine_command
    from planner.report.choose import Answer, choose_document, choose_view
    from planner.report.document import to_json
    from planner.spec.load import load_deployment
    from planner.spec.question import ask

    limits, catalog = choosing.targets(slos, min_throughput), catalog_of(catalogs)
    given = choosing.workload_sets(concurrency=concurrency, input=input_, output=output)
    deployment = load_deployment(file, (*sets, *given))
    choosing.users_of(deployment)
    found = choosing.hardware(deployment, prices, gpus, catalog)
    asked = ask(deployment, catalog, cost_model)
    wish = choosing.wish_for(asked, limits, most_gpus=max_gpus, narrow=not lossless, listed=top)
    chosen = choosing.answer(asked, found, wish, catalog, cost_model)
    commands = {id(choice): engine_command(choice.question) for choice in chosen.every}
    answer = Answer(chosen, asked.deployment, (*sets, *given), str(file), commands)
    if as_json:
        write(to_json("choose", choose_document(answer)))
    else:
        show(choose_view(answer))
    ctx.exit(0 if chosen.choices else 1)
