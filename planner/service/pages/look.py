"""Templates, what they call figures by, and the files that pages load."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from planner.plan.verdict import Outcome
from planner.report import cells
from planner.report.verdicts import figure
from planner.units import show_bytes, show_count, show_seconds

HERE = Path(__file__).parent
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_MARKS: Mapping[Outcome, str] = {
    "pass": "good",
    "improve": "good",
    "regress": "bad",
    "incomparable": "open",
    "too_few_samples": "open",
}


@cache
def environment() -> Environment:
    """The templates. Everything put into one is escaped, and what is missing raises."""
    found = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters |= {
        "bytes": show_bytes,
        "count": show_count,
        "seconds": show_seconds,
        "rate": cells.rate,
        "share": cells.share,
        "gain": cells.gain,
        "usd": cells.usd,
        "ratio": cells.ratio,
        "moment": _moment,
        "said": lambda word: str(word).replace("_", " "),
        "mark": _MARKS.__getitem__,
    }
    found.globals |= {"asset": address, "figure": figure, "bar": bar}
    return found


def _moment(moment: datetime) -> Markup:
    shown = f"{moment:%Y-%m-%d %H:%M}"
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(), shown)


def bar(part: float) -> Markup:
    """A bar as long as a share of its cell. Attributes, since the policy allows no style."""
    width = f"{100 * min(max(part, 0.0), 1.0):.1f}"
    return _BAR.format(width)


_BAR = Markup(
    '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
    '<rect width="{}" height="8"/></svg>'
)


class Asset:
    """One file that pages load, held in memory."""

    def __init__(self, file: Path) -> None:
        self.content = file.read_bytes()
        self.media_type = _TYPES[file.suffix]
        self.version = hashlib.sha256(self.content).hexdigest()[:12]


@cache
def assets() -> Mapping[str, Asset]:
    """Every file by its name: nothing else can be asked for."""
    return {file.name: Asset(file) for file in sorted((HERE / "static").iterdir())}


def address(name: str) -> str:
    """Where a file is loaded from; another content has another address."""
    return f"/static/{name}?v={assets()[name].version}"


@cache
def draws() -> bool:
    """Whether what draws charts is installed."""
    return all(find_spec(name) is not None for name in ("altair", "vl_convert"))


def rendered(template: str, context: Mapping[str, Any]) -> str:
    """A template with values put in."""
    return environment().get_template(template).render(context)
