"""Where the names of points go so that none covers another: a greedy search over a few places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LETTER, _HEIGHT = 6.1, 13.0
"""Pixels of an average letter at 11 points, and of a line: of DejaVu Sans, wider than most."""
_GAP = 4.0
_RINGS = (0.0, 10.0, 22.0)
"""Further and further from the point where the near places are taken."""


@dataclass(frozen=True)
class Spot:
    """A point in pixels with its name; ``radius`` is that of its mark."""

    x: float
    y: float
    radius: float
    text: str


@dataclass(frozen=True)
class Label:
    """A name and the middle of where it stands, in pixels."""

    x: float
    y: float
    text: str


Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def placed(
    spots: Sequence[Spot],
    size: tuple[float, float],
    most: int = 12,
    blocked: Sequence[Box] = (),
) -> list[Label]:
    """Names of the first ``most`` points, each where it covers no point and nothing ``blocked``;
    those without room are left out. Earlier points choose first.
    """
    width, height = size
    marks = (around(spot.x, spot.y, 2 * spot.radius, 2 * spot.radius) for spot in spots)
    taken = [*blocked, *marks]
    found = []
    for spot in spots[:most]:
        wide = len(spot.text) * _LETTER
        for x, y in _places(spot, wide):
            box = around(x, y, wide, _HEIGHT)
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height
            if inside and not any(_meet(box, other) for other in taken):
                taken.append(box)
                found.append(Label(x, y, spot.text))
                break
    return found


def text_box(x: float, y: float, text: str) -> Box:
    """The box of a line of text around its middle."""
    return around(x, y, len(text) * _LETTER, _HEIGHT)


def _places(spot: Spot, wide: float) -> Iterable[tuple[float, float]]:
    for ring in _RINGS:
        up = spot.radius + _GAP + _HEIGHT / 2 + ring
        aside = spot.radius + _GAP + wide / 2
        yield spot.x, spot.y - up
        yield spot.x, spot.y + up
        yield spot.x + aside, spot.y - ring
        yield spot.x - aside, spot.y - ring
        yield spot.x + aside, spot.y + ring
        yield spot.x - aside, spot.y + ring


def along(x: float, y: float, to_x: float, to_y: float, steps: int = 60) -> list[Box]:
    """A line as small boxes, so that no name lies on it."""
    ends = ((x + (to_x - x) * n / steps, y + (to_y - y) * n / steps) for n in range(steps + 1))
    return [around(*end, 4.0, 4.0) for end in ends]


def around(x: float, y: float, wide: float, high: float) -> Box:
    """The box around a middle."""
    return x - wide / 2, y - high / 2, x + wide / 2, y + high / 2


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
