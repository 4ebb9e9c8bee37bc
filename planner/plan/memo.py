"""What is worth keeping between plans: graphs and structures, which no number changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_kept: dict[Any, Any] = {}
_KEPT_MOST = 1024
"""A sweep over 64 structures and four GPUs asks for 678, again and again: with fewer, each would be
forgotten before it is asked for again."""


def remembered(key: Any, make: Callable[[], Any]) -> Any:
    """Structures are pure functions of their key and cost more than any number in them.

    What was not asked for the longest is forgotten first.
    """
    if key in _kept:
        found = _kept.pop(key)
    else:
        found = make()
        while len(_kept) >= _KEPT_MOST:
            del _kept[next(iter(_kept))]
    _kept[key] = found
    return found
