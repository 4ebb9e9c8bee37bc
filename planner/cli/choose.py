"""``planner choose``: the cheapest hardware that serves users within limits, and its command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from planner.cli.common import completing
from planner.cli.common.options import (
    catalog_option,
    example,
    json_option,
    model_option,
    set_option,
)


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
    "--gpus",
    metavar="NAME,…",
    callback=_names,
    shell_complete=completing.named("gpus"),
    help="Only these GPUs; by default all with prices.",
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
@click.option(
    "--network",
    metavar="bandwidth=…,latency=…",
    help="What joins nodes where one cannot hold the model: each GPU's share, and a message; by "
    "default the deployment's, else 50 GB/s and 10 us around boards of eight with NVLink.",
)
@set_option
@catalog_option
@model_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, *, as_json: bool, **given: Any) -> None:
    """Choose hardware for the users of FILE: GPUs, how many, how to split and run the model.

    Every split in a node, over several where one cannot hold the model, FP8 beside the deployment's
    own formats, replicas and flags of the engine are planned, and what keeps the limits is listed,
    cheapest first, with the engine's command.
    Exits with 1 when nothing keeps them.
    """
    from planner.cli.common.choosing import Given, answered
    from planner.cli.common.output import show, write
    from planner.report.choose import choose_document, choose_view
    from planner.report.document import to_json

    answer = answered(Given(**given))
    if as_json:
        write(to_json("choose", choose_document(answer)))
    else:
        show(choose_view(answer))
    ctx.exit(0 if answer.chosen.choices else 1)
