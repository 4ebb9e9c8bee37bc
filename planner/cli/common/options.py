"""Options that mean the same in every command."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.common import completing
from planner.registry import nearest
from planner.report.parts import PARTS


def example(*lines: str) -> str:
    """The end of a command's help; the opening character tells click to leave lines as they are."""
    return "\n".join(("\b", "Example:", *(f"  {line}" for line in lines)))


set_option = click.option(
    "--set",
    "sets",
    metavar="PATH=VALUE",
    multiple=True,
    shell_complete=completing.settings,
    help="Change a field of the file, as in step.decode.batch=32. May be repeated.",
)
theme_option = click.option(
    "--theme",
    type=click.Choice(["light", "dark"]),
    default="light",
    show_default=True,
    help="The ground a chart is drawn for.",
)
catalog_option = click.option(
    "--catalog",
    "catalogs",
    metavar="DIR",
    multiple=True,
    envvar="PLANNER_CATALOG",
    type=click.Path(path_type=Path),
    help="A folder of your own gpus/, models/, backends/ …, searched first. May be repeated; else "
    "PLANNER_CATALOG.",
)
families_option = click.option(
    "--family", "families", multiple=True, help="Kernel family; by default all."
)
gpus_option = click.option(
    "--gpu",
    "gpus",
    multiple=True,
    shell_complete=completing.named("gpus"),
    help="GPU by catalogue name; by default all.",
)
engines_option = click.option(
    "--engine",
    "engines",
    multiple=True,
    shell_complete=completing.named("backends"),
    help="Backend; by default all.",
)
db_option = click.option(
    "--db",
    metavar="URL",
    help="The store: a file or a postgresql:// URL; else PLANNER_DB, else your data folder.",
)
model_option = click.option(
    "--model",
    "cost_model",
    type=click.Choice(["calibrated", "roofline"]),
    default="calibrated",
    help="What times kernels: fitted kernel models (the default), or the bare roofline.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
explain_option = click.option(
    "--explain",
    is_flag=True,
    help="Every row, why rules did not run, sources of fixed costs, the parts of the plan's id.",
)


def numbers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """Whole numbers above zero, joined by commas: each once, in the order given."""
    words = [word.strip() for word in value.split(",")]
    for word in words:
        if not (word.isascii() and word.isdigit() and 0 < int(word[:_DIGITS]) <= _LARGEST):
            message = f"{word[:40]!r} is no whole number above zero; write some as in 1,256"
            raise click.BadParameter(message, ctx, param)
    return tuple(dict.fromkeys(int(word) for word in words))


_LARGEST = 100_000_000
_DIGITS = 12
"""More digits than the largest has: longer texts are cut before they are read as a number."""


def parts(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Parts of a report, joined by commas; all where nothing is asked for."""
    names = [word.strip() for word in value.split(",")] if value is not None else list(PARTS)
    for name in names:
        if name not in PARTS:
            near = nearest(name, PARTS)
            hint = f"did you mean {near!r}?" if near else f"one of {', '.join(PARTS)}"
            raise click.BadParameter(f"a report has no part {name[:40]!r}; {hint}", ctx, param)
    return tuple(names)


only_option = click.option(
    "--only",
    metavar="PART,…",
    callback=parts,
    help=f"Show these parts of the report alone: {', '.join(PARTS)}.",
)
