"""``planner attention``: what attention moves, by the way it runs."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.common.options import catalog_option, example, json_option, numbers


@click.command(
    short_help="Bytes of attention: apart, fused, re-read, split.",
    epilog=example("planner attention llama-3.1-8b-instruct --gpu h100-sxm,rtx-4090"),
)
@click.argument("model")
@click.option(
    "--gpu",
    "gpus",
    metavar="NAME,…",
    default="",
    help="GPUs to say where attention apart is out of reach on; `all` for the whole catalogue.",
)
@click.option(
    "--tokens",
    "lengths",
    metavar="N,N,…",
    default="1024,8192,65536",
    show_default=True,
    callback=numbers,
    help="Lengths of prompts, and of contexts of decode steps.",
)
@click.option(
    "--tile",
    "tiles",
    metavar="N,N,…",
    default="64,128",
    show_default=True,
    callback=numbers,
    help="Query rows of a tile, for prompts.",
)
@click.option(
    "--splits",
    type=click.IntRange(2, 256),
    default=8,
    show_default=True,
    help="Parts that decode cuts the keys into.",
)
@catalog_option
@json_option
def command(
    *,
    model: str,
    gpus: str,
    lengths: tuple[int, ...],
    tiles: tuple[int, ...],
    splits: int,
    catalogs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Print the bytes that attention of MODEL, a name or a file, moves in one layer: as kernels of
    their own, fused with keys and values read once, fused with each tile row reading them again,
    and with the keys split; and from which length on a GPU cannot afford it apart.
    """
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of
    from planner.plan.attention_ledger import attention_ledger
    from planner.plan.values import plain
    from planner.report.attention import attention_view
    from planner.report.document import to_json
    from planner.spec.question import blocks_of

    catalog = catalog_of(catalogs)
    spec = catalog.find("model", model)
    names = [name.strip() for name in gpus.split(",") if name.strip()]
    if names == ["all"]:
        names = list(catalog.names("gpu"))
    found = attention_ledger(
        spec,
        blocks_of(spec, catalog),
        [catalog.find("gpu", name) for name in names],
        lengths=lengths,
        tiles=tiles,
        splits=splits,
    )
    if as_json:
        write(to_json("attention", plain(found)))
    else:
        show(attention_view(found))
