"""Graphs that others exported, as model specs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast

from planner.cli.common.importing import Imported, sizes
from planner.errors import UsageError
from planner.importers.exported.onnx_file import onnx_export
from planner.importers.exported.read import Options, converted
from planner.importers.exported.torch_file import torch_export
from planner.importers.exported.types import Export, Side
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.types import ModelSpec
from planner.spec.write import written

Attention = Literal["causal", "both"] | None
_READERS = {"onnx": onnx_export, "torch": torch_export}


def exported_import(
    file: Path,
    catalog: Catalog,
    *,
    form: Literal["onnx", "torch"],
    name: str | None,
    axes: Sequence[str],
    attention: Attention,
    last_token: bool,
) -> Imported:
    """The model spec of an exported graph. Raises PlannerError for one that cannot be planned."""
    export: Export = _READERS[form](file)
    options = Options(_axes(axes), attention, last_token)
    found = converted(export, name or _name(file), file.name, options)
    model = cast("ModelSpec", load_text(written(found.data), file.name, "model"))
    facts = {**found.facts, **sizes(model, catalog)}
    head = [f"Made by `planner import {form}` from {file.name}"]
    return Imported(f"import-{form}", found.data, {"": [*head, *found.notes]}, facts, found.notes)


def _name(file: Path) -> str:
    return re.sub(r"[^a-z0-9.-]+", "-", file.stem.lower()).strip("-.") or "model"


def _side(text: str, value: str) -> Side:
    if value.isdecimal():
        if not 1 <= int(value[:_DIGITS]) == int(value[: _DIGITS + 1]):
            raise UsageError(f"--axis {text[:60]}: a size is from 1 to 999,999,999")
        return int(value)
    if not re.fullmatch(r"[A-Za-z_]\w*", value):
        raise UsageError(f"--axis {text[:60]}: {value[:30]!r} is no name and no size")
    return value


_DIGITS = 9
"""Of the largest size that an axis may have."""


def _axes(texts: Sequence[str]) -> dict[str, Side]:
    found: dict[str, Side] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not value:
            raise UsageError(f"--axis {text} says nothing of an axis", "as in --axis seq=tokens")
        found[name.strip()] = _side(text, value.strip())
    return found
