"""What is worth keeping between plans: graphs and structures, which no number changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_kept: dict[Any, Any] = {}
_KEPT_MOST = 512


def remembered(key: Any, make: Callable[[], Any]) -> Any:
    """Structures are pure functions of their key and cost more than any number in them."""
    if key not in _kept:
        if len(_kept) >= _KEPT_MOST:
            _kept.clear()
        _kept[key] = make()
    return _kept[key]
