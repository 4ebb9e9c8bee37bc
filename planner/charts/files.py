"""Charts as files: Vega-Lite through Altair, an extra that is loaded when a chart is asked for."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.charts.theme import INKS
from planner.errors import UsageError

FORMATS: Mapping[str, str] = {
    ".html": "html",
    ".json": "json",
    ".pdf": "pdf",
    ".png": "png",
    ".svg": "svg",
}
"""By the end of a file's name. HTML holds all its scripts, so it needs no network."""
INSTALL = "pip install 'inference-planner[charts]'"
_PIXELS_PER_INCH = 144
"""Twice a screen's 72, so that small words are sharp."""


def altair() -> Any:
    """The module. Raises UsageError when it, or what saves pictures for it, is missing."""
    try:
        import altair as alt
        import vl_convert  # noqa: F401 - what saves pictures; Altair finds it by itself
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", INSTALL) from None
    return alt


def format_of(file: Path) -> str:
    """The format that a file's name asks for. Raises UsageError for one that is none."""
    found = FORMATS.get(file.suffix.lower())
    if found is None:
        known = ", ".join(FORMATS)
        raise UsageError(f"{file} names no format of a chart", f"let the name end in {known}")
    return found


def save_chart(chart: Any, file: Path) -> None:
    """Write a chart of Altair over the file. Raises UsageError when it cannot be written."""
    kind = format_of(file)
    options: dict[str, Any] = {}
    if kind == "html":
        menu = {"export": True, "source": False, "compiled": False, "editor": False}
        options = {"inline": True, "embed_options": {"actions": menu}}
        options["json_kwds"] = {"cls": _InScript}
    elif kind == "png":
        options = {"ppi": _PIXELS_PER_INCH}
    try:
        chart.save(str(file), format=kind, **options)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", "name a file") from error


def svg(chart: Any) -> str:
    """A chart of Altair as the text of an SVG picture: no script, no font, no network."""
    import vl_convert

    found: str = vl_convert.vegalite_to_svg(chart.to_dict())
    return found


def inline_svg(chart: Any) -> str:
    """The same to stand in a page, as wide as there is room, in the page's own ink.

    Of a chart in the light theme; the page sets ``--chart-text``, ``-faint``, ``-grid`` and
    ``-ground``, else it is drawn as it is.
    """
    title = chart.title.text if hasattr(chart.title, "text") else chart.title["text"]
    text = svg(chart)
    ink = INKS["light"]
    for name in ("text", "faint", "grid", "ground"):
        colour = getattr(ink, name)
        text = text.replace(f'"{colour}"', f'"var(--chart-{name}, {colour})"')
    label = f'role="img" aria-label="{html.escape(str(title))}"'
    return _SIZE.sub(rf"<svg {label} \g<rest>", text, count=1)


_SIZE = re.compile(r'<svg [^>]*?(?P<rest>viewBox="[^"]*")[^>]*?(?=>)')
"""The tag of a whole picture; without width and height it takes the room it has."""


class _InScript(json.JSONEncoder):
    """JSON that may stand in a script of HTML: no name of a user's ends the script."""

    def encode(self, o: Any) -> str:
        return super().encode(o).replace("<", "\\u003c")
