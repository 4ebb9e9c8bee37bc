"""How tokens reach experts on the ranks of other data replicas, and how results come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planner.dtypes import bytes_per_element
from planner.num import Number
from planner.ops.moe_load import reached
from planner.ops.types import (
    Exchange,
    ExpertLayout,
    OpClass,
    Operator,
    Shape,
    Site,
    Work,
)

CHOICE_BYTES = 8
"""Of one choice of a token that travels: its expert's number and its weight, 32 bit each."""


@dataclass(frozen=True)
class _Traffic(Operator):
    """What dispatch and combine share. The replica's tokens are those of its tensor ranks alike."""

    exchange: Exchange
    experts: int
    top_k: int
    layout: ExpertLayout

    op_class: ClassVar[OpClass] = OpClass.COLLECTIVE

    def others(self) -> int:
        """Replicas that this one exchanges with."""
        return self.layout.replicas - 1

    def copies(self, tokens: Number) -> Number:
        """Rows this rank sends to other ranks: its share of the replica's tokens, once to each rank
        that holds one of a token's experts.

        Source: DeepEP's high-throughput kernels send a token once per rank. Its low-latency kernels
        send one copy per expert, which is more where two of a token's experts share a rank.
        """
        ranks = self.layout.experts
        return tokens / self.layout.tensor * (ranks - 1) * reached(self.top_k, self.experts, ranks)


@dataclass(frozen=True)
class Dispatch(_Traffic):
    """Tokens and scores of all replicas, or the rows that chose this rank's experts.

    ``gather``: an all-gather over the replicas; a rank sends its n rows to R − 1 others.
    ``all_to_all``: `copies` rows in the format that the experts multiply.
    """

    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "tokens to the ranks of their experts"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        replicas = self.layout.replicas
        return tuple((shape[0] * replicas, *shape[1:]) for shape in inputs)

    def work(self, site: Site) -> Work:
        rows, hidden = site.rows(), site.inputs[0]
        if self.exchange == "gather":
            size = sum(tensor.bytes(site.load) for tensor in site.inputs)
            return Work(link_bytes=self.others() * size)
        wide = site.load.dim(hidden.shape[-1]) * bytes_per_element(site.formats.matmul)
        return Work(link_bytes=self.copies(rows) * (wide + self.top_k * CHOICE_BYTES))


@dataclass(frozen=True)
class Combine(_Traffic):
    """Sums of the experts' results, back at the rank of each token.

    ``gather``: a reduce-scatter over the replicas. ``all_to_all``: as many rows as were sent, and,
    where tensor ranks shared a replica's tokens, those rows among them.
    """

    about: ClassVar[str] = "results of experts to the ranks of their tokens"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        first = inputs[0][0] / self.layout.replicas
        return ((first, *inputs[0][1:]),)

    def work(self, site: Site) -> Work:
        result = site.outputs[0]
        row = site.load.dim(result.shape[-1])
        rows = site.load.elements(result.shape[:-1])
        sent = self.others() * rows
        joined: Number = 0
        if self.exchange == "all_to_all":
            sent = self.copies(rows)
            joined = rows * (self.layout.tensor - 1) / self.layout.tensor
        width = bytes_per_element(result.dtype)
        return Work(vector_flops=sent * row, link_bytes=(sent + joined) * row * width)
