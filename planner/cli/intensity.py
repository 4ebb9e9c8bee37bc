"""``planner intensity``: FLOP/byte of a model's operators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common.options import catalog_option, example, json_option, numbers

if TYPE_CHECKING:
    from planner.plan.attention_rows import Convention


@click.command(
    short_help="FLOP/byte of a model's operators against a GPU's ridge.",
    epilog=example(
        "planner intensity qwen2.5-7b-instruct --gpu rtx-4090 --tokens 1,256 --convention textbook"
    ),
)
@click.argument("model")
@click.option("--gpu", metavar="NAME", required=True, help="Whose ridge to hold them against.")
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
    gpu: str,
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
    from planner.report.tables import intensity_view
    from planner.spec.question import blocks_of

    catalog = catalog_of(catalogs)
    spec = catalog.find("model", model)
    blocks = blocks_of(spec, catalog)
    found = intensity(
        spec, blocks, catalog.find("gpu", gpu), tokens, contexts, convention=convention
    )
    if as_json:
        write(to_json("intensity", plain(found)))
    else:
        show(intensity_view(found))
