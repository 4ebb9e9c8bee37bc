"""What there is to choose from: money against the time between tokens, and what nothing beats."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.charts.files import altair
from planner.charts.frame import Frame, at
from planner.charts.labels import Box, Spot, along, placed
from planner.charts.theme import INKS, WIDTH, Hue, Theme, data, decades, finish, hue
from planner.errors import UsageError
from planner.plan.serving_types import Range
from planner.serving.choose_types import Choice, Chosen

_HEIGHT = 360
_NAMED = 12
_KINDS: Mapping[str, tuple[str, Hue]] = {
    "on the front": ("circle", "blue"),
    "keeps the limits": ("square", "green"),
    "misses a limit": ("cross", "vermillion"),
    "as it stands": ("diamond", "orange"),
}


@dataclass(frozen=True)
class Offered:
    """One choice as a point."""

    name: str
    kind: str
    usd_per_hour: float
    tpot: Range
    """In seconds."""


def offered(chosen: Chosen) -> tuple[Offered, ...]:
    """The choices whose price is known, each once: as part of the front where it is."""
    groups = (
        ("on the front", chosen.front),
        ("keeps the limits", chosen.choices),
        ("misses a limit", chosen.nearest),
        ("as it stands", (chosen.given,) if chosen.given else ()),
    )
    found: dict[tuple[str, float, float], Offered] = {}
    for kind, choices in groups:
        for choice in choices:
            point = _point(choice, kind)
            if point is not None:
                key = (point.name, point.usd_per_hour, point.tpot.value)
                found.setdefault(key, point)
    return tuple(found.values())


def _point(choice: Choice, kind: str) -> Offered | None:
    price = choice.spending.price_per_hour
    if price is None:
        return None
    return Offered(f"{choice.units} × {choice.offer.name}", kind, price, choice.serving.tpot_s)


def offered_in(document: Mapping[str, Any]) -> tuple[Offered, ...]:
    """The same from what ``planner choose --json`` prints."""
    groups = (
        ("on the front", document["front"]),
        ("keeps the limits", document["choices"]),
        ("misses a limit", document["nearest"]),
        ("as it stands", [document["given"]] if document["given"] else []),
    )
    found: dict[tuple[str, float, float], Offered] = {}
    for kind, rows in groups:
        for row in rows:
            price = row["spending"]["price_per_hour"]
            if price is not None:
                name, tpot = f"{row['units']} × {row['offer']}", Range(**row["serving"]["tpot_s"])
                found.setdefault((name, price, tpot.value), Offered(name, kind, price, tpot))
    return tuple(found.values())


def front_chart(
    points: Sequence[Offered], limit_s: float | None, about: str, *, theme: Theme = "light"
) -> Any:
    """Price against time per output token, the front joined; ``limit_s`` is the most that a token
    may take. Raises UsageError where no price is known, or without Altair.
    """
    if not points:
        raise UsageError("no choice has a price", "--price FILE gives them")
    alt = altair()
    frame = _frame(points, limit_s)
    layers = [*_limit(alt, limit_s, frame), *_front(alt, points, frame, theme)]
    layers += [_intervals(alt, points, frame, theme), _dots(alt, points, frame, theme)]
    layers += [_names(alt, points, limit_s, frame)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT)
    subtitle = [
        about,
        "joined: nothing that was planned is both cheaper and faster; line: 80 % interval",
    ]
    return finish(chart, "What to rent: money against speed", subtitle, theme)


def _frame(points: Sequence[Offered], limit_s: float | None) -> Frame:
    prices = [each.usd_per_hour for each in points]
    times = [value for each in points for value in (each.tpot.value, each.tpot.low, each.tpot.high)]
    known = [value * 1e3 for value in [*times, limit_s] if value]
    room = 1.35
    sides = (min(prices) / room, max(prices) * room)
    return Frame(*sides, min(known) / room, max(known) * room, WIDTH, _HEIGHT)


def _axes(alt: Any, frame: Frame) -> dict[str, Any]:
    ends = ((frame.left, frame.right), (frame.bottom, frame.top))
    x, y = (alt.Scale(type="log", domain=domain, nice=False) for domain in ends)
    on_x, on_y = (alt.Axis(format=",~g", values=decades(*domain)) for domain in ends)
    return {
        "x": alt.X("x:Q", scale=x, axis=on_x, title="price, USD/h"),
        "y": alt.Y("y:Q", scale=y, axis=on_y, title="time per output token, ms"),
    }


def _rows(points: Sequence[Offered]) -> Iterator[dict[str, Any]]:
    for each in points:
        low, high = each.tpot.low, each.tpot.high
        yield {
            "name": each.name,
            "kind": each.kind,
            "x": each.usd_per_hour,
            "y": each.tpot.value * 1e3,
            "low": (each.tpot.value if low is None else low) * 1e3,
            "high": (each.tpot.value if high is None else high) * 1e3,
        }


def _dots(alt: Any, points: Sequence[Offered], frame: Frame, theme: Theme) -> Any:
    kinds = [kind for kind in _KINDS if any(each.kind == kind for each in points)]
    shapes = alt.Scale(domain=kinds, range=[_KINDS[kind][0] for kind in kinds])
    colours = alt.Scale(domain=kinds, range=[hue(theme, _KINDS[kind][1]) for kind in kinds])
    marks = data(alt, _rows(points)).mark_point(
        filled=True, size=110, opacity=1, stroke=INKS[theme].ground
    )
    legend = alt.Legend(title=None, orient="top")
    tooltip = [
        alt.Tooltip("name:N"),
        alt.Tooltip("x:Q", title="USD/h"),
        alt.Tooltip("y:Q", title="ms"),
    ]
    return marks.encode(
        **_axes(alt, frame),
        shape=alt.Shape("kind:N", scale=shapes, legend=legend),
        color=alt.Color("kind:N", scale=colours, legend=legend),
        tooltip=tooltip,
    )


def _front(alt: Any, points: Sequence[Offered], frame: Frame, theme: Theme) -> Iterator[Any]:
    """A staircase: to the right of a point and above it lies what it beats."""
    rows = [row for row in _rows(points) if row["kind"] == "on the front"]
    if len(rows) > 1:
        line = data(alt, rows).mark_line(interpolate="step-after", strokeWidth=1.4)
        yield line.encode(**_axes(alt, frame), color=alt.value(hue(theme, "blue")))


def _intervals(alt: Any, points: Sequence[Offered], frame: Frame, theme: Theme) -> Any:
    rules = data(alt, _rows(points)).mark_rule(strokeWidth=1.2, color=INKS[theme].faint)
    axes = _axes(alt, frame)
    low = axes["y"].copy()
    low.shorthand = "low:Q"
    return rules.encode(x=axes["x"], y=low, y2="high:Q")


def _limit(alt: Any, limit_s: float | None, frame: Frame) -> Iterator[Any]:
    if limit_s is None:
        return
    height, said = frame.pixel(frame.left, limit_s * 1e3)[1], f"limit {limit_s * 1e3:,.4g} ms"
    base = data(alt, [{"py": height, "px": WIDTH - 4.0, "said": said}])
    yield base.mark_rule(strokeDash=[6, 3]).encode(y=at(alt)["y"])
    yield base.mark_text(align="right", dy=-8).encode(**at(alt), text="said:N")


def _names(alt: Any, points: Sequence[Offered], limit_s: float | None, frame: Frame) -> Any:
    spots = [
        Spot(*frame.pixel(each.usd_per_hour, each.tpot.value * 1e3), 6.0, each.name)
        for each in points
    ]
    blocked = list(_blocked(points, limit_s, frame))
    labels = placed(spots, (WIDTH, _HEIGHT), _NAMED, blocked)
    rows = [{"px": label.x, "py": label.y, "said": label.text} for label in labels]
    return data(alt, rows).mark_text(baseline="middle").encode(**at(alt), text="said:N")


def _blocked(points: Sequence[Offered], limit_s: float | None, frame: Frame) -> Iterator[Box]:
    """Where no name may lie: the limit, the staircase and the intervals."""
    for each in points:
        if each.tpot.low and each.tpot.high:
            ends = (each.tpot.low, each.tpot.high)
            low, high = (frame.pixel(each.usd_per_hour, end * 1e3) for end in ends)
            yield from along(*low, *high)
    front = [each for each in points if each.kind == "on the front"]
    for one, other in itertools.pairwise(front):
        x, y = frame.pixel(one.usd_per_hour, one.tpot.value * 1e3)
        to_x, to_y = frame.pixel(other.usd_per_hour, other.tpot.value * 1e3)
        yield from along(x, y, to_x, y)
        yield from along(to_x, y, to_x, to_y)
    if limit_s is not None:
        _, y = frame.pixel(frame.left, limit_s * 1e3)
        yield from along(0, y, WIDTH, y)
