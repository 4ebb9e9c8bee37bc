"""Sequence parallelism: what all tensor ranks would compute alike, each computes for some rows.

An all-reduce is a reduce-scatter and an all-gather. Between the two, norms and residual adds work
row by row, so each rank does them for its rows alone; the gather waits until an operator needs
every row. Source: vLLM compilation/passes/fusion/sequence_parallelism.py; arXiv 2205.05198.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from planner.ops import OPERATORS
from planner.ops.collective import RowScatter
from planner.ops.types import ExpertLayout, OpClass, Operator, Shape, Tensor

_ROW_BY_ROW = {OpClass.POINTWISE, OpClass.ROW_REDUCTION}


def joined(collective: str, layout: ExpertLayout) -> tuple[str, Operator]:
    """The collective that ends an operator: where ranks share rows, the first half of it."""
    if collective == "all_reduce" and layout.sequence:
        return "reduce_scatter", RowScatter(layout.tensor)
    kind = OPERATORS.get(collective)
    assert kind is not None
    return collective, kind(ranks=layout.tensor)  # type: ignore[call-arg]


def needs_rows(shape: Shape, op: Operator, shapes: Sequence[Shape], layout: ExpertLayout) -> bool:
    """Whether a tensor holds this rank's rows alone, and its reader wants all of them.

    ``shapes`` are all that the reader takes.
    """
    if not layout.sequence or not _sliced(shape, layout.tensor):
        return False
    alike = all(_sliced(each, layout.tensor) for each in shapes)
    return not (alike and op.op_class in _ROW_BY_ROW)


def with_rows_of(wanted: Tensor, handed: Tensor) -> Tensor:
    """A block's input, of as many rows as the block before it hands over."""
    return replace(wanted, shape=(handed.shape[0], *wanted.shape[1:]))


def _sliced(shape: Shape, ranks: int) -> bool:
    return shape[0].symbols == ("tokens",) and shape[0].coefficient == Fraction(1, ranks)
