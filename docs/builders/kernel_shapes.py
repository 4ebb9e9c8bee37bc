"""Columns of a CSV file of kernels, from the shapes that the kernel models take."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from builders.markup import code, table
from builders.source_text import field_texts
from planner.calibrate.kernel_csv import SHAPES

_WORDS = {
    "rows": "M: rows of the input",
    "depth": "K",
    "features": "N: columns of the weights",
    "batch": "Like sequences",
    "new_tokens": "New tokens of each",
    "kv_tokens": "Tokens each attends to, new ones included",
    "heads": "Query heads of one GPU",
    "kv_heads": "KV heads of one GPU",
    "head_dim": "Dims of a key",
    "ranks": "GPUs that take part",
    "read_bytes": "Bytes read, each once",
    "write_bytes": "Bytes written",
}
"""Where the class itself says nothing of the field."""


def shapes() -> str:
    """Family, column, default, meaning."""
    return table(("family", "column", "default", "meaning"), _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    for family, kind in SHAPES.items():
        texts = field_texts(kind)
        for field in dataclasses.fields(kind):
            needed = field.default is dataclasses.MISSING
            default = "**needed**" if needed else f"{float(field.default):g}"
            meaning = texts.get(field.name) or _WORDS[field.name]
            yield code(family), code(field.name), default, meaning
