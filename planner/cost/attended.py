"""Attention joined with what stands around it, as one kernel, by what results depend on.

A tile of attention is some queries of one KV head. In front of it stand nodes of each head:
rotation, norms of heads, the write of the new keys and values, which happens once and never touches
the cached rows; and the projections that these come from, whose columns are split by heads. Behind
it keep to their tile what works element by element or head by head; a statistic of whole rows needs
all heads in one tile, and a projection sums up over the tiles of all heads, then perhaps of all
ranks.

Kernels that do so: FlashInfer's append of rotated keys, FlashMLA; ClusterFusion (Luo et al. 2025,
arXiv:2508.18850) and AWS's attention_block_tkg from the norm to the output projection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from planner.cost.flow import Flow, reads_from
from planner.cost.roles import ONLINE, SUMS, is_narrow, role_of
from planner.graph.types import Node
from planner.graph.window import NodeKey, Window
from planner.ops.attention import AttentionPart
from planner.ops.latent_attention import LatentPart
from planner.ops.linear import Linear
from planner.ops.mla import HeadLinear
from planner.ops.types import OpClass


def composites(window: Window) -> Iterator[tuple[NodeKey, ...]]:
    """The attentions of a window, each by its parts in order."""
    for offset, block in enumerate(window.blocks):
        for parts in block.composites.values():
            yield tuple((offset, part.id) for part in parts)


def is_projection(node: Node) -> bool:
    """Whether a node multiplies rows by weights, no more."""
    return type(node.op) is Linear


def attended_flow(window: Window, ordered: Iterable[NodeKey]) -> Flow | None:
    """How one kernel runs attention with what stands around it; None where it cannot.

    Nodes are given in order.
    """
    nodes = tuple(ordered)
    parts = tuple(key for key in nodes if window.node(key).composite)
    if parts not in composites(window) or not _known(window, parts):
        return None
    walk = _Around(window, frozenset(nodes), parts)
    return walk.flow() if all(walk.takes(key) for key in nodes if key not in parts) else None


def _known(window: Window, parts: tuple[NodeKey, ...]) -> bool:
    """Whether it is plain or latent attention, of this rank alone."""
    classes = {window.node(key).op.op_class for key in parts}
    scores = window.node(parts[0]).op
    return OpClass.COLLECTIVE not in classes and isinstance(scores, AttentionPart | LatentPart)


@dataclass
class _Around:
    """Goes through what stands around one attention, node by node."""

    window: Window
    inside: frozenset[NodeKey]
    parts: tuple[NodeKey, ...]
    front: list[NodeKey] = field(default_factory=list)
    """Projections."""
    behind: list[NodeKey] = field(default_factory=list)
    """Projections."""
    by_head: list[NodeKey] = field(default_factory=list)
    rows: list[NodeKey] = field(default_factory=list)
    """Statistics of whole rows in front."""
    summed: set[NodeKey] = field(default_factory=set)
    """Nodes behind a sum over heads, itself among them."""
    whole: bool = False
    late: list[NodeKey] = field(default_factory=list)
    """Statistics of whole rows behind the sum over heads."""
    exchange: NodeKey | None = None
    """A sum over ranks, of what is summed over heads."""

    def takes(self, key: NodeKey) -> bool:
        """Whether a node may be part of the kernel."""
        node = self.window.node(key)
        if key in self._above:
            return self._in_front(key, node)
        before = self.window.predecessors[key] & self.inside
        if not before:
            return False
        if before & self.summed:
            self.summed.add(key)
        return self._behind(key, node)

    @property
    def _above(self) -> frozenset[NodeKey]:
        return self.window.ancestors[self.parts[-1]]

    def _in_front(self, key: NodeKey, node: Node) -> bool:
        if is_projection(node):
            self.front.append(key)
            others = self.window.inputs(key)[1:]
            own = all(self.window.producer.get(tensor) not in self.inside for tensor in others)
            return own and self._first(self.front[0]) == self._first(key)
        role = role_of(node)
        if role == "row" and not is_narrow(self.window, key):
            self.rows.append(key)
            return True
        return role in {"element", "state", "row"} or self._head(key, node)

    def _behind(self, key: NodeKey, node: Node) -> bool:
        if is_projection(node):
            self.behind.append(key)
            alone = key not in self.summed and self._first(self.behind[0]) == self._first(key)
            self.summed.add(key)
            return alone
        role = role_of(node)
        if role == "exchange":
            once = self.exchange is None and key in self.summed
            self.exchange = key
            return once and isinstance(node.op, SUMS)
        if role == "row" and not is_narrow(self.window, key):
            self.whole = self.whole or key not in self.summed
            self.late += [key] * (key in self.summed)
            return True
        return role in {"element", "row"} or (key not in self.summed and self._head(key, node))

    def _head(self, key: NodeKey, node: Node) -> bool:
        self.by_head.append(key)
        return isinstance(node.op, HeadLinear)

    def _first(self, key: NodeKey) -> object:
        return self.window.inputs(key)[0]

    def flow(self) -> Flow | None:
        """What was walked; None where a row would be needed whole by tiles of one head."""
        ancestors = self.window.ancestors
        before = [key for key in self._ordered if any(key in ancestors[p] for p in self.front)]
        states = [key for key in self._ordered if role_of(self.window.node(key)) == "state"]
        split = any(key not in before for key in self.rows)
        if split or set(before).intersection((*self.front, *self.by_head, *states)):
            return None
        return Flow(
            tuple(self.front),
            tuple(self.behind),
            tuple(before),
            tuple(reads_from(self.window, before, self.inside)),
            any(not isinstance(self.window.node(key).op, ONLINE) for key in self.rows),
            self.whole,
            rows=tuple(self.late),
            exchange=self.exchange,
            attention=self.parts,
            by_head=tuple(self.by_head),
            shared=tuple(key for key in self.front if key not in self._of_queries()),
            beside=tuple(key for key in self._ordered if key in self._above and key not in before),
        )

    def _of_queries(self) -> set[NodeKey]:
        """Projections that queries come from. A rotation's results are of one input each."""
        window, found = self.window, set()
        scores = window.node(self.parts[0]).op
        walk = list(window.inputs(self.parts[0])[: 2 if isinstance(scores, LatentPart) else 1])
        while walk:
            tensor = walk.pop()
            key = window.producer.get(tensor)
            if key in self.front:
                found.add(key)
            elif key in self.inside:
                read, written = window.inputs(key), window.outputs(key)
                paired = len(read) == len(written)
                walk += (read[written.index(tensor)],) if paired else read
        return found

    @property
    def _ordered(self) -> list[NodeKey]:
        return sorted(self.inside.difference(self.parts), key=self.window.position.__getitem__)
