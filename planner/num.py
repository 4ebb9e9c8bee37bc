"""Arithmetic that takes Python numbers and NumPy arrays alike.

Structure may branch, numbers may not: a formula written with these helpers prices one deployment
(plain floats, no NumPy import) or a hundred thousand of them (arrays) with the same code.
"""

from __future__ import annotations

from typing import Any

Number = Any
"""A Python int or float, or a NumPy array of them."""


_SCALARS = frozenset({int, float})


def _is_array(*values: Number) -> bool:
    if _SCALARS.issuperset(map(type, values)):
        return False
    return any(hasattr(value, "__array__") for value in values)


def maximum(first: Number, *rest: Number) -> Number:
    """The largest of the values, element by element for arrays."""
    if not rest:
        return first
    if not _is_array(first, *rest):
        return max(first, *rest)
    import numpy as np

    result = first
    for value in rest:
        result = np.maximum(result, value)
    return result


def minimum(first: Number, *rest: Number) -> Number:
    """The smallest of the values, element by element for arrays."""
    if not rest:
        return first
    if not _is_array(first, *rest):
        return min(first, *rest)
    import numpy as np

    result = first
    for value in rest:
        result = np.minimum(result, value)
    return result


def where(condition: Number, yes: Number, no: Number) -> Number:
    """``yes`` where the condition holds, else ``no``."""
    if not _is_array(condition, yes, no):
        return yes if condition else no
    import numpy as np

    return np.where(condition, yes, no)


def ceil_div(numerator: Number, denominator: Number) -> Number:
    """⌈numerator / denominator⌉ for whole numbers."""
    return -(-numerator // denominator)
