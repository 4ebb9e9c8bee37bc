"""``planner report``: one file to attach: HTML with pictures, or Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

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
    from planner.spec.question import CostModel

_HTML, _MARKDOWN = (".html", ".htm"), (".md", ".markdown")


@click.command(
    short_help="Write a plan, a comparison or a choice as one file.",
    epilog=example(
        "planner report specs/qwen2.5-7b-rtx4090.yaml -o plan.html",
        "planner report before.yaml after.yaml -o change.md",
        "planner report choice.json -o choice.html",
    ),
)
@click.argument("names", metavar="PLAN|FILE…", nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to: .html (one file, needs no network) or .md; without it Markdown on stdout.",
)
@click.option("--gpu", "gpus", metavar="G,G,…", help="GPUs to compare one deployment on.")
@set_option
@catalog_option
@db_option
@model_option
@json_option
def command(
    *,
    names: tuple[str, ...],
    file: Path | None,
    gpus: str | None,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    db: str | None,
    cost_model: CostModel,
    as_json: bool,
) -> None:
    """Write a report of a plan, of two, of one deployment on several GPUs, of a choice or a sweep.

    A plan is a deployment file, the beginning of a stored plan's id, or JSON that `planner plan`,
    `diff`, `choose`, `sweep` or `history` printed. Pictures need
    `pip install 'inference-planner[charts]'`.
    """
    from planner.cli.common.output import write
    from planner.cli.common.planning import catalog_of
    from planner.cli.common.sheets import sheet
    from planner.cli.common.subjects import Asked, subject
    from planner.report.document import to_json
    from planner.report.html import page
    from planner.report.markdown import markdown
    from planner.report.pieces import plain_pieces

    as_html = file is not None and _as_html(file)
    found = subject(names, gpus, Asked(sets, catalog_of(catalogs), db, cost_model))
    title, parts = sheet(found, pictures=as_html)
    text = page(title, parts) if as_html else markdown(title, parts)
    if file is not None:
        _keep(text, file)
    if as_json:
        write(to_json("report", {"title": title, "pieces": plain_pieces(parts)}))
    else:
        write(text if file is None else f"{file}: {len(text.encode()) / 1e6:.2f} MB\n")


def _keep(text: str, file: Path) -> None:
    """Write the report. Raises UsageError when it cannot be written."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", "name a file") from error


def _as_html(file: Path) -> bool:
    """Whether a name asks for HTML. Raises UsageError where it asks for neither."""
    end = file.suffix.lower()
    if end not in _HTML + _MARKDOWN:
        raise UsageError(f"{file} names no format of a report", "let the name end in .html or .md")
    return end in _HTML
