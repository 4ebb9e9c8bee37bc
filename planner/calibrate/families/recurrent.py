"""Tables of layers with a state per sequence: Gated DeltaNet and the convolution before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from planner.calibrate import aiconfigurator, lint
from planner.calibrate.aiconfigurator import Table
from planner.calibrate.devices import gpu_device
from planner.calibrate.families.attention import Columns, rows
from planner.calibrate.registry import register
from planner.calibrate.types import Axes, Family, Floats, Mask, Pick, Rows
from planner.cost.kernels.recurrent import (
    CHUNKS,
    CONV_PROMPTS,
    CONV_STEPS,
    FLASHINFER,
    MODEL,
    STEPS,
    RecurrentShape,
)
from planner.cost.kernels.types import Constants
from planner.cost.recurrent import recurrent_shape
from planner.cost.types import Device
from planner.ops.dims import ROWS
from planner.ops.recurrent import CausalConv1d, LinearAttention
from planner.ops.types import Dim, Formats, Load, SequenceGroup, Site, Tensor, as_dim

VARIANTS = {
    "chunk_gated_delta_rule": CHUNKS,
    "chunk_gated_delta_rule_triton": CHUNKS,
    "chunk_gated_delta_rule_flashinfer": FLASHINFER,
    "fused_recurrent_gated_delta_rule": STEPS,
    "fused_recurrent_gated_delta_rule_packed_decode": STEPS,
    "causal_conv1d_fn": CONV_PROMPTS,
    "causal_conv1d_update": CONV_STEPS,
}
"""Our variant by the table's `kernel_source`."""
_DECODING = frozenset({STEPS, CONV_STEPS})
"""Variants whose sequences add one token each."""
_WIDE = Formats("bf16", "bf16", "bf16", "bf16")
_SIDES = ("num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "d_conv")
_WIDER, _ALIKE = 2, 1.25
"""Channels this many times as many take longer than this, of long prompts in the median."""
_KEYS = ("batch_size", "seq_len", *_SIDES)


def tables(root: Path, pick: Pick) -> Iterator[Rows]:
    """Every kernel that is known of the newest table of each GPU and engine."""
    for table in aiconfigurator.newest(root, "linear_attention", "gdn_perf", pick):
        columns = aiconfigurator.read(table, ["kernel_source", *_KEYS])
        names = np.array([VARIANTS.get(each, "") for each in columns["kernel_source"]])
        for name in sorted(set(names.tolist()) - {""}):
            mine = {key: column[names == name] for key, column in columns.items()}
            yield _rows(table, name, mine)


def _rows(table: Table, name: str, columns: Columns) -> Rows:
    merged = lint.merge([columns[key] for key in _KEYS], columns["time_s"])
    first = {key: columns[key][merged.first].astype(np.float64) for key in _KEYS}
    shape = _shape(name, first)
    found = lint.neighbours(
        merged.time_s, lint.runs([first[key] for key in (*_SIDES, "batch_size")], first["seq_len"])
    )
    found["non-positive"] = lint.non_positive(merged.time_s)
    found["foreign"] = columns["foreign"][merged.first]
    gpu = gpu_device(table.gpu)
    found["l2-hot"] = shape.moved_bytes < gpu.l2_bytes
    found["another-kernel"] = _decoded(name, first["seq_len"])
    made = rows(("recurrent", name), table, shape, merged.time_s, found)
    return dataclasses.replace(made, merged=merged.repeats, rejected=_rejection(first, made))


def _rejection(columns: Columns, made: Rows) -> str:
    """TensorRT-LLM's convolutions of prompts take as long for 64 heads as for 16, and at 8,192
    tokens less than their bytes would from memory.
    """
    if made.variant != CONV_PROMPTS:
        return ""
    widths, tokens = columns["num_v_heads"], columns["seq_len"]
    alone = (columns["batch_size"] == columns["batch_size"].min()) & (tokens >= np.median(tokens))
    ends = widths[alone].min(), widths[alone].max()
    least_s, most_s = (np.median(made.time_s[alone & (widths == end)]) for end in ends)
    if ends[1] < _WIDER * ends[0] or most_s > _ALIKE * least_s:
        return ""
    return "as long for any number of channels: it was not run with those that it names"


def _decoded(name: str, tokens: Floats) -> Mask:
    """Prompts of one token, which engines decode."""
    mask: Mask = (tokens == 1) & (name not in _DECODING)
    return mask


def _shape(name: str, columns: Columns) -> RecurrentShape:
    """What rows walk and move, by the formulas of their operators, one set of sides at a time."""
    names = [field.name for field in dataclasses.fields(RecurrentShape)]
    parts = {field: np.zeros(len(columns["seq_len"])) for field in names}
    sides = np.stack([columns[key] for key in _SIDES], axis=1).astype(np.int64)
    for each in np.unique(sides, axis=0):
        here = (sides == each).all(axis=1)
        op, widths = _operator(name, dict(zip(_SIDES, each.tolist(), strict=True)))
        tokens, past = (1, 1) if name in _DECODING else (columns["seq_len"][here], 0)
        group = SequenceGroup(columns["batch_size"][here], tokens, tokens + past)
        found = recurrent_shape(op, _site(op, widths), group)
        for field, values in parts.items():
            values[here] = getattr(found, field)
    return RecurrentShape(**parts)


def _operator(
    name: str, sides: Mapping[str, int]
) -> tuple[CausalConv1d | LinearAttention, Sequence[int]]:
    """An operator on one rank, and the widths of its inputs: queries, keys and values, then β and
    the decay.
    """
    keys, key_dim, values, value_dim, kernel = (sides[key] for key in _SIDES)
    mixed = 2 * keys * key_dim + values * value_dim
    if name in {CONV_PROMPTS, CONV_STEPS}:
        return CausalConv1d(kernel), (mixed,)
    return LinearAttention(values, keys, key_dim, value_dim, "delta"), (mixed, values, values)


def _site(op: CausalConv1d | LinearAttention, widths: Sequence[int]) -> Site:
    rows_of_all = Dim(symbols=(ROWS["all"],))
    inputs = tuple(Tensor("", (rows_of_all, as_dim(width)), "bf16") for width in widths)
    shapes = tuple(tensor.shape for tensor in inputs)
    outputs = tuple(Tensor("", shape, "bf16") for shape in op.shapes(shapes))
    return Site(inputs, outputs, Load(), op.parameters(shapes, _WIDE), _WIDE)


def axes(of: Rows) -> Axes:
    """Bytes, and heads by the pieces of a step."""
    return Axes({"bytes": of.shape.moved_bytes, "pieces": of.shape.pieces})


def starts(rows: Rows, device: Device) -> Iterable[Constants]:  # noqa: ARG001 - a Starter
    """Where pieces cost as much as steps, and where they cost next to nothing."""
    yield {"piece_s": 2e-6, "p": 4.0}
    yield {"piece_s": 5e-9, "p": 1.2}


register(Family("recurrent", MODEL, tables, starts, axes))
