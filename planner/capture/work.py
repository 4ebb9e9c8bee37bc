"""Work and time of a group of nodes, as one kernel under one load."""

from __future__ import annotations

from dataclasses import replace

from planner.capture.apart import UNFIT
from planner.capture.layout import Slot
from planner.cost.annotate import BlockCosts
from planner.cost.around import fitting_tile
from planner.cost.estimator import Estimate, Estimator, roofline_s
from planner.cost.estimator import Kernel as Priceable
from planner.cost.kernel import kernel_work
from planner.cost.tile import Tile
from planner.cost.types import Device
from planner.fusion.groups import Group
from planner.ops.types import Tiling


def worked(
    slot: Slot, costs: tuple[BlockCosts, ...], device: Device, estimator: Estimator
) -> tuple[Priceable, Estimate]:
    """Work and time of a group; ``costs`` are those of the kinds it lies in."""
    group = slot.group
    decodes = group.rule.decode_kernel if group.rule else None
    work = kernel_work(group.border, costs, device, tiling_of(group, device))
    if group.flow is None:
        asked = Priceable(group.border, costs, work, group.kernel, decodes)
        return asked, estimator.estimate(asked)
    tile = fitting_tile(group.flow, costs, device)
    if tile is None:
        return Priceable(group.border, costs, work), UNFIT
    names, how = (group.kernel, decodes), (tile, group.flow.overlaps)
    asked = Priceable(group.border, costs, work, *names, *how)
    more = tile.added(work, device)
    estimate = tiled(estimator.estimate(asked), tile, group, roofline_s(more), device)
    return asked if more is work else Priceable(group.border, costs, more, *names, *how), estimate


def tiled(estimate: Estimate, tile: Tile, group: Group, least_s: float, device: Device) -> Estimate:
    """An estimate with what a tile leaves idle, moves besides and waits for.

    What it moves besides is priced at the datasheet's bandwidth; ``least_s`` is the roofline of all
    it does.
    """
    core_s = estimate.slowed_s(tile.share) + tile.extra_bytes / device.bandwidth_bytes_per_s
    core_s = max(core_s, least_s, tile.fill_s)
    held = group.parts if estimate.chain else 0
    if core_s == estimate.core_s and not (tile.barriers or held):
        return estimate
    return replace(estimate, core_s=core_s, held=held, barriers=tile.barriers)


def tiling_of(group: Group, device: Device) -> Tiling | None:
    """How a group walks its scores; None of one that has no tiles."""
    tile = group.rule.query_tile if group.rule else None
    return Tiling(tile, device.l2_bytes) if tile else None
