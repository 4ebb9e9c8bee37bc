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


def _reason(compared: Compared, edge: Edge, verdict: Verdict) -> str:
    producer, consumer = edge
    matrix = compared.node(producer).op.op_class == OpClass.CONTRACTION
    calls = [compared.recorded.kernels[n] for n in compared.theirs.first[producer]]
    called = any(call.kind == "extern" for call in calls)
    if called and not matrix:
        return "a pattern ahead of fusion makes the sum part of the library's call (addmm)"
    if matrix and compared.theirs.first[producer] == compared.theirs.first[consumer]:
        return "a pattern ahead of fusion makes one library's call of product and sum (addmm)"
    if verdict == "theirs" and matrix:
        return "the bias of a batched product is added by the loops that read it"
    if verdict == "theirs" and set(compared.theirs.again[producer]):
        return "made of fewer stored operands there, so that the reader computes it again"
    if compared.node(consumer).op_name == "rope":
        return "Q and K are one rotation in a plan and two kernels there"
    if verdict == "ours" and compared.node(consumer).op_name == "reduction":
        return "a reduction over another side than the norm's reads its result from memory (C++)"
    return "not explained"
