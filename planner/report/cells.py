"""What all views are made of: numbers as words, cells, tables, headings.

Names come from users and files: every one becomes a ``Text``, which reads no markup.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from planner import units

DASH = "–"
DOT = "  ·  "
_FOLDED_WIDTH = 8
_TYPED_WIDTH = 78
"""With what ends a line, as wide as the narrowest report."""
BOUND_STYLES = {"memory": "cyan", "compute": "magenta", "network": "blue", "launch": "yellow"}
"""Colour beside the word, never instead of it."""


def clean(text: object) -> str:
    """The text with what a terminal might obey replaced."""
    return "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(text)
    )


def words(text: object, style: str = "") -> Text:
    """A cell or a line of text; a long name breaks where it must."""
    return Text(clean(text), style=style, overflow="fold")


def bound(name: str) -> Text:
    """What limits a kernel, as a word."""
    return words(name, BOUND_STYLES.get(name, ""))


def heading(text: str) -> Text:
    """The title of a section."""
    return words(f"\n{text}", "bold")


def small(text: str) -> Text:
    """A remark under a table."""
    return words(text, "dim")


class Typed(Text):
    """What one may copy into a shell."""


def typed(line: str) -> Typed:
    """A command as `shlex.join` writes it, broken between options where a shell goes on reading."""
    options: list[str] = []
    for word in map(shlex.quote, shlex.split(line)):
        if options and not word.startswith("-"):
            options[-1] += f" {word}"
        else:
            options.append(word)
    lines = options[:1]
    for option in options[1:]:
        if len(lines[-1]) + len(option) < _TYPED_WIDTH:
            lines[-1] += f" {option}"
        else:
            lines.append(f"  {option}")
    return Typed(clean(" \\\n".join(lines)), overflow="fold")


def bullets(sentences: Iterable[str]) -> Table:
    """Sentences as a list, wrapped under themselves."""
    found = Table.grid(padding=(0, 1))
    found.add_column(width=1)
    found.add_column(overflow="fold")
    for sentence in sentences:
        found.add_row("-", words(sentence))
    return found


def table(headers: Sequence[str], left: Iterable[int] = (0,), whole: Iterable[int] = ()) -> Table:
    """An empty table. Columns are numbers at the right, except those at the positions ``left``.

    Those at ``whole`` of these never break: ids, which people copy.
    """
    found = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    at_left, unbroken = set(left), set(whole)
    for position, header in enumerate(headers):
        if position in at_left:
            unfolded = position in unbroken
            found.add_column(header, overflow="fold", no_wrap=unfolded, min_width=_least(header))
        else:
            found.add_column(header, justify="right", no_wrap=True)
    return found


def _least(header: str) -> int:
    """Of a column that folds: beside many figures it must not vanish."""
    return min(len(header), _FOLDED_WIDTH)


def facts(rows: Iterable[tuple[str, object]]) -> Table:
    """Pairs of a word and what it is."""
    found = Table.grid(padding=(0, 2))
    found.add_column(no_wrap=True)
    found.add_column(overflow="fold")
    for name, value in rows:
        found.add_row(words(name, "dim"), value if isinstance(value, Text) else words(value))
    return found


def ratio(value: float) -> str:
    """FLOP/byte, a speed-up: three digits, two decimals at most."""
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2  # noqa: PLR2004
    return f"{value:,.{decimals}f}"


def share(value: float) -> str:
    """A share in percent."""
    if 0 < value < 0.0005:  # noqa: PLR2004 - what one decimal would show as nothing
        return "<0.1 %"
    if -0.0005 < value < 0:  # noqa: PLR2004 - no minus before nothing
        value = 0.0
    return f"{100 * value:.1f} %"


def gain(value: float) -> str:
    """A change in percent, with its sign."""
    if abs(value) < 0.0005:  # noqa: PLR2004 - what one decimal would show as nothing
        return "none"
    decimals = 0 if abs(value) >= 0.1 else 1  # noqa: PLR2004
    return f"{100 * value:+,.{decimals}f} %"


def times(block: str, repeat: int) -> str:
    """A kind of block and how often it runs."""
    return block if repeat == 1 else f"{block} ×{repeat}"


def node_names(nodes: Sequence[str], between: str = " ") -> str:
    """Names of nodes; the parts of one composite (``attention.scores`` and on) are counted."""
    found: list[str] = []
    for composite, group in groupby(nodes, _composite):
        names = list(group)
        found += (
            names if len(names) == 1 or not composite else [f"{composite} ({len(names)} parts)"]
        )
    return between.join(found)


def _composite(name: str) -> str:
    return name.rpartition(".")[0]


def rate(value: float) -> str:
    """Things a second: 846, 12,300, 1.25."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004


def usd(value: float) -> str:
    """Money: cents, and more digits below ten of them."""
    return f"{value:,.2f} USD" if value >= 0.1 else f"{value:.2g} USD"  # noqa: PLR2004


def price(value: float | None) -> str:
    """Money in a column that names its unit."""
    return DASH if value is None else usd(value).removesuffix(" USD")


def optional_count(value: int | None) -> str:
    """A count, or a dash where there is none."""
    return DASH if value is None else f"{value:,}"


def flops(value: float) -> str:
    """A count of operations, without the unit that the column names."""
    return units.show_count(value).replace(" B", " G") if value else "0"
