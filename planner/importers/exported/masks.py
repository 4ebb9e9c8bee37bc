"""Stored masks: a triangle says that tokens see only earlier ones."""

from __future__ import annotations

from typing import Any

import numpy as np

_SQUARE = 2
_LEADING = 4
"""Sides of a mask that broadcasts over batch and heads."""


def may_be_mask(sides: tuple[int, ...], dtype: str) -> bool:
    """Whether a stored tensor has the sides of a mask of scores, and is no plain matrix."""
    if len(sides) < _SQUARE or sides[-1] != sides[-2] or sides[-1] == 1:
        return False
    return all(side == 1 for side in sides[:-2]) and (dtype == "bool" or len(sides) == _LEADING)


def is_triangle(array: Any) -> bool:
    """Whether one value stands on and below the diagonal and another one above it."""
    square = array.reshape(array.shape[-2:])
    lower = square[np.tril_indices(len(square))]
    upper = square[np.triu_indices(len(square), 1)]
    return bool((lower == lower[0]).all() and (upper == upper[0]).all() and lower[0] != upper[0])
