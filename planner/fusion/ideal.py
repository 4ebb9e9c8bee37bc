"""Groups that a perfect compiler could build, whatever the engine has.

Any convex group that one kernel can run by what its operators need of each other
(`planner.cost.flow`): connected, or of siblings that share an input or a reader. Whether its tiles
fit a GPU is asked where the GPU is known (`planner.cost.fitting`). Attention is a group as a whole.

Products that read one tensor join all or alone: a merge of all is never worse than one of some.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, reduce
from operator import or_
from weakref import WeakKeyDictionary

from planner.cost.flow import Flow, flow_of
from planner.cost.roles import role_of
from planner.fusion.attended import attended_matches
from planner.fusion.match import Match
from planner.graph.window import NodeKey, Window
from planner.spec.types import FusionRule

MAX_NODES = 8
"""As many as norm, both projections, activation, product and second projection with what is added
to it take. Larger groups are bound by the same bytes."""

MOST_PER_NODE = 16
"""Groups of a window, for each of its nodes, beyond which no larger ones are looked for: in graphs
of many elementwise nodes their number grows fast with their size."""

_RULE = FusionRule(
    name="ideal",
    engine_name="a kernel nobody wrote yet",
    classes=("pointwise", "row_reduction", "contraction"),
    source="planner.fusion.ideal: legality by operator semantics",
)
_ATTENTION = FusionRule(
    name="ideal-attention",
    engine_name="online-softmax attention",
    classes=("contraction",),
    query_tile=128,
    source="Milakov and Gimelshein 2018 (online softmax); Dao et al. 2022",
)


_found: WeakKeyDictionary[Window, list[Match]] = WeakKeyDictionary()


def known_ideal(window: Window) -> list[Match]:
    """As `ideal_matches`, found once for each window."""
    if window not in _found:
        _found[window] = list(ideal_matches(window))
    return _found[window]


def ideal_matches(window: Window) -> Iterator[Match]:
    """Every group of the ideal rule set that touches this block and is convex."""
    yield from _attention(window)
    yield from attended_matches(window)
    grower = _Grower(window)
    waiting: list[set[int]] = [set() for _ in range(MAX_NODES + 1)]
    waiting[1].update(grower.starts)
    found = 0
    for groups in waiting:
        if found > MOST_PER_NODE * len(window.keys):
            return
        for group in sorted(groups):
            flow = grower.flow(group)
            if flow is None:
                continue
            keys = grower.keys_of(group)
            if len(keys) > 1 or flow.experts:
                found += 1
                yield Match(_RULE, frozenset(keys), flow=flow)
            for grown in grower.grown(group):
                waiting[grown.bit_count()].add(grown)


def _attention(window: Window) -> Iterator[Match]:
    for parts in window.block.composites.values():
        nodes = frozenset((0, part.id) for part in parts)
        if window.is_convex(nodes):
            yield Match(_ATTENTION, nodes)


class _Grower:
    """Groups of a window as bit masks, grown a neighbour at a time.

    A group is closed: convex, and with all siblings of a product that joined another. A closed
    group that one kernel can run is grown from closed groups that one kernel can run, since taking
    nodes away makes nothing impossible.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self.keys = window.keys
        self.roles = {key: role_of(window.node(key)) for key in self.keys}

    @property
    def starts(self) -> Iterator[int]:
        """Single nodes of this block."""
        return (1 << n for n, key in enumerate(self.keys) if key[0] == 0 and self.roles[key])

    def flow(self, group: int) -> Flow | None:
        """How one kernel runs a group; None where it cannot."""
        return flow_of(self.window, self.keys_of(group))

    def keys_of(self, group: int) -> tuple[NodeKey, ...]:
        """The nodes of a group in order."""
        return tuple(self.keys[n] for n in _bits(group))

    def grown(self, group: int) -> Iterator[int]:
        """Groups with one neighbour more, and what that brings along."""
        near = reduce(or_, (self._near[n] for n in _bits(group))) & ~group
        for n in _bits(near & self._usable):
            closed = self._closed(group | 1 << n)
            if closed is not None:
                yield closed

    def _closed(self, group: int) -> int | None:
        """The smallest closed group around some nodes; None where none is small enough."""
        while True:
            between = self._between(group)
            closed = group | between | self._siblings_in(group) | self._taken_up(group)
            if closed & ~self._usable or closed.bit_count() > MAX_NODES:
                return None
            if closed == group:
                return group
            group = closed

    def _between(self, group: int) -> int:
        """Nodes on paths that leave a group and come back."""
        above = below = 0
        for n in _bits(group):
            above |= self._ancestors[n]
            below |= self._descendants[n]
        return above & below & ~group

    def _siblings_in(self, group: int) -> int:
        """Siblings of products that others joined, or that read or are read by what is computed."""
        products = list(_bits(group & self._products))
        chain = any(self._ancestors[n] & group & self._products for n in products)
        found = 0
        for n in products:
            siblings = self._siblings[n]
            if siblings & group & ~(1 << n) or (siblings and (chain or self._before[n] & group)):
                found |= siblings
        return found

    def _taken_up(self, group: int) -> int:
        """Elementwise nodes that alone read what they read, all of it computed here."""
        readers = reduce(or_, (self._readers[n] for n in _bits(group)))
        near = readers & self._alone & ~group
        return _mask(n for n in _bits(near) if self._before[n] & ~group == 0)

    @cached_property
    def _alone(self) -> int:
        """Such nodes, wherever what they read is computed."""
        return _mask(n for n, key in enumerate(self.keys) if self._reads_alone(key))

    def _reads_alone(self, key: NodeKey) -> bool:
        window, tensors = self.window, self.window.inputs(key)
        own = all(window.readers[t] == (key,) and t in window.producer for t in tensors)
        return own and self.roles[key] in {"element", "state"} and not self._escapes(tensors)

    def _escapes(self, tensors: tuple[tuple[int, str], ...]) -> bool:
        return any(tensor in self.window.escaping for tensor in tensors)

    @cached_property
    def _usable(self) -> int:
        return _mask(n for n, key in enumerate(self.keys) if self.roles[key])

    @cached_property
    def _products(self) -> int:
        return _mask(n for n, key in enumerate(self.keys) if self.roles[key] == "product")

    @cached_property
    def _ancestors(self) -> list[int]:
        return [self._mask_of(self.window.ancestors[key]) for key in self.keys]

    @cached_property
    def _descendants(self) -> list[int]:
        found = [0] * len(self.keys)
        for n, above in enumerate(self._ancestors):
            for m in _bits(above):
                found[m] |= 1 << n
        return found

    @cached_property
    def _before(self) -> list[int]:
        return [self._mask_of(self.window.predecessors[key]) for key in self.keys]

    @cached_property
    def _readers(self) -> list[int]:
        return [self._reading(self.window.outputs(key)) for key in self.keys]

    @cached_property
    def _siblings(self) -> list[int]:
        """For each product the products of its operator that read the same rows, itself among
        them; none where it is the only one.
        """
        found = []
        for n, key in enumerate(self.keys):
            same = 0
            if self.roles[key] == "product":
                same = self._reading(self.window.inputs(key)[:1]) & self._alike[n]
            found.append(same if same.bit_count() > 1 else 0)
        return found

    @cached_property
    def _alike(self) -> list[int]:
        """For each node those of its operator."""
        by_name: dict[str, int] = {}
        names = [self.window.node(key).op_name for key in self.keys]
        for n, name in enumerate(names):
            by_name[name] = by_name.get(name, 0) | 1 << n
        return [by_name[name] for name in names]

    @cached_property
    def _near(self) -> list[int]:
        """Nodes that may join each: by an edge or a common input, alike ones by a common reader."""
        found = []
        products = self._products
        for n, key in enumerate(self.keys):
            near = self._before[n] | self._readers[n]
            beside = self._reading(self.window.inputs(key))
            if products >> n & 1:
                near |= beside & products
            elif self.roles[key] in {"element", "state", "row"}:
                joined = reduce(or_, (self._before[m] for m in _bits(self._readers[n])), 0)
                near |= (beside | joined) & self._alike[n]
            found.append(near)
        return found

    def _reading(self, tensors: tuple[tuple[int, str], ...]) -> int:
        readers = self.window.readers
        return reduce(or_, (self._mask_of(readers.get(t, ())) for t in tensors), 0)

    def _mask_of(self, keys: Iterator[NodeKey] | tuple[NodeKey, ...] | frozenset[NodeKey]) -> int:
        return _mask(self.window.position[key] for key in keys)


def _mask(places: Iterator[int]) -> int:
    return reduce(or_, (1 << n for n in places), 0)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
