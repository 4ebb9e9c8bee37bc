"""Texts that stand below fields in the source of a class."""

from __future__ import annotations

import ast
import inspect
from typing import Any


def field_texts(kind: Any) -> dict[str, str]:
    """What the source says of each field, base classes included, as Markdown in one line."""
    found: dict[str, str] = {}
    for base in reversed(inspect.getmro(kind)):
        if base is not object:
            found |= _own_texts(base)
    return found


def _own_texts(kind: Any) -> dict[str, str]:
    try:
        (body,) = ast.parse(inspect.getsource(kind)).body
    except (OSError, TypeError):  # made at run time, so without fields of its own
        return {}
    if not isinstance(body, ast.ClassDef):
        return {}
    found = {}
    for before, after in zip(body.body, body.body[1:], strict=False):
        if not (isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[before.target.id] = sentence(str(after.value.value))
    return found


def sentence(text: str) -> str:
    """A docstring as one line of Markdown; one sentence loses its full stop, None becomes null."""
    words = " ".join(text.replace("``", "`").replace("None", "null").split())
    return words if ". " in words else words.removesuffix(".")
