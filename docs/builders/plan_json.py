"""Tables of the plan's JSON, from its dataclasses."""

from __future__ import annotations

import dataclasses
import inspect
import types as python_types
import typing
from collections.abc import Mapping
from typing import Any

from builders.markup import code, table
from builders.plan_words import UNITS, WORDS
from builders.source_text import field_texts
from planner.plan import (
    advice,
    attention_ledger,
    attention_rows,
    captured_types,
    diff,
    explained,
    intensity,
    matched,
    memory_types,
    serving_types,
    splits,
    types,
)
from planner.serving import percentiles, simulation, tally

_MODULES = (
    types,
    memory_types,
    serving_types,
    splits,
    advice,
    diff,
    explained,
    intensity,
    attention_rows,
    matched,
    captured_types,
    attention_ledger,
    simulation,
    percentiles,
    tally,
)


def classes() -> dict[str, type]:
    """The public dataclasses of plans, advice, diffs, intensity tables and matches, by name."""
    return {
        name: kind
        for module in _MODULES
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if dataclasses.is_dataclass(kind)
        and kind.__module__ == module.__name__
        and not name.startswith("_")
    }


def fields(name: str) -> str:
    """The fields of one class: type, unit, meaning.

    Raises ValueError for a field that neither its docstring nor ``plan_words`` describes.
    """
    kind = classes()[name]
    hints = typing.get_type_hints(kind)
    said = {**WORDS.get(name, {}), **field_texts(kind)}
    if missing := [field for field in hints if field not in said]:
        raise ValueError(f"nothing says what {name}.{missing[0]} means; write it below the field")
    rows = [(code(f), _type(hints[f]), _unit(name, f), said[f]) for f in hints]
    return table(("field", "type", "unit", "meaning"), rows)


def _type(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (python_types.UnionType, typing.Union):
        kinds = [_type(kind) for kind in inner if kind is not type(None)]
        return " or ".join([*kinds, "null"] if type(None) in inner else kinds)
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is typing.Literal:
        return "string"
    if origin is not None and issubclass(origin, Mapping):
        return f"mapping of {_type(inner[1])}"
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return {int: "integer", float: "number", str: "string", bool: "boolean"}.get(hint, "any")


def _unit(name: str, field: str) -> str:
    if f"{name}.{field}" in UNITS:
        return UNITS[f"{name}.{field}"]
    endings = ("per_s", "per_token", "per_byte", "_bytes", "_flops", "_tokens", "_s")
    ending = next((end for end in endings if field.endswith(end)), "")
    return UNITS.get(ending, "")
