"""Nodes that several kernels compute, each for itself, instead of one that stores what all read.

Storing is never more launches: the first of the kernels to run may write what it computes anyway.
So computing again saves bytes alone: the write, and the reads where a kernel reads what the node
reads in any case. A norm between residual and router, experts or quantisation is such a node;
where all its readers are projections they join as siblings and it is computed once.

The cover of a search takes each node once, so such kernels are one choice: the first of them
covers the node, the others read what it reads. All readers are among them, for nobody stores it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.cost.flow import flow_of
from planner.cost.kernel import Border, border, known_border
from planner.cost.roles import ONLINE, role_of
from planner.graph.window import NodeKey, TensorKey, Window

if TYPE_CHECKING:
    from planner.fusion.groups import Group

Saves = tuple[NodeKey, int]
"""A node, and how many tensors of its result are not moved."""

MOST_KERNELS = 3
"""Readers beyond which nothing is looked for."""


def computed_again(
    window: Window, groups: Mapping[frozenset[NodeKey], Group]
) -> dict[frozenset[NodeKey], Group]:
    """Kernels that compute a node for themselves, as groups of all their nodes.

    Of several for the same nodes those with the fewest launches, and of these those that save most.
    """
    found: dict[frozenset[NodeKey], Group] = {}
    fused = [group for group in groups.values() if group.flow and not group.flow.exchange]
    for key in window.keys:
        node = _Node.of(key, window)
        if node is not None:
            for group in node.choices(fused):
                before = found.get(group.nodes)
                if group.nodes not in groups and (before is None or _rank(group) < _rank(before)):
                    found[group.nodes] = group
    return found


def _rank(group: Group) -> tuple[int, int]:
    return group.launches, -group.saves[1] if group.saves else 0


@dataclass(frozen=True)
class _Node:
    """A node that is cheap to compute again, and whose readers do not all join."""

    window: Window
    key: NodeKey
    result: TensorKey
    readers: frozenset[NodeKey]

    @staticmethod
    def of(key: NodeKey, window: Window) -> _Node | None:
        """The node, if it is such a one: of one input and one result that only the window reads and
        no cache keeps.
        """
        role, results = role_of(window.node(key)), window.outputs(key)
        cheap = role == "element" or isinstance(window.node(key).op, ONLINE)
        if not cheap or len(results) != 1 or len(window.inputs(key)) != 1:
            return None
        readers = frozenset(window.readers.get(results[0], ()))
        operators = {window.node(each).op_name for each in readers}
        kept = any(role_of(window.node(each)) == "state" for each in readers)
        if results[0] in window.escaping or kept or len(operators) <= 1:
            return None
        return _Node(window, key, results[0], readers)

    def choices(self, groups: Collection[Group]) -> Iterator[Group]:
        """Groups of kernels that cover all readers, each of which computes the node."""
        near = [group for group in groups if group.nodes & self.readers]
        firsts = [group for group in near if self.key in group.nodes]
        others = [each for group in near if (each := self._beside(group))]
        for first in firsts:
            left = self.readers - first.nodes
            if left:
                for rest in _covers(left, others, MOST_KERNELS - 1):
                    yield from self._joined(first, rest)

    def _beside(self, group: Group) -> Group | None:
        """A kernel with the node in front; it covers no more than before."""
        if self.key in group.nodes or (group.flow and group.flow.attention):
            return None
        nodes = group.nodes | {self.key}
        flow = flow_of(self.window, sorted(nodes, key=self.window.position.__getitem__))
        if flow is None:
            return None
        edge = self._unwritten(border(self.window, nodes))
        return replace(group, border=edge, flow=flow)

    def _unwritten(self, edge: Border) -> Border:
        return replace(edge, writes=tuple(each for each in edge.writes if each[0] != self.key))

    def _joined(self, first: Group, rest: tuple[Group, ...]) -> Iterator[Group]:
        nodes = first.nodes.union(*(each.nodes for each in rest))
        here = any(offset == 0 for offset, _ in nodes)
        apart = sum(len(each.nodes) for each in (first, *rest)) == len(nodes)
        tensors = 1 + sum(self._reads_anyway(each) for each in rest)
        if not (here and apart and self.window.is_convex(nodes)):
            return
        own = replace(first, border=self._unwritten(first.border), unwritten=True)
        yield replace(
            first,
            nodes=nodes,
            border=known_border(self.window, nodes),
            launches=first.launches + sum(each.launches for each in rest),
            flow=None,
            together=(own, *rest),
            saves=(self.key, tensors),
        )

    def _reads_anyway(self, group: Group) -> bool:
        """Whether a kernel reads what the node reads for others of its nodes too."""
        [wanted] = self.window.inputs(self.key)
        return any(wanted in self.window.inputs(key) for key in group.nodes)


def _covers(
    left: frozenset[NodeKey], groups: list[Group], most: int
) -> Iterator[tuple[Group, ...]]:
    """Up to so many groups that cover all that is left, each of them once."""
    [first, *_] = sorted(left)
    for group in groups:
        if first in group.nodes:
            rest = left - group.nodes
            if not rest:
                yield (group,)
            elif most > 1:
                yield from ((group, *more) for more in _covers(rest, groups, most - 1))
