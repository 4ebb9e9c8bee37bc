"""Two plans side by side: which part differs first, then what followed from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.display import Displayed
from planner.plan.types import KernelRow, Plan
from planner.spec.types import GpuSpec


@dataclass(frozen=True)
class PartChange:
    """A part of the question that differs."""

    part: str
    before: str
    after: str


@dataclass(frozen=True)
class BoundFlip:
    """Nodes whose kernel is bound by something else in the other plan."""

    nodes: tuple[str, ...]
    block: str
    before: str
    after: str


@dataclass(frozen=True)
class GroupChange:
    """Nodes that are grouped into other kernels."""

    block: str
    before: tuple[tuple[str, ...], ...]
    after: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class PlanDiff(Displayed):
    """What changed from plan ``a`` to plan ``b``."""

    a: str
    b: str
    name_a: str
    name_b: str
    parts: tuple[PartChange, ...]
    """Differing parts; empty means both plans answer the same question."""
    step_a_s: float
    step_b_s: float
    speed_up: float
    """step a / step b: above one where b is faster."""
    roofline_speed_up: float
    """The same without fixed costs: what the devices' rates alone give."""
    modes: tuple[str, str]
    fits: tuple[bool, bool]
    kv_tokens: tuple[int, int]
    """Tokens that the KV caches of all replicas have room for."""
    sequences: tuple[int | None, int | None]
    """Sequences of the step's length that these hold; None without a length."""
    kernels: tuple[int, int]
    """Device launches a step."""
    hbm_bytes: tuple[float, float]
    flips: tuple[BoundFlip, ...]
    groups: tuple[GroupChange, ...]
    result_only: bool
    """True where the question is the same but the answer is not: our own model changed."""


def diff(a: Plan, b: Plan) -> PlanDiff:
    """Compare two plans."""
    changes = tuple(
        PartChange(part, a.described[part], b.described[part])
        for part in a.parts
        if a.parts[part] != b.parts.get(part)
    )
    return PlanDiff(
        a.plan_id,
        b.plan_id,
        a.name,
        b.name,
        changes,
        a.step.time_s,
        b.step.time_s,
        a.step.time_s / b.step.time_s,
        _ratio(a.totals.roofline_s, b.totals.roofline_s),
        (a.step.mode, b.step.mode),
        (a.memory.fits, b.memory.fits),
        (_replicas(a) * a.memory.kv_tokens, _replicas(b) * b.memory.kv_tokens),
        (_sequences(a), _sequences(b)),
        (a.step.modes[a.step.mode].kernels, b.step.modes[b.step.mode].kernels),
        (a.totals.hbm_bytes, b.totals.hbm_bytes),
        _flips(a, b),
        _groups(a, b),
        not changes and a.result_hash != b.result_hash,
    )


def _replicas(plan: Plan) -> int:
    return int(plan.deployment.get("parallel", {}).get("data", 1))


def _sequences(plan: Plan) -> int | None:
    each = plan.memory.max_batch
    return None if each is None else _replicas(plan) * each


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("inf") if a else 1.0


_Key = tuple[str, tuple[str, ...]]


def _by_nodes(plan: Plan) -> dict[_Key, KernelRow]:
    return {(kernel.block, kernel.nodes): kernel for kernel in plan.kernels}


def _flips(a: Plan, b: Plan) -> tuple[BoundFlip, ...]:
    after = _by_nodes(b)
    return tuple(
        BoundFlip(nodes, block, kernel.bound, after[block, nodes].bound)
        for (block, nodes), kernel in _by_nodes(a).items()
        if (block, nodes) in after and after[block, nodes].bound != kernel.bound
    )


def _groups(a: Plan, b: Plan) -> tuple[GroupChange, ...]:
    before, after = _by_nodes(a), _by_nodes(b)
    blocks = dict.fromkeys(block for block, _ in (*before, *after))
    found = []
    for block in blocks:
        gone = tuple(
            nodes for name, nodes in before if name == block and (name, nodes) not in after
        )
        come = tuple(
            nodes for name, nodes in after if name == block and (name, nodes) not in before
        )
        if gone or come:
            found.append(GroupChange(block, gone, come))
    return tuple(found)


@dataclass(frozen=True)
class GpuColumn:
    """One GPU in a side-by-side comparison."""

    gpu: str
    title: str
    plan: Plan
    speed_up: float
    """Against the first GPU, on steps."""
    bandwidth_ratio: float
    """The speed-up it should have if all were bound by memory."""
    peak_ratio: float
    """The speed-up it should have if all were bound by matrix units."""
    flips: tuple[BoundFlip, ...]
    """Against the first GPU."""
    groups: tuple[GroupChange, ...]


def side_by_side(plans: Mapping[str, Plan], gpus: Mapping[str, GpuSpec]) -> tuple[GpuColumn, ...]:
    """One deployment on several GPUs, in the order given, each held against the first."""
    names = list(plans)
    base, base_gpu = plans[names[0]], gpus[names[0]]
    columns = []
    for name in names:
        plan, gpu = plans[name], gpus[name]
        change = diff(base, plan)
        columns.append(
            GpuColumn(
                name,
                gpu.title,
                plan,
                change.speed_up,
                gpu.memory.bandwidth.value / base_gpu.memory.bandwidth.value,
                _peak(gpu, plan) / _peak(base_gpu, base),
                change.flips,
                change.groups,
            )
        )
    return tuple(columns)


def _peak(gpu: GpuSpec, plan: Plan) -> float:
    """Matrix rate of the format that does most of the plan's FLOPs."""
    by_dtype: dict[str, float] = {}
    for node in plan.nodes:
        if not node.composite and node.matmul_flops:
            total = by_dtype.get(node.dtype, 0.0) + node.repeat * node.matmul_flops
            by_dtype[node.dtype] = total
    if not by_dtype:
        return gpu.vector.value
    dtype = max(by_dtype, key=by_dtype.__getitem__)
    figure = {str(name): rate.value for name, rate in gpu.matrix.items()}
    return figure.get(dtype, gpu.vector.value)
