"""A structure as the search sees it: blocks, seams and kernels, free of sizes and of prices."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

from planner.cost.engine import Engine
from planner.fusion import types as fusion
from planner.fusion.explore import Space, known_space
from planner.fusion.groups import Group, Structure
from planner.fusion.match import NodeNames, named
from planner.graph.types import Block, ModelGraph
from planner.spec.conditions import holds
from planner.spec.types import KernelName

Place = tuple[int, str]
"""A node by its kind of block and its id."""


@dataclass(frozen=True, eq=False)
class Slot:
    """A group where it stands in the model."""

    group: Group
    kinds: tuple[int, ...]
    """The kind of block it lies in; across a seam the next one's too."""
    outside: bool
    """Whether no graph holds it."""
    splits: bool
    """Whether it splits a piecewise graph."""
    fuses: frozenset[Place]
    """Nodes that a rule of the engine fuses by it."""
    alone: Place | None
    """Its node, where it is a single one."""
    like: tuple[int, ...] = ()
    """The first kinds of block that have the same nodes, where those are other ones."""

    @cached_property
    def priced_as(self) -> str:
        """What its work and time depend on: groups alike in it, of any rule, are priced once.

        A text, for that knows its own hash.
        """
        rule = self.group.rule
        tile, decodes = (rule.query_tile, rule.decode_kernel) if rule else (None, None)
        own = "tiled" if self.group.flow else "apart" if self.group.together else ""
        kinds, edge = self.like or self.kinds, self.group.border
        return f"{kinds} {edge} {tile} {self.group.kernel} {decodes} {own}"

    @cached_property
    def together(self) -> tuple[Slot, ...]:
        """The kernels that its group stands for, where they are several."""
        return tuple(replace(self, group=group) for group in self.group.together)

    @cached_property
    def order(self) -> float:
        """When the engine's pass of it runs; rules without a number come last."""
        rule = self.group.rule
        return rule.order if rule and rule.order else math.inf

    @cached_property
    def limited(self) -> bool:
        """Whether a size may keep it from running."""
        return bool(self.group.rule and self.group.rule.limits)


@dataclass(frozen=True, eq=False)
class Layout:
    """All groups of a structure by slot, and the search problem they make: for any load."""

    structure: Structure
    slots: tuple[Slot, ...]
    problem: fusion.Problem
    _spaces: dict[bool, Space] = field(default_factory=dict)
    kept: dict[Hashable, Any] = field(default_factory=dict)
    """What others find out about it, to be found once."""

    def space(self, *, order_free: bool) -> Space:
        """The states that a search may pass through. Raises SearchTooLarge."""
        if order_free not in self._spaces:
            self._spaces[order_free] = known_space(self.problem, order_free=order_free)
        return self._spaces[order_free]


def splitting(engine: Engine) -> tuple[int, ...]:
    """Which of its rules an engine splits piecewise graphs by here."""
    rules = enumerate(engine.spec.capture.splits)
    return tuple(number for number, rule in rules if holds(rule.when, engine.facts))


def layout(structure: Structure, engine: Engine) -> Layout:
    """The layout of a structure. Of the engine's facts only ``splitting`` matters."""
    capture = engine.spec.capture
    splits = _named(structure, [capture.splits[number] for number in splitting(engine)])
    twins = _twins(structure.graph)
    slots = tuple(
        replace(
            _slot(group, kinds, structure, frozenset(capture.outside), splits),
            like=_like(group, kinds, twins),
        )
        for kinds, groups in _owners(structure)
        for group in groups
    )
    return Layout(structure, slots, _problem(structure))


def _owners(structure: Structure) -> Iterator[tuple[tuple[int, ...], tuple[Group, ...]]]:
    """Groups by the kinds they lie in, those within blocks first."""
    for kind, groups in enumerate(structure.inside):
        yield (kind,), groups
    for kind, following in structure.graph.pairs:
        if following is not None:
            yield (kind, following), structure.across[kind, following]


def _slot(
    group: Group,
    kinds: tuple[int, ...],
    structure: Structure,
    outside: frozenset[str],
    splits: frozenset[str],
) -> Slot:
    names = {name for _, name in group.nodes}
    places = frozenset((kinds[offset], name) for offset, name in group.nodes)
    single = len(group.nodes) == 1
    fuses = structure.rule_set == "engine" and not single
    return Slot(
        group,
        kinds,
        not outside.isdisjoint(names),
        not splits.isdisjoint(names),
        places if fuses else frozenset(),
        next(iter(places)) if single and group.flow is None else None,
    )


Twins = dict[Place, int]
"""By node: the first kind of block that has the same one, reading and writing the same."""


def _twins(graph: ModelGraph) -> Twins:
    first: dict[Hashable, int] = {}
    found = {}
    for kind, block in enumerate(graph.kinds):
        for node in block.nodes:
            around = tuple(block.tensors[name] for name in (*node.inputs, *node.outputs))
            same = node, around, block.formats, kind < graph.encoder_kinds
            found[kind, node.id] = first.setdefault(same, kind)
    return found


def _like(group: Group, kinds: tuple[int, ...], twins: Twins) -> tuple[int, ...]:
    """Kinds whose nodes a group may be priced by; none where that is no single one each."""
    found = []
    for offset, kind in enumerate(kinds):
        firsts = {twins[kind, name] for side, name in group.nodes if side == offset}
        found.append(firsts.pop() if len(firsts) == 1 else kind)
    return tuple(found)


def _named(structure: Structure, rules: list[KernelName]) -> frozenset[str]:
    """Nodes of any kind that some rule means."""
    return frozenset(
        node.id
        for block in structure.graph.kinds
        for node in block.nodes
        if any(named(rule, NodeNames(node.id, node.op_name)) for rule in rules)
    )


def _problem(structure: Structure) -> fusion.Problem:
    graph = structure.graph
    slots = count()
    blocks = tuple(
        fusion.Block(
            _name(structure, kind),
            tuple(node.id for node in block.nodes),
            frozenset((u, v) for u, v in block.graph.edges()),
            _candidates(structure.inside[kind], slots),
        )
        for kind, block in enumerate(graph.kinds)
    )
    seams = tuple(
        fusion.Seam(
            _name(structure, kind),
            _name(structure, following),
            _seam_edges(graph.kinds[kind], graph.kinds[following]),
            _candidates(structure.across[kind, following], slots),
        )
        for kind, following in graph.pairs
        if following is not None
    )
    sequence = tuple((_name(structure, run.kind), run.times) for run in graph.sequence)
    return fusion.Problem(sequence, blocks, seams)


def _name(structure: Structure, kind: int) -> str:
    return f"{kind}:{structure.graph.kinds[kind].label}"


def _candidates(groups: tuple[Group, ...], slots: Iterator[int]) -> tuple[fusion.Candidate, ...]:
    return tuple(
        fusion.Candidate(group.name, group.nodes, fusion.UNPRICED, next(slots)) for group in groups
    )


def _seam_edges(block: Block, following: Block) -> frozenset[tuple[str, str]]:
    if following.opens:
        return frozenset()
    producers = {tensor: node.id for node in block.nodes for tensor in node.outputs}
    aliases = dict(zip(following.inputs, block.outputs, strict=True))
    return frozenset(
        (producers[aliases[tensor]], node.id)
        for node in following.nodes
        for tensor in node.inputs
        if tensor in aliases
    )
