"""How all charts look: light and dark, in colours that survive colour blindness and grey print.

Colours are those of Okabe and Ito, "Color Universal Design" (2008). No meaning hangs on a colour
alone: shape, dash or a label says the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Theme = Literal["light", "dark"]

Hue = Literal["blue", "orange", "green", "purple", "sky", "vermillion", "yellow", "grey"]

_LIGHT: Mapping[str, str] = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "vermillion": "#D55E00",
    "yellow": "#F0E442",
    "grey": "#999999",
}
_DARK = {
    **_LIGHT,
    "blue": "#56B4E9",
    "sky": "#0072B2",
    "orange": "#F0E442",
    "yellow": "#E69F00",
}
"""The same, but what is named most stands out from a dark ground: blue is the lighter one, and
orange the yellow, since light blue and orange are one grey.
"""
WIDTH = 640
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Ink:
    """What a theme draws words, lines and ground with."""

    text: str
    faint: str
    """Second lines and what is beside the point."""
    grid: str
    ground: str
    hues: Mapping[str, str]
    """Colours of marks, by what they are called here."""


INKS: Mapping[Theme, Ink] = {
    "light": Ink("#1b1f24", "#59636e", "#e4e7eb", "#ffffff", _LIGHT),
    "dark": Ink("#e8eaed", "#a3adb8", "#31363d", "#14171a", _DARK),
}


def finish(chart: Any, title: str, subtitle: str | list[str], theme: Theme) -> Any:
    """A chart with its title and the theme's configuration."""
    heading = {"text": title, "subtitle": subtitle, "anchor": "start", "offset": 14}
    return chart.properties(title=heading).configure(**configuration(theme))


def configuration(theme: Theme) -> dict[str, Any]:
    """The ``config`` of Vega-Lite."""
    ink = INKS[theme]
    words = {"labelColor": ink.text, "titleColor": ink.text, "titleFontWeight": "normal"}
    sizes = {"labelFontSize": 11, "titleFontSize": 12}
    lines = {"gridColor": ink.grid, "domainColor": ink.faint, "tickColor": ink.faint}
    return {
        "background": ink.ground,
        "font": FONT,
        "padding": 10,
        "axis": {**words, **sizes, **lines, "titlePadding": 8, "labelOverlap": "greedy"},
        "legend": {**words, **sizes, "labelLimit": 300, "symbolStrokeWidth": 2},
        "header": {**words, **sizes},
        "title": {
            "color": ink.text,
            "subtitleColor": ink.faint,
            "fontSize": 15,
            "subtitleFontSize": 11.5,
            "subtitlePadding": 5,
            "subtitleLineHeight": 15,
        },
        "view": {"stroke": None},
        "text": {"color": ink.text, "fontSize": 11},
        "rule": {"color": ink.text},
        "tick": {"color": ink.text},
        "line": {"color": ink.text},
        "range": {"category": list(ink.hues.values())},
    }


def hue(theme: Theme, name: Hue) -> str:
    """A colour of marks."""
    return INKS[theme].hues[name]


def on(theme: Theme, name: Hue) -> str:
    """Black or white, whichever is read better on a colour: by its relative luminance (WCAG 2)."""
    channels = (int(hue(theme, name)[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [c / 12.92 if c <= _KNEE else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "black" if luminance > _EVEN else "white"


_KNEE = 0.03928
_EVEN = 0.179
"""Where black and white contrast alike: (L + 0.05)² = 1.05 · 0.05."""


def data(alt: Any, rows: Any) -> Any:
    """Rows as data that stand in the chart itself: nothing is fetched."""
    return alt.Chart(alt.InlineData(values=list(rows)))


def decades(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, with their halves and fifths where these are few,
    and equal steps where the axis is shorter than that.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1.0,), (1.0, 2.0, 5.0)):
        ticks = (step * 10.0**power for power in powers for step in steps)
        found = [tick for tick in ticks if low <= tick <= high]
        if len(found) >= _LEAST:
            return found
    step = 10.0 ** math.floor(math.log10(high - low)) / 2
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


_LEAST = 3
"""Fewer ticks are no scale."""
