"""One block and the next, seen as one graph: as far as any kernel reaches.

A kernel may straddle two blocks, as the residual add that ends a layer and the norm that opens the
next one do. Nodes and tensors are addressed by (0, name) in this block and (1, name) in the next;
the next block's inputs are this block's outputs under another name, and go by this block's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from planner.graph.types import Block, Node
from planner.ops.types import Tensor

NodeKey = tuple[int, str]
TensorKey = tuple[int, str]


@dataclass(frozen=True, eq=False)
class Window:
    """A block and what follows it, if anything does."""

    block: Block
    following: Block | None = None

    def node(self, key: NodeKey) -> Node:
        """The node at a key."""
        return self.blocks[key[0]].by_id[key[1]]

    def tensor(self, key: TensorKey) -> Tensor:
        """The tensor at a key."""
        return self.blocks[key[0]].tensors[key[1]]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """This block and, if there is one, the next."""
        return (self.block,) if self.following is None else (self.block, self.following)

    @cached_property
    def keys(self) -> tuple[NodeKey, ...]:
        """All nodes, this block's first, each block's in topological order."""
        return tuple(
            (offset, node.id) for offset, block in enumerate(self.blocks) for node in block.nodes
        )

    def inputs(self, key: NodeKey) -> tuple[TensorKey, ...]:
        """Tensors a node reads."""
        return self._inputs[key]

    @cached_property
    def _inputs(self) -> dict[NodeKey, tuple[TensorKey, ...]]:
        alias = self._alias
        return {
            (offset, name): tuple(
                alias.get((offset, t), (offset, t)) for t in self.node((offset, name)).inputs
            )
            for offset, name in self.keys
        }

    def outputs(self, key: NodeKey) -> tuple[TensorKey, ...]:
        """Tensors a node writes."""
        return self._outputs[key]

    @cached_property
    def _outputs(self) -> dict[NodeKey, tuple[TensorKey, ...]]:
        return {key: tuple((key[0], name) for name in self.node(key).outputs) for key in self.keys}

    @cached_property
    def position(self) -> dict[NodeKey, int]:
        """Where each node stands among the keys."""
        return {key: at for at, key in enumerate(self.keys)}

    @cached_property
    def _alias(self) -> dict[TensorKey, TensorKey]:
        if self.following is None or self.following.opens:
            return {}
        pairs = zip(self.following.inputs, self.block.outputs, strict=True)
        return {(1, theirs): (0, ours) for theirs, ours in pairs}

    @cached_property
    def producer(self) -> dict[TensorKey, NodeKey]:
        """Who writes each tensor; what enters the window has no entry."""
        return {tensor: key for key in self.keys for tensor in self.outputs(key)}

    @cached_property
    def readers(self) -> dict[TensorKey, tuple[NodeKey, ...]]:
        """Who reads each tensor."""
        found: dict[TensorKey, tuple[NodeKey, ...]] = {}
        for key in self.keys:
            for tensor in dict.fromkeys(self.inputs(key)):
                found[tensor] = (*found.get(tensor, ()), key)
        return found

    @cached_property
    def escaping(self) -> frozenset[TensorKey]:
        """Tensors that somebody beyond the window reads, or that are the model's result."""
        last = len(self.blocks) - 1
        leaving = {(last, name) for name in self.blocks[last].outputs}
        unread = {tensor for tensor in self.producer if tensor not in self.readers}
        return frozenset(leaving | unread)

    @cached_property
    def predecessors(self) -> dict[NodeKey, frozenset[NodeKey]]:
        """Nodes whose output each node reads."""
        return {
            key: frozenset(
                self.producer[tensor] for tensor in self.inputs(key) if tensor in self.producer
            )
            for key in self.keys
        }

    @cached_property
    def ancestors(self) -> dict[NodeKey, frozenset[NodeKey]]:
        """Every node that must have run before each node."""
        found: dict[NodeKey, frozenset[NodeKey]] = {}
        for key in self.keys:
            direct = self.predecessors[key]
            found[key] = direct.union(*(found[before] for before in direct))
        return found

    def is_convex(self, nodes: frozenset[NodeKey]) -> bool:
        """Whether no path leaves the set and comes back: only then can it be one kernel."""
        between = frozenset().union(*(self.ancestors[key] for key in nodes)) - nodes
        return not any(self.ancestors[key] & nodes for key in between)


@lru_cache(maxsize=1024)
def window_of(block: Block, following: Block | None = None) -> Window:
    """The window of two blocks, the same object as long as both are in use.

    What is derived from it costs more than any number of a plan, and blocks never change.
    """
    return Window(block, following)
