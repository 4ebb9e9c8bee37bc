"""Which classes of Hugging Face's transformers the importer reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from planner.spec.hf import ARCHITECTURES, TOWERS


def table() -> str:
    """A row for each family: what it is, its classes, their model types."""
    return _table("family", ((n, k.read.__module__, k.model_types) for n, k in ARCHITECTURES))


def towers() -> str:
    """A row for each family of towers."""
    return _table("tower", ((n, k.read.__module__, k.model_types) for n, k in TOWERS))


def _table(head: str, known: Iterable[tuple[str, str, tuple[str, ...]]]) -> str:
    families: dict[str, list[str]] = {}
    for name, module, model_types in known:
        kinds = ", ".join(f"`{kind}`" for kind in model_types)
        families.setdefault(module, []).append(f"`{name}` ({kinds})" if kinds else f"`{name}`")
    rows = [f"| {head} | classes (`model_type`) |", "| --- | --- |"]
    for module, names in sorted(families.items()):
        about = (sys.modules[module].__doc__ or "").split("\n")[0].rstrip(".")
        rows.append(f"| {about} | {', '.join(names)} |")
    return "\n".join(rows)
