"""Nodes that own matrices: projections and tables."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from planner.importers.exported.emission import Emission, last, times
from planner.importers.exported.emit_moves import moved
from planner.importers.exported.graph import Role
from planner.importers.exported.layout import NoShape
from planner.importers.exported.naming import short_name
from planner.importers.exported.products import weight_sides
from planner.importers.exported.types import Step


def linear(out: Emission, step: Step) -> None:
    """A projection; over heads apart, rows are split for it and joined again."""
    depth, features = step.attributes["depth"], step.attributes["features"]
    shape = out.shape(step.inputs[0])
    tied, stored = _held(out, step)
    bias, shared = out.take(step.inputs[2]) if len(step.inputs) > 2 else (0, False)  # noqa: PLR2004
    counted = bool(bias) and not shared
    said = {"features": features, "bias": counted or None, "tied": tied or None}
    if bias and shared:
        raise NoShape("a bias that another product owns")
    if last(shape) == depth:
        out.node("linear", step, step.inputs[:1], (*shape[:-1], features), **said)
        out.nodes[-1] = replace(out.nodes[-1], format=stored)
        return
    _by_heads(out, step, said)


def _by_heads(out: Emission, step: Step, said: dict[str, Any]) -> None:
    """The projection of each head's dims by the same weights."""
    depth, features = step.attributes["depth"], step.attributes["features"]
    shape = out.shape(step.inputs[0])
    if last(shape) % depth:
        raise NoShape(f"rows of {last(shape)} for weights of {depth}")
    count = last(shape) // depth
    apart = (*shape[:-2], times(shape[-2], count), depth)
    inner = Step(step.name, "Reshape", step.inputs[:1], (f"{step.outputs[0]}.apart",))
    out.node("reshape", inner, inner.inputs, apart, shape=list(apart))
    product = Step(step.name, "Linear", step.inputs, (f"{step.outputs[0]}.heads",))
    out.node("linear", product, inner.outputs, (*apart[:-1], features), **said)
    joined = (*shape[:-1], count * features)
    out.node("reshape", step, product.outputs, joined, shape=list(joined))


def _held(out: Emission, step: Step) -> tuple[bool, str]:
    """Whether another product holds the weights already, and the narrow format they are kept in."""
    if "bits" not in step.attributes:
        kept = {out.graph.export.weights[base].dtype for base in out.graph.bases(step.inputs[1])}
        return out.take(step.inputs[1])[1], next(iter(kept & _NARROW), "")
    name, bits, group = step.inputs[1], step.attributes["bits"], step.attributes["group"]
    if (bits, group) not in _FORMATS:
        raise NoShape(f"weights of {bits} bits in groups of {group}")
    tied = name in out.taken
    out.taken[name] = step.attributes["features"] * step.attributes["depth"]
    return tied, _FORMATS[bits, group]


_NARROW = {"int8", "int4", "fp8"}
_FORMATS = {(4, 128): "int4", (4, 64): "int4_g64", (4, 32): "int4_g32", (8, 128): "int8"}


def embedding(out: Emission, step: Step) -> None:
    """A look-up of rows by indices that are known from outside."""
    table, ids = step.inputs[:2]
    sides = weight_sides(out.graph, table) if out.graph.role(table) == Role.WEIGHT else None
    if sides is None or step.attributes.get("axis", 0) != 0 or out.graph.is_stream(ids):
        moved(out, step)
        return
    entry = _entry(out, table, ids)
    _, tied = out.take(table)
    if tied:
        raise NoShape("a table that another look-up owns")
    if entry not in out.shapes:
        whole = out.graph.sides(step.outputs[0])
        rows = whole[: 1 - len(sides)] if whole else None
        out.shapes[entry] = out.inputs[entry] = out.layout.rows(rows)
    shape = (*out.shapes[entry], prod(sides[1:]))
    out.node("embedding", step, [entry], shape, rows=sides[0], features=prod(sides[1:]))


def _entry(out: Emission, table: str, ids: str) -> str:
    """The model's input that indices are, or one made for indices that are computed."""
    tensor = ids
    step = out.graph.maker(tensor)
    while step is not None and step.op in {"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze"}:
        tensor = step.inputs[0]
        step = out.graph.maker(tensor)
    if tensor in out.graph.export.inputs:
        return tensor
    return f"{short_name(*out.graph.bases(table), otherwise='row')}_ids"
