"""The tables of a plan: nodes as they would run alone, kernels as they run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from planner.capture.solve import Kernel, SolvedRun
from planner.cost.annotate import BlockCosts
from planner.cost.estimator import roofline_s
from planner.cost.kernel import kernel_work, known_border
from planner.cost.types import Device, NodeCost
from planner.graph.types import ModelGraph
from planner.graph.window import NodeKey, window_of
from planner.plan.solve import SolvedStep
from planner.plan.types import KernelRow, KernelRun, NodeRow, Totals


def node_rows(
    graph: ModelGraph, costs: tuple[BlockCosts, ...], device: Device
) -> tuple[NodeRow, ...]:
    """Every node of every kind of block; composites get a summary row before their parts."""
    runs = list(zip(costs, graph.times, strict=True))
    own = [repeat * _seconds(each, device) for b, repeat in runs for each in b.nodes.values()]
    whole, seconds = sum(own), iter(own)
    rows: list[NodeRow] = []
    for block_costs, repeat in runs:
        seen: set[str] = set()
        for cost in block_costs.nodes.values():
            composite = cost.node.composite
            if composite and composite not in seen:
                seen.add(composite)
                rows.append(_composite_row(composite, block_costs, repeat, device, whole))
            share = next(seconds) / whole
            rows.append(_node_row(cost, block_costs.block.label, repeat, share))
    return tuple(rows)


def _seconds(cost: NodeCost, device: Device) -> float:
    """A node's own roofline time."""
    work = cost.work
    seconds = max(
        cost.flops / cost.peak_flops_per_s,
        cost.hbm_bytes / device.bandwidth_bytes_per_s,
        work.link_bytes / device.link_bytes_per_s if device.link_bytes_per_s else 0.0,
    )
    return float(seconds)


def _node_row(cost: NodeCost, block: str, times: int, share: float) -> NodeRow:
    work, node = cost.work, cost.node
    return NodeRow(
        node.id,
        block,
        times,
        node.op_name,
        node.matmul_dtype if node.op.matrix else "fp32",
        float(work.matmul_flops),
        float(work.vector_flops),
        float(cost.hbm_bytes),
        float(work.weight_bytes),
        float(work.link_bytes),
        float(cost.flops_per_byte) if cost.hbm_bytes else 0.0,
        cost.ridge_flops_per_byte,
        cost.bound,
        cost.crossing_tokens,
        share,
    )


def _composite_row(
    name: str, costs: BlockCosts, times: int, device: Device, whole_s: float
) -> NodeRow:
    """A composite run as one kernel: useful FLOPs, and bytes that cross its border."""
    block = costs.block
    nodes = frozenset((0, part.id) for part in block.composites[name])
    parts = [costs.nodes[part.id] for part in block.composites[name]]
    work = kernel_work(known_border(window_of(block), nodes), (costs,), device, None)
    flops = float(sum(part.work.matmul_flops for part in parts))
    matrix = next(part for part in parts if part.node.op.matrix)
    hbm_bytes = float(work.hbm_bytes)
    ridge = matrix.ridge_flops_per_byte
    seconds = max(flops / matrix.peak_flops_per_s, hbm_bytes / device.bandwidth_bytes_per_s)
    return NodeRow(
        name,
        block.label,
        times,
        name,
        matrix.node.matmul_dtype,
        flops,
        float(sum(part.work.vector_flops for part in parts)),
        hbm_bytes,
        0.0,
        0.0,
        flops / hbm_bytes,
        ridge,
        "compute" if flops / hbm_bytes >= ridge else "memory",
        None,
        times * seconds / whole_s,
        composite=True,
    )


def kernel_rows(solved: SolvedStep) -> tuple[KernelRow, ...]:
    """The chosen kernels, equal ones of one kind of block together."""
    padding = solved.decision.choice(solved.decision.mode).padding_tokens
    by_label = {costs.block.label: costs for costs in solved.solver.costs(padding)}
    following = _following(solved)
    total_s = solved.chosen.timeline.busy_s
    merged: dict[tuple[str, str, frozenset[NodeKey]], KernelRow] = {}
    for position, run in enumerate(solved.chosen.runs):
        after = by_label.get(following[position] or "")
        for kernel in run.kernels:
            key = (run.block.label, kernel.group.name, kernel.group.nodes)
            known = merged.get(key)
            if known:
                share = known.share + _share(run, kernel, total_s)
                merged[key] = replace(known, repeat=known.repeat + run.times, share=share)
            else:
                own = by_label[run.block.label]
                merged[key] = _kernel_row(run, kernel, own, after, total_s)
    return tuple(sorted(merged.values(), key=_place(solved)))


def kernel_order(solved: SolvedStep, rows: tuple[KernelRow, ...]) -> tuple[KernelRun, ...]:
    """The order in which the rows run: block after block, within one as its nodes stand."""
    position = {_key(row.block, row.name, row.nodes): at for at, row in enumerate(rows)}
    return tuple(
        KernelRun(
            run.times,
            tuple(
                sorted(
                    position[_key(run.block.label, kernel.group.name, _names(kernel))]
                    for kernel in run.kernels
                )
            ),
        )
        for run in solved.chosen.runs
    )


def _key(block: str, name: str, nodes: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]]:
    return block, name, nodes


def _names(kernel: Kernel) -> tuple[str, ...]:
    return tuple(name for _, name in kernel.group.border.nodes)


def _place(solved: SolvedStep) -> Callable[[KernelRow], tuple[int, int]]:
    """Where a kernel's first node stands in the model: an order in which rows read well.

    Kernels that do not depend on each other may run in another order.
    """
    order = {
        (costs.block.label, node.id): (kind, position)
        for kind, costs in enumerate(solved.costs)
        for position, node in enumerate(costs.block.nodes)
    }
    return lambda row: order[row.block, row.nodes[0]]


def _following(solved: SolvedStep) -> list[str | None]:
    """The label of the block after each run (a run's own, where it repeats before)."""
    runs = solved.chosen.runs
    labels = [run.block.label for run in runs]
    return [
        labels[i] if runs[i].times > 1 else (labels[i + 1] if i + 1 < len(labels) else None)
        for i in range(len(runs))
    ]


def _kernel_row(
    run: SolvedRun, kernel: Kernel, costs: BlockCosts, after: BlockCosts | None, total_s: float
) -> KernelRow:
    work, time, group = kernel.work, kernel.time, kernel.group
    sides = (costs, after)
    names = [key for key in group.border.nodes if sides[key[0]] is not None]
    unfused = sum(
        side.nodes[name].hbm_bytes for offset, name in names if (side := sides[offset]) is not None
    )
    fused = len(group.nodes) > 1
    unfused_bytes = float(unfused) if fused else float(work.hbm_bytes)
    return KernelRow(
        group.name,
        group.engine_name,
        group.rule.name if group.rule else None,
        run.block.label,
        run.times,
        _names(kernel),
        any(offset for offset, _ in group.nodes),
        group.launches,
        float(work.matmul_flops),
        float(work.vector_flops),
        float(work.hbm_bytes),
        unfused_bytes,
        unfused_bytes - float(work.hbm_bytes),
        float(work.link_bytes),
        float(time.time_s),
        time.fixed_s,
        roofline_s(work),
        None if time.log_low is None else float(time.time_s) * math.exp(time.log_low),
        None if time.log_high is None else float(time.time_s) * math.exp(time.log_high),
        time.bound,
        _share(run, kernel, total_s),
        time.evidence,
        kernel.in_graph,
        group.profile_patterns,
    )


def _share(run: SolvedRun, kernel: Kernel, total_s: float) -> float:
    """Of the time that all kernels take."""
    return run.times * float(kernel.time.time_s) / total_s if total_s else 0.0


def totals(kernels: tuple[KernelRow, ...], nodes: tuple[NodeRow, ...]) -> Totals:
    """What the whole step adds up to on one rank."""
    matmul = _sum((k.repeat, k.matmul_flops) for k in kernels)
    hbm = _sum((k.repeat, k.hbm_bytes) for k in kernels)
    return Totals(
        matmul,
        _sum((k.repeat, k.vector_flops) for k in kernels),
        hbm,
        _sum((n.repeat, n.hbm_bytes) for n in nodes if not n.composite),
        matmul / hbm if hbm else 0.0,
        _sum((k.repeat, k.roofline_s) for k in kernels),
    )


def _sum(pairs: Iterator[tuple[int, float]]) -> float:
    return sum(times * value for times, value in pairs)
