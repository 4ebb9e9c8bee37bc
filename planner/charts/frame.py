"""A plane with two logarithmic axes, and places in it counted in pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Frame:
    """The part of the plane that is drawn, both axes logarithmic."""

    left: float
    right: float
    bottom: float
    top: float
    width: float
    height: float

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is, from the upper left corner."""
        along = math.log(x / self.left) / math.log(self.right / self.left)
        up = math.log(y / self.bottom) / math.log(self.top / self.bottom)
        return along * self.width, (1 - up) * self.height


def at(alt: Any) -> dict[str, Any]:
    """Places in pixels, which no scale moves."""
    return {
        "x": alt.X("px:Q", scale=None, axis=None, title=None),
        "y": alt.Y("py:Q", scale=None, axis=None, title=None),
    }


def turned(x: float, y: float, to_x: float, to_y: float) -> float:
    """Degrees, clockwise from upright, of a mark that points from one pixel to another."""
    return math.degrees(math.atan2(to_x - x, y - to_y))
