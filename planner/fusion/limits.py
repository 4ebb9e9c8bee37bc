"""Sizes above which a group is too large for the kernel that its rule names."""

from __future__ import annotations

from collections.abc import Iterator

from planner.cost.annotate import BlockCosts
from planner.cost.engine import Engine
from planner.fusion.groups import Group
from planner.graph.window import NodeKey
from planner.spec.conditions import holds
from planner.spec.types import Limit
from planner.units import show_bytes


def limits(group: Group, engine: Engine) -> Iterator[tuple[Limit, NodeKey]]:
    """The limits that hold for a group here, and the node whose output each is of."""
    slots = dict(group.slots)
    for limit in group.rule.limits if group.rule else ():
        key = slots.get(limit.slot)
        if key is not None and holds(limit.when, engine.facts):
            yield limit, key


def limit_refusal(group: Group, costs: tuple[BlockCosts, ...], engine: Engine) -> str | None:
    """Why a group is too large for its kernel under this load; None where it is not."""
    for limit, key in limits(group, engine):
        size = sum(costs[key[0]].nodes[key[1]].output_bytes)
        if size > limit.max_bytes:
            return (
                f"{group.name}: the output of {key[1]} is {show_bytes(size)}, "
                f"above its limit of {show_bytes(limit.max_bytes)}"
            )
    return None
