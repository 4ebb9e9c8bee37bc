"""The step's program with every width cut down: what is left of its time is calling operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_WIDTHS = ("depth", "features", "size", "rows", "head_dim", "rotary")
_SCALES = (16, 8, 4, 2)
_CONTEXT = 8


def narrow(program: dict[str, Any]) -> dict[str, Any]:
    """A program of the same operators, all widths divided by one number, over a few keys.

    One number for all keeps heads · head size equal to features. Rotary embedding turns halves, so
    that heads stay of even size.
    """
    widths = set(_widths(program))
    fitting = (each for each in _SCALES if all(width % (2 * each) == 0 for width in widths))
    scale = next(fitting, 1)
    blocks = [
        {**block, "nodes": [_scaled(node, scale) for node in block["nodes"]]}
        for block in program["blocks"]
    ]
    return {**program, "context": min(_CONTEXT, program["context"]), "blocks": blocks}


def _widths(program: dict[str, Any]) -> Iterator[int]:
    for block in program["blocks"]:
        for node in block["nodes"]:
            yield from (node[name] for name in _WIDTHS if node.get(name))


def _scaled(node: dict[str, Any], scale: int) -> dict[str, Any]:
    return node | {name: node[name] // scale for name in _WIDTHS if node.get(name)}
