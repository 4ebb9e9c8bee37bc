"""``planner intensity``: FLOP/byte of a model's operators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common import completing
from planner.cli.common.options import catalog_option, example, json_option, numbers
from planner.dtypes import DTYPES

if TYPE_CHECKING:
    from planner.plan.attention_rows import Convention
    from planner.spec.types import GpuSpec


@click.command(
    short_help="FLOP/byte of a model's operators against a GPU's ridge.",
    epilog=example(
        "planner intensity qwen2.5-7b-instruct --gpu rtx-4090 --tokens 1,256 --convention textbook",
        "planner intensity qwen3-30b-a3b --gpu h100-sxm,b200-sxm --precision fp8",
    ),
)
@click.argument("model", shell_complete=completing.named("models"))
@click.option(
    "--gpu",
    "gpus",
    metavar="NAME,…",
    required=True,
    shell_complete=completing.named("gpus"),
    help="Whose ridge to hold them against; of several, only where they cross it.",
)
@click.option(
    "--precision",
    type=click.Choice(DTYPES),
    metavar="FORMAT",
    help="Width of weights and activations; by default that of the model's weights.",
)
@click.option(
    "--tokens",
    metavar="N,N,…",
    default="1,256",
    show_default=True,
    callback=numbers,
    help="Tokens in flight, for GEMMs.",
)
@click.option(
    "--context",
    "contexts",
    metavar="N,N,…",
    default="128,512,2048",
    show_default=True,
    callback=numbers,
    help="Tokens of one sequence, for attention.",
)
@click.option(
    "--convention",
    type=click.Choice(["exact", "textbook"]),
    default="exact",
    show_default=True,
    help="Count what runs, or count as lessons on the roofline do.",
)
@catalog_option
@json_option
def command(
    *,
    model: str,
    gpus: str,
    precision: str | None,
    tokens: tuple[int, ...],
    contexts: tuple[int, ...],
    convention: Convention,
    catalogs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Print the arithmetic intensity of MODEL's GEMMs and attention, a name or a file."""
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of
    from planner.plan.intensity import intensity
    from planner.plan.values import plain
    from planner.report.document import to_json
    from planner.report.tables import crossings_view, intensity_view
    from planner.spec.question import blocks_of

    catalog = catalog_of(catalogs)
    spec = catalog.find("model", model)
    blocks = blocks_of(spec, catalog)
    targets = {name.strip(): catalog.find("gpu", name.strip()) for name in gpus.split(",")}
    for name, gpu in targets.items():
        _check(name, gpu, precision)
    found = {
        name: intensity(
            spec, blocks, gpu, tokens, contexts, convention=convention, precision=precision
        )
        for name, gpu in targets.items()
    }
    first, *others = found.values()
    if as_json:
        write(to_json("intensity", {"gpus": plain(found)} if others else plain(first)))
    else:
        show(crossings_view(found) if others else intensity_view(first))


def _check(name: str, gpu: GpuSpec, precision: str | None) -> None:
    from planner.dtypes import operand
    from planner.errors import UsageError

    if precision and operand(precision) not in gpu.matrix:
        raise UsageError(f"{name} multiplies no {precision}", f"one of {', '.join(gpu.matrix)}")
