"""Why a plan and a compiler disagree about an edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.calibrate.compiled import Compared
from planner.fusion.agreement import Edge, Verdict
from planner.fusion.traits import is_join
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
_BIAS = "a bias is added there by the loops that read it"
_AGAIN = "made of fewer stored operands there, so that the reader computes it again"
_ROTATION = "Q and K are one rotation in a plan and two kernels there"
_PART = (
    "a part of tensors put side by side is written in its place by the kernel that makes it (C++)"
)
_NORM = "a norm behind a stored result is left in a kernel of its own (C++)"
_SCALED = "a batch norm reads five stored tensors and is read twice there: it is stored"
_READERS = "computed there by the kernels that read parts of it"
_LIMIT = "a limit on what loops read or compute is reached at another place"


def _reason(compared: Compared, edge: Edge, verdict: Verdict) -> str:
    producer, consumer = edge
    maker, reader = compared.node(producer), compared.node(consumer)
    theirs, ours, cpp = compared.theirs, verdict == "ours", compared.recorded.rules == "cpp"
    matrix = maker.op.op_class == OpClass.CONTRACTION
    plain = reader.op.op_class == OpClass.POINTWISE
    kinds = {compared.recorded.kernels[n].kind for n in theirs.first[producer]}
    rules = (
        (_SUM, not matrix and "extern" in kinds),
        (_PRODUCT, matrix and theirs.first[producer] == theirs.first[consumer]),
        (_BIAS, matrix and not ours),
        (_AGAIN, not ours and bool(theirs.again[producer])),
        (_ROTATION, reader.op_name == "rope"),
        (_PART, ours and cpp and is_join(reader)),
        (_NORM, ours and cpp and reader.op_name.endswith("norm")),
        (_SCALED, ours and plain and maker.op_name == "elementwise" and bool(maker.parameters)),
        (_READERS, ours and cpp and plain and reader.op_name == "mul"),
        (_LIMIT, not matrix),
    )
    return next((reason for reason, holds in rules if holds), "not explained")
