"""Frozen values to plain data and back, for JSON, hashes and the store."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def plain(value: Any) -> Any:
    """A value of dataclasses, mappings and tuples as dicts and lists."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is tuple or kind is list:
        return [plain(inner) for inner in value]
    if dataclasses.is_dataclass(kind):
        fields = ((name, getattr(value, name)) for name in _names(kind))
        return {name: it if type(it) in _ATOMS else plain(it) for name, it in fields}
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return value


_ATOMS = frozenset({str, int, float, bool, type(None)})
"""Most of what a plan holds: looked at first, and without a call."""


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def restore(kind: type[T], data: Mapping[str, Any]) -> T:
    """The dataclass whose ``plain`` form ``data`` is. Unknown fields are left aside, so that a
    plan stored by a newer program of the same format can be read.
    """
    known: Any = kind
    hints = _hints(known)
    values = {name: _value(hints[name], data[name]) for name in _names(known) if name in data}
    return kind(**values)


def _value(hint: Any, data: Any) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in {types.UnionType, typing.Union}:
        if data is None:
            return None
        return _value(next(kind for kind in inner if kind is not type(None)), data)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return restore(hint, data)
    if origin is tuple:
        return tuple(_value(inner[0], item) for item in data)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _value(inner[1], item) for key, item in data.items()}
    return data
