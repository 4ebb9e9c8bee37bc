"""Why a plan and a compiler disagree about an edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.calibrate.compiled import Compared
from planner.fusion.agreement import Edge, Verdict
from planner.ops.types import OpClass


@dataclass(frozen=True)
class Disagreement:
    """One edge that one side alone fuses."""

    producer: str
    consumer: str
    by: str
    """Who fuses it: ``ours`` or ``theirs``."""
    reason: str


def disagreements(compared: Compared) -> tuple[Disagreement, ...]:
    """Every edge on which the sides differ, with the rule that makes them."""
    return tuple(_found(compared))


def _found(compared: Compared) -> Iterator[Disagreement]:
    for edge, verdict in compared.verdicts.items():
        if verdict in {"ours", "theirs"}:
            yield Disagreement(*edge, verdict, _reason(compared, edge, verdict))


_SUM = "a pattern ahead of fusion makes the sum part of the library's call (addmm)"
_PRODUCT = "a pattern ahead of fusion makes one library's call of product and sum (addmm)"
_BIAS = "the bias of a batched product is added by the loops that read it"
_AGAIN = "made of fewer stored operands there, so that the reader computes it again"
_ROTATION = "Q and K are one rotation in a plan and two kernels there"
_SIDE = "a reduction over another side than the norm's reads its result from memory (C++)"


def _reason(compared: Compared, edge: Edge, verdict: Verdict) -> str:
    producer, consumer = edge
    reader, theirs = compared.node(consumer).op_name, compared.theirs
    matrix = compared.node(producer).op.op_class == OpClass.CONTRACTION
    kinds = {compared.recorded.kernels[n].kind for n in theirs.first[producer]}
    rules = (
        (_SUM, not matrix and "extern" in kinds),
        (_PRODUCT, matrix and theirs.first[producer] == theirs.first[consumer]),
        (_BIAS, matrix and verdict == "theirs"),
        (_AGAIN, verdict == "theirs" and bool(theirs.again[producer])),
        (_ROTATION, reader == "rope"),
        (_SIDE, verdict == "ours" and reader == "reduction"),
    )
    return next((reason for reason, holds in rules if holds), "not explained")
