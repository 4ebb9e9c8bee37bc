"""Which classes of Hugging Face's transformers the importer reads."""

from __future__ import annotations

import sys

from planner.spec.hf import ARCHITECTURES


def table() -> str:
    """A row for each family: what it is, its classes, their model types."""
    families: dict[str, list[str]] = {}
    for name, known in ARCHITECTURES:
        kinds = ", ".join(f"`{kind}`" for kind in known.model_types)
        families.setdefault(known.read.__module__, []).append(
            f"`{name}` ({kinds})" if kinds else f"`{name}`"
        )
    rows = ["| family | classes (`model_type`) |", "| --- | --- |"]
    for module, names in sorted(families.items()):
        about = (sys.modules[module].__doc__ or "").split("\n")[0].rstrip(".")
        rows.append(f"| {about} | {', '.join(names)} |")
    return "\n".join(rows)
