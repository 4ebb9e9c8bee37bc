"""The step as one persistent kernel, or one a block: what no grouping of kernels can beat.

Weights, caches and state are read once, and every resource works all the time at the datasheet's
rate: the longest of them is the limit. Tensors between operators may stay in registers or the L2
and are left out, as are the latency of collectives and the waits between operators. What starts
once a step in a graph is the kernel; a kernel a block starts once a block.
"""

from __future__ import annotations

from planner.capture.timeline import Issue, timeline
from planner.cost.annotate import BlockCosts
from planner.cost.types import Device
from planner.num import Number, as_float
from planner.plan.solve import SolvedStep
from planner.plan.types import RuleSetTime


def megakernels(solved: SolvedStep) -> dict[str, RuleSetTime]:
    """The step with a kernel a block, and with one for all; of no pipeline, whose stages wait."""
    if solved.solver.prepared.question.deployment.parallel.pipeline > 1:
        return {}
    costs, times = solved.solver.costs(0), solved.graph.times
    each = [resources(block, solved.solver.prepared.device) for block in costs]
    whole = tuple(
        sum(count * part for count, part in zip(times, parts, strict=True))
        for parts in zip(*each, strict=True)
    )
    blocks = tuple(
        (max(parts), count) for parts, count in zip(each, times, strict=True) if max(parts)
    )
    return {"blocks": _run(solved, blocks), "megakernel": _run(solved, ((max(whole), 1),))}


def resources(block: BlockCosts, device: Device) -> tuple[float, ...]:
    """Seconds that a block needs of matrix units, vector units, memory and link at peak rates."""
    matrix: Number = 0.0
    vector: Number = 0.0
    moved: Number = 0.0
    sent: Number = 0.0
    for cost in block.nodes.values():
        work = cost.work
        if cost.node.op.matrix:
            matrix = matrix + work.matmul_flops / cost.peak_flops_per_s
        vector = vector + work.vector_flops
        moved = moved + work.private_bytes - work.scratch_bytes
        sent = sent + work.link_bytes
    link_s = sent / device.link_bytes_per_s if device.link_bytes_per_s else 0.0
    memory_s, vector_s = moved / device.bandwidth_bytes_per_s, vector / device.vector_flops_per_s
    return tuple(float(as_float(each)) for each in (matrix, vector_s, memory_s, link_s))


def _run(solved: SolvedStep, kernels: tuple[tuple[float, int], ...]) -> RuleSetTime:
    """Kernels of so many seconds each, launched as the step's own are."""
    fixed, captured = solved.fixed, solved.decision.mode != "none"
    start_s, launch_s, kernel_s = 0.0, fixed.launch_s, fixed.kernel_s
    if captured:
        start_s, launch_s, kernel_s = fixed.replay_s, 0.0, fixed.graph_node_s
    issues = (
        ((Issue(launch_s, work_s + kernel_s, work_s, int(not captured)),), count)
        for work_s, count in kernels
    )
    beyond_s = fixed.beyond_s(solved.solver.micro.part.sequences)
    time_s = timeline(issues, start_s, beyond_s).time_s
    return RuleSetTime(float(time_s), sum(count for _, count in kernels), {})
