"""Arithmetic that takes Python numbers and NumPy arrays alike.

Structure may branch, numbers may not: a formula written with these helpers prices one deployment
(plain floats, no NumPy import) or a hundred thousand of them (arrays) with the same code.
"""

from __future__ import annotations

import math
from typing import Any

Number = Any
"""A Python int or float, or a NumPy array of them."""


_SCALARS = frozenset({int, float})


def is_array(*values: Number) -> bool:
    """Whether any of the values is an array."""
    for value in values:  # noqa: SIM110 – asked a thousand times a plan, twice as fast so
        if type(value) not in _SCALARS and hasattr(value, "__array__"):
            return True
    return False


def maximum(first: Number, *rest: Number) -> Number:
    """The largest of the values, element by element for arrays."""
    if not rest:
        return first
    if not is_array(first, *rest):
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
    if not is_array(first, *rest):
        return min(first, *rest)
    import numpy as np

    result = first
    for value in rest:
        result = np.minimum(result, value)
    return result


def where(condition: Number, yes: Number, no: Number) -> Number:
    """``yes`` where the condition holds, else ``no``."""
    if not is_array(condition, yes, no):
        return yes if condition else no
    import numpy as np

    return np.where(condition, yes, no)


def ceil_div(numerator: Number, denominator: Number) -> Number:
    """⌈numerator / denominator⌉ for whole numbers."""
    return -(-numerator // denominator)


def as_float(value: Number) -> Number:
    """A plain float of one number; an array as it is."""
    return value if is_array(value) else float(value)


def any_nonzero(value: Number) -> bool:
    """Whether there is any at all: a question of structure, the same for all rows of an array."""
    return bool(value.any()) if is_array(value) else bool(value)


def is_one(value: Number) -> bool:
    """Whether it is one: a question of structure, the same for all rows of an array."""
    return bool((value == 1).all()) if is_array(value) else bool(value == 1)


def expm1(value: Number) -> Number:
    """e^value − 1, exact near nought."""
    if not is_array(value):
        return math.expm1(value)
    import numpy as np

    return np.expm1(value)


def log(value: Number) -> Number:
    """The natural logarithm."""
    if not is_array(value):
        return math.log(value)
    import numpy as np

    return np.log(value)


def exp(value: Number) -> Number:
    """e^value."""
    if not is_array(value):
        return math.exp(value)
    import numpy as np

    return np.exp(value)


def square_root(value: Number) -> Number:
    """√value."""
    if not is_array(value):
        return math.sqrt(value)
    import numpy as np

    return np.sqrt(value)


def floor(value: Number) -> Number:
    """The whole number at or below the value."""
    if not is_array(value):
        return int(value // 1)
    import numpy as np

    return np.floor(value)
