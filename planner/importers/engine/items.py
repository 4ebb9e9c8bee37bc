"""How many images and videos a prompt may bring, as vLLM's command line says it."""

from __future__ import annotations

import json
from typing import Any

_SEEN = ("image", "video")
"""What vision towers read; which of both, a model says."""


def no_items(text: str) -> bool:
    """Whether ``{"image": 0, "video": 0}`` or ``image=0,video=0`` lets no tower be needed.

    Raises ValueError where one alone is nought: some models read images alone, others both.
    Source: vLLM 0.16.0, `_mark_tower_model` in model_executor/models/interfaces.py.
    """
    limits = _limits(text)
    noughts = [_count(limits.get(word)) == 0 for word in _SEEN]
    if any(noughts) and not all(noughts):
        raise ValueError("some models hold a tower still; else say language_model_only: true")
    return all(noughts)


def _limits(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        pairs = (part.partition("=") for part in text.split(","))
        found = {name.strip(): int(n) for name, _, n in pairs if n.isdecimal() and len(n) < 9}  # noqa: PLR2004
    return found if isinstance(found, dict) else {}


def _count(limit: Any) -> Any:
    """The count of a limit, which may stand among options."""
    return limit.get("count") if isinstance(limit, dict) else limit
