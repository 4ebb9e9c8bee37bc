"""Where a fusion rule fits a graph: structure alone, neither flags nor sizes."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Protocol
from weakref import WeakKeyDictionary

from planner.cost.flow import Flow
from planner.fusion.loops import loops_of
from planner.fusion.nests import around, groups
from planner.graph.types import Node
from planner.graph.window import NodeKey, Window
from planner.records import dataclass
from planner.spec.types import FusionRule, KernelName, SlotSpec


@dataclass(frozen=True)
class Match:
    """One place where a rule fits."""

    rule: FusionRule
    nodes: frozenset[NodeKey]
    slots: tuple[tuple[str, NodeKey], ...] = ()
    flow: Flow | None = None
    """How one kernel would run it, of a group of the ideal rule set."""

    @property
    def straddles(self) -> bool:
        """Whether it reaches into the next block."""
        return len({offset for offset, _ in self.nodes}) > 1


def matches(rule: FusionRule, window: Window) -> list[Match]:
    """Every place in a window where the rule fits and touches this block, each node set once."""
    found: dict[frozenset[NodeKey], Match] = {}
    places = _by_classes(rule, window) if rule.classes else _by_pattern(rule, window)
    for match in places:
        touches = any(offset == 0 for offset, _ in match.nodes)
        new = len(match.nodes) > 1 and match.nodes not in found
        if touches and new and window.is_convex(match.nodes):
            found[match.nodes] = match
    return list(found.values())


_found: WeakKeyDictionary[Window, dict[int, tuple[FusionRule, list[Match]]]] = WeakKeyDictionary()


def known_matches(rule: FusionRule, window: Window) -> list[Match]:
    """As `matches`, found once for each rule and window: neither flags nor GPUs change it."""
    kept = _found.setdefault(window, {})
    # The rule is kept beside what it found, so that its id is no other's.
    if id(rule) not in kept:
        kept[id(rule)] = (rule, matches(rule, window))
    return kept[id(rule)][1]


class Named(Protocol):
    """What naming rules look at."""

    @property
    def id(self) -> str:
        """A node's own name."""
        ...

    @property
    def op_name(self) -> str:
        """That of its operator."""
        ...


def qualifies(op: str | tuple[str, ...], ids: str | tuple[str, ...] | None, node: Named) -> bool:
    """Whether a node is one of those that a slot or a kernel name means."""
    ops = (op,) if isinstance(op, str) else op
    if node.op_name not in ops:
        return False
    if ids is None:
        return True
    wanted = (ids,) if isinstance(ids, str) else ids
    return any(fnmatchcase(node.id, pattern) for pattern in wanted)


def named(kernel: KernelName, node: Named) -> bool:
    """Whether a kernel name is meant for a node."""
    return qualifies(kernel.op, kernel.id, node)


def _by_pattern(rule: FusionRule, window: Window) -> Iterator[Match]:
    calls = loops_of(window, rule.loops).calls.items() if rule.loops else None

    def grow(position: int, filled: dict[str, NodeKey]) -> Iterator[Match]:
        if position == len(rule.pattern):
            nodes = frozenset(filled.values())
            if calls is None or any(nodes >= set(call) for call in calls):
                yield Match(rule, nodes, tuple(filled.items()))
            return
        slot = rule.pattern[position]
        for key in _choices(slot, filled, window):
            if key not in filled.values() and qualifies(slot.op, slot.id, window.node(key)):
                yield from grow(position + 1, {**filled, slot.slot: key})
        if slot.optional:
            yield from grow(position + 1, filled)

    yield from grow(0, {})


def _choices(
    slot: SlotSpec, filled: dict[str, NodeKey], window: Window
) -> tuple[NodeKey, ...] | list[NodeKey]:
    """Nodes tied to the earlier slot that this one names; all nodes for a first slot."""
    anchor = slot.reads or slot.feeds or slot.beside
    if anchor is None:
        return window.keys
    if anchor not in filled:
        return ()
    key = filled[anchor]
    if slot.reads:
        return [r for tensor in window.outputs(key) for r in window.readers.get(tensor, ())]
    if slot.feeds:
        return [window.producer[t] for t in window.inputs(key) if t in window.producer]
    return [r for tensor in window.inputs(key) for r in window.readers.get(tensor, ())]


def _by_classes(rule: FusionRule, window: Window) -> Iterator[Match]:
    """Connected groups of operators of the rule's classes, up to its size, each once."""
    allowed = {key for key in window.keys if _of_class(rule, window.node(key))}
    if rule.loops is not None:
        yield from (Match(rule, group) for group in groups(rule, rule.loops, window, allowed))
        return
    seen: set[frozenset[NodeKey]] = set()
    frontier = [frozenset({key}) for key in window.keys if key in allowed and key[0] == 0]
    while frontier:
        group = frontier.pop()
        if group in seen:
            continue
        seen.add(group)
        if len(group) > 1:
            yield Match(rule, group)
        if len(group) < rule.max_nodes:
            frontier += [group | {key} for key in around(window, group) & allowed - group]


def _of_class(rule: FusionRule, node: Node) -> bool:
    excluded = any(fnmatchcase(node.op_name, pattern) for pattern in rule.excludes)
    return str(node.op.op_class) in rule.classes and not excluded
