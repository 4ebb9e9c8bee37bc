"""The words of graphs: nodes, blocks (a networkx graph per kind), a model as their sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property

import networkx as nx

from planner.ops.types import Formats, Load, Operator, Parameters, Shape, Site, Symbol, Tensor
from planner.records import dataclass
from planner.spec.origin import Origin


@dataclass(frozen=True)
class Node:
    """One operator of a block, on one rank."""

    id: str
    op_name: str
    op: Operator
    inputs: tuple[str, ...]
    """Names of the block's tensors it reads."""
    outputs: tuple[str, ...]
    parameters: tuple[Parameters, ...]
    matmul_dtype: str
    """What its matrix products multiply; decides which peak and ridge count."""
    composite: str | None = None
    """The node a user wrote that this one is a part of, as in ``attention``."""
    formats: Formats | None = None
    """Its own formats; None: the block's."""
    origin: Origin = field(default_factory=Origin.unknown, compare=False)


@dataclass(frozen=True, eq=False)
class Block:
    """One kind of block: nodes in topological order, and the same as a networkx graph.

    In ``graph`` nodes are ids with their Node under ``node``; an edge is a tensor from its producer
    to one reader, keyed by the tensor's name, with the Tensor under ``tensor``.
    """

    label: str
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    graph: nx.MultiDiGraph[str]
    formats: Formats
    opens: bool = False
    """Whether it begins a part of the model that reads nothing of the block before it."""

    @cached_property
    def by_id(self) -> dict[str, Node]:
        """Nodes by id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def composites(self) -> dict[str, tuple[Node, ...]]:
        """The parts of each composite node, by its id."""
        found: dict[str, tuple[Node, ...]] = {}
        for node in self.nodes:
            if node.composite:
                found[node.composite] = (*found.get(node.composite, ()), node)
        return found

    @cached_property
    def symbols(self) -> frozenset[Symbol]:
        """Load symbols that its tensors need."""
        shapes = [tensor.shape for tensor in self.tensors.values()]
        return frozenset(s for shape in shapes for dim in shape for s in dim.symbols)

    def shapes_of(self, node: Node) -> tuple[Shape, ...]:
        """Shapes of what a node reads."""
        return tuple(self.tensors[name].shape for name in node.inputs)

    def site(self, node: Node, load: Load) -> Site:
        """What a node's formulas may look at under a load."""
        return Site(
            tuple(self.tensors[name] for name in node.inputs),
            tuple(self.tensors[name] for name in node.outputs),
            load,
            node.parameters,
            node.formats or self.formats,
        )


@dataclass(frozen=True)
class Run:
    """``times`` blocks of one kind in a row."""

    kind: int
    times: int


@dataclass(frozen=True, eq=False)
class ModelGraph:
    """A model on one rank: its kinds of blocks, and the sequence that runs them."""

    name: str
    kinds: tuple[Block, ...]
    sequence: tuple[Run, ...]
    formats: Formats
    ranks: int
    encoder: ModelGraph | None = None
    """What runs in front of it where prompts begin."""
    encoder_tokens: int = 0
    """Rows of one item of the encoder, where the load doesn't say."""
    encoder_items: int = 0
    """Items of each prompt, where the load doesn't say."""
    encoder_kinds: int = 0
    """How many of the first kinds are the encoder's, and run under the load of the encoder."""
    context: int = 1
    """Ranks that share each sequence's KV cache."""

    @cached_property
    def op_names(self) -> frozenset[str]:
        """Operators of all its nodes."""
        return frozenset(node.op_name for block in self.kinds for node in block.nodes)

    @cached_property
    def alone(self) -> ModelGraph:
        """The graph without its encoder."""
        return replace(self, encoder=None) if self.encoder else self

    @cached_property
    def behind_encoder(self) -> ModelGraph:
        """The graph with the blocks of its encoder run first, as one."""
        if self.encoder is None:
            return self
        count, first = len(self.encoder.kinds), self.sequence[0].kind
        kinds = list(self.kinds)
        kinds[first] = replace(kinds[first], opens=True)
        shifted = (Run(run.kind + count, run.times) for run in self.sequence)
        return replace(
            self,
            kinds=(*self.encoder.kinds, *kinds),
            sequence=(*self.encoder.sequence, *shifted),
            encoder=None,
            encoder_kinds=count,
        )

    def beside(self, other: ModelGraph) -> ModelGraph:
        """Both graphs as one to be held in memory; no step runs it."""
        count = len(self.kinds)
        shifted = (Run(run.kind + count, run.times) for run in other.sequence)
        return replace(self, kinds=(*self.kinds, *other.kinds), sequence=(*self.sequence, *shifted))

    def load_of(self, kind: int, load: Load) -> Load:
        """What a kind of block sees of a load."""
        return load.encoder or load if kind < self.encoder_kinds else load

    @cached_property
    def times(self) -> tuple[int, ...]:
        """How often each kind runs."""
        return tuple(
            sum(run.times for run in self.sequence if run.kind == kind)
            for kind in range(len(self.kinds))
        )

    @cached_property
    def pairs(self) -> tuple[tuple[int, int | None], ...]:
        """Every (kind, following kind) that occurs, the last block's being (kind, None)."""
        found: dict[tuple[int, int | None], None] = {}
        for run, following in zip(self.sequence, (*self.sequence[1:], None), strict=True):
            if run.times > 1:
                found[run.kind, run.kind] = None
            found[run.kind, following.kind if following else None] = None
        return tuple(found)

    @cached_property
    def symbols(self) -> frozenset[Symbol]:
        """Load symbols that any block needs."""
        return frozenset().union(*(kind.symbols for kind in self.kinds))
