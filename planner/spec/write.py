"""Plain data to YAML that this program reads back as the same data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from planner.spec.scalars import resolve

WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+()-]+)*")


def written(data: Mapping[str, Any], comments: Mapping[str, Sequence[str]] | None = None) -> str:
    """A mapping as YAML: its keys one a line, what they hold in ``{}`` and ``[]``.

    ``comments`` go above a key; those of ``""`` open the text, those of an absent key end it.
    """
    notes = dict(comments or {})
    lines = [*_commented(notes.pop("", ()))]
    for key, value in data.items():
        lines += _commented(notes.pop(key, ()))
        lines += _entry(key, value)
    for rest in notes.values():
        lines += _commented(rest)
    return "".join(f"{line}\n" for line in lines)


def _commented(texts: Sequence[str]) -> list[str]:
    return [f"# {line}".rstrip() for text in texts for line in _printable(text).split("\n")]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


_DEEP = {"blocks": 3}
"""Keys whose values are written key by key further down: block, field of a block, node."""


def _entry(key: str, value: Any, depth: int = 1) -> list[str]:
    flow = f"{_scalar(key)}: {_flow(value)}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [f"{_scalar(key)}:", *(f"  - {_flow(item)}" for item in value)]
    depth = _DEEP.get(key, depth)
    if isinstance(value, dict) and value and depth and len(flow) > WIDTH:
        inner = [line for k, v in value.items() for line in _entry(k, v, depth - 1)]
        return [f"{_scalar(key)}:", *(f"  {line}" for line in inner)]
    return [flow]


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_scalar(key)}: {_flow(v)}' for key, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return "null" if value is None else json.dumps(value)
    if _PLAIN.fullmatch(value) and _resolved(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _resolved(text: str) -> Any:
    try:
        return resolve(text)
    except ValueError:
        return None
