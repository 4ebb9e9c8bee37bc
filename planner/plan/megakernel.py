"""The step as one persistent kernel, or one a block: what no grouping of kernels can beat.

Weights, caches and state are read once, and every resource works all the time at the datasheet's
rate: the longest of them is the limit. Tensors between operators may stay in registers or the L2
and are left out. Each kernel starts, launched alone or as a node of one graph: the quicker counts.

A collective makes its readers wait for a hop. Collectives that wait for each other take their hops
one after the other, however few bytes they send: the longest such chain is a part beside the
resources. Nothing is added to them, since a kernel may load what does not depend on the message
meanwhile: what an H100 loads in a hop of 0.47 us is 1.6 MB, and its multiprocessors hold 65 MB.
Dependencies through one GPU's memory are left out for the same reason.

A pipeline has a kernel for each stage. A micro-batch leaves a stage when it is done there and is at
the next one a hop later; stages wait for the slowest as those of the plan do (`pipeline.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from planner.capture.timeline import Issue, timeline
from planner.cost.annotate import BlockCosts
from planner.cost.messages import Message, hop_s, message
from planner.graph.types import Block
from planner.num import Number, as_float
from planner.ops.collective import Send
from planner.plan.pipeline import waiting_s
from planner.plan.prepare import Prepared, network_of
from planner.plan.solve import SolvedStep
from planner.plan.types import RuleSetTime

PARTS = ("matrix", "vector", "memory", "link", "network", "latency")
"""What a limit is the longest of."""
_LATENCY = PARTS.index("latency")


@dataclass(frozen=True)
class Needs:
    """Seconds that a kernel needs each of ``PARTS``, all at the same time."""

    parts_s: tuple[float, ...]
    messages: int = 0
    """That wait for each other."""
    sent_s: float = 0.0
    """After all of it: the hop to the next stage."""

    @property
    def time_s(self) -> float:
        """The longest of its parts, and what comes after."""
        return max(self.parts_s) + self.sent_s

    @property
    def bound(self) -> str:
        """Its longest part."""
        return PARTS[self.parts_s.index(max(self.parts_s))]

    @property
    def exposed_s(self) -> float:
        """What latency adds."""
        return max(self.parts_s) - max(self.parts_s[:_LATENCY]) + self.sent_s


Stage = list[tuple[Needs, int]]
"""Kernels that run in order, each so often."""


def megakernels(solved: SolvedStep) -> dict[str, RuleSetTime]:
    """The step with a kernel a block, and with one for all, or for all of a stage."""
    apart = list(_stages(solved))
    return {
        "blocks": _run(solved, apart),
        "megakernel": _run(solved, [[(_together(stage), 1)] for stage in apart]),
    }


def _stages(solved: SolvedStep) -> Iterator[Stage]:
    """Needs of the blocks of each stage; what it sends is its last kernel."""
    prepared, graph = solved.solver.prepared, solved.graph
    each = [needs(costs, prepared) for costs in solved.solver.costs(0)]
    stage: Stage = []
    for run in graph.sequence:
        if each[run.kind].time_s:
            stage.append((each[run.kind], run.times))
        if _is_border(graph.kinds[run.kind]):
            yield stage
            stage = []
    yield stage


def _is_border(block: Block) -> bool:
    return all(isinstance(node.op, Send) for node in block.nodes)


def needs(block: BlockCosts, prepared: Prepared) -> Needs:
    """What a kind of block needs at peak rates. The bare roofline counts no latency and no network,
    and so neither does its limit.
    """
    device, question = prepared.device, prepared.question
    modelled = question.cost_model == "calibrated"
    network = network_of(question.deployment) if modelled else None
    within_s = hop_s(question.gpu) if modelled else 0.0
    found = {name: message(cost, within_s, network) for name, cost in block.nodes.items()}
    messages = {name: each for name, each in found.items() if each}
    inside = sum(each.link_bytes for each in messages.values())
    beyond = sum(each.network_bytes for each in messages.values())
    rates = device.link_bytes_per_s, network.bandwidth_bytes_per_s if network else None
    links_s = [
        sent / rate if rate else 0.0 for sent, rate in zip((inside, beyond), rates, strict=True)
    ]
    latency_s, count = chain(block.block, messages)
    if _is_border(block.block):
        return Needs((*_alone(block, prepared), *links_s, 0.0), count, latency_s)
    return Needs((*_alone(block, prepared), *links_s, latency_s), count)


def _alone(block: BlockCosts, prepared: Prepared) -> tuple[float, float, float]:
    """Seconds of matrix units, vector units and memory."""
    device = prepared.device
    matrix: Number = 0.0
    vector: Number = 0.0
    moved: Number = 0.0
    for cost in block.nodes.values():
        work = cost.work
        if cost.node.op.matrix:
            matrix = matrix + work.matmul_flops / cost.peak_flops_per_s
        vector = vector + work.vector_flops
        moved = moved + work.private_bytes - work.scratch_bytes
    memory_s, vector_s = moved / device.bandwidth_bytes_per_s, vector / device.vector_flops_per_s
    return float(as_float(matrix)), float(as_float(vector_s)), float(as_float(memory_s))


def chain(block: Block, messages: Mapping[str, Message]) -> tuple[float, int]:
    """Hops on the longest way through a block, in seconds, and how many they are."""
    none = (0.0, 0)
    reached: dict[str, tuple[float, int]] = {}
    for node in block.nodes:
        waited_s, count = max((reached.get(name, none) for name in node.inputs), default=none)
        if node.id in messages:
            waited_s, count = waited_s + messages[node.id].hop_s, count + 1
        reached |= dict.fromkeys(node.outputs, (waited_s, count))
    return max((reached.get(name, none) for name in block.outputs), default=none)


def _together(stage: Stage) -> Needs:
    """All of a stage as one kernel."""
    columns = zip(*(kernel.parts_s for kernel, _ in stage), strict=True)
    times = [count for _, count in stage]
    parts = tuple(
        sum(count * part for count, part in zip(times, column, strict=True)) for column in columns
    )
    messages = sum(count * kernel.messages for kernel, count in stage)
    return Needs(parts or (0.0,) * len(PARTS), messages, sum(k.sent_s for k, _ in stage))


def _run(solved: SolvedStep, stages: list[Stage]) -> RuleSetTime:
    """Kernels of stages that wait as the step's own do."""
    kernels = [kernel for stage in stages for kernel in stage]
    whole = _together(kernels)
    parts_s = (*whole.parts_s[:_LATENCY], whole.parts_s[_LATENCY] + whole.sent_s)
    return RuleSetTime(
        min(_time_s(solved, stages, replayed=replayed) for replayed in (False, True)),
        sum(count for _, count in kernels),
        {},
        {name: part for name, part in zip(PARTS, parts_s, strict=True) if part},
        _bound(kernels),
        whole.messages,
        sum(count * each.exposed_s for each, count in kernels),
    )


def _time_s(solved: SolvedStep, stages: list[Stage], *, replayed: bool) -> float:
    """Wall time with all kernels in one graph, or launched one by one."""
    fixed, micro = solved.fixed, solved.solver.micro
    start_s, launch_s, kernel_s = 0.0, fixed.launch_s, fixed.kernel_s
    if replayed:
        start_s, launch_s, kernel_s = fixed.replay_s, 0.0, fixed.graph_node_s
    issues = (
        ((Issue(launch_s, each.time_s + kernel_s, each.time_s),), count)
        for stage in stages
        for each, count in stage
    )
    line = timeline(issues, start_s, fixed.beyond_s(micro.part.sequences))
    each_s = tuple(sum(n * (each.time_s + kernel_s) for each, n in stage) for stage in stages)
    return float(line.time_s + waiting_s(each_s, micro))


def _bound(kernels: Stage) -> str:
    """The part that most of the kernels' time is bound by."""
    times = dict.fromkeys(PARTS, 0.0)
    for each, count in kernels:
        times[each.bound] += count * max(each.parts_s)
        times["latency"] += count * each.sent_s
    return max(times, key=lambda name: times[name])
