"""Kernels that each compute a node for themselves, priced as one choice of the search."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.capture.layout import Slot
from planner.cost.annotate import BlockCosts
from planner.cost.estimator import Estimate
from planner.cost.estimator import Kernel as Priceable
from planner.cost.types import Device, KernelWork
from planner.fusion.again import Saves
from planner.num import as_float

if TYPE_CHECKING:
    from planner.capture.solve import Priced

UNFIT = Estimate(math.inf, 0.0, "datasheet")
"""Of a group whose tiles fit no chip like this."""

LEAST_S = 0.25e-6
"""Saved bytes at peak bandwidth that are worth a look: no model of kernels is as precise as that,
and the work of pricing them is spared where steps are short."""

_NONE = KernelWork(0, 0, 0, 0, 0, 0, 0, 0)
"""Each of the kernels has its own."""

Asked = tuple[Priceable, Estimate, tuple["Priced", ...]]


def in_turn(
    slot: Slot, costs: tuple[BlockCosts, ...], device: Device, price: Callable[[Slot], Priced]
) -> Asked:
    """Work and time of kernels that run one after the other; infinity where they save too little.

    What they save at most is what they move less than the same groups of nodes that store it.
    """
    group = slot.group
    asked = Priceable(group.border, costs, _NONE)
    if group.saves is None or _saved_bytes(group.saves, costs) < _least_bytes(device):
        return asked, UNFIT, ()
    apart = tuple(map(price, slot.together))
    estimates = [each.estimate for each in apart]
    held = [each.held or (1 if not each.chain else 0) for each in estimates]
    held = [n or part.slot.group.launches for n, part in zip(held, apart, strict=True)]
    estimate = replace(
        estimates[0],
        core_s=sum(each.core_s for each in estimates),
        floor_s=sum(each.floor_s for each in estimates),
        held=sum(held),
        chain=False,
        barriers=sum(each.barriers for each in estimates),
    )
    return asked, estimate, apart


def _saved_bytes(saves: Saves, costs: tuple[BlockCosts, ...]) -> float:
    """Against kernels of the same nodes, the first of which stores what all read."""
    (offset, name), tensors = saves
    return float(as_float(costs[offset].nodes[name].output_bytes[0])) * tensors


def _least_bytes(device: Device) -> float:
    return LEAST_S * device.bandwidth_bytes_per_s
