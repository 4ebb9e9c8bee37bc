"""Short names for nodes, from those of weights and steps of an export."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[^A-Za-z0-9_]+")
_ENDINGS = (
    "weight",
    "bias",
    "MatMulNBits",
    "MatMul",
    "Gemm",
    "quant",
    "scales",
    "qweight",
    "kernel",
)
_ANONYMOUS = re.compile(r"(onnx|val|const|t|v|p|_)*_*[0-9]*", re.IGNORECASE)
_SPLIT = re.compile(r"[/.:]+")


def short_name(*candidates: str, otherwise: str) -> str:
    """The last telling part of the first telling name: ``q_proj`` of ``layers.0.q_proj.weight``."""
    for candidate in candidates:
        parts = [part for part in _SPLIT.split(candidate) if part]
        while parts and (parts[-1] in _ENDINGS or _ANONYMOUS.fullmatch(parts[-1])):
            parts.pop()
        if parts and not candidate.startswith("onnx::"):
            name = _WORDS.sub("_", parts[-1]).strip("_")
            if name and not name[0].isdigit():
                return name
    return otherwise


def unique(name: str, taken: set[str]) -> str:
    """The name, numbered where it is taken; it then is, too."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found
