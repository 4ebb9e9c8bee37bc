"""A step through the stages of a pipeline: micro-batches, and who waits for whom.

A token passes every stage in turn, so the kernels of a plan are those of all stages, at the size of
one micro-batch. Engines keep as many micro-batches in flight as there are stages, which share the
sequences evenly. In steady decode a sequence's next token comes after m micro-batches have passed
the slowest stage, or after its own way through all of them, whichever takes longer:
max(Σ t, m · max t). A prefill of m micro-batches ends when the last one is through: Σ t + (m − 1) ·
max t. Left out: the host of each stage, which runs ahead on its own, and uneven arrivals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.capture.solve import Solution
from planner.num import Number, any_nonzero, as_float, ceil_div, maximum
from planner.ops.collective import Send
from planner.ops.types import Load
from planner.plan.load import StepLoad

CUT = frozenset({"decode", "prefill"})
"""Kinds of steps that a pipeline cuts."""


@dataclass(frozen=True)
class MicroBatches:
    """How a step goes through a pipeline: ``count`` times ``part``."""

    count: int
    part: StepLoad
    steady: bool
    """Whether parts follow each other step after step (decode); else the last one ends the step."""


def micro_batches(step: StepLoad, stages: int) -> MicroBatches:
    """A step cut for a pipeline: one part a stage, as far as its sequences go.

    Mixed steps and graphs that are no LLM stay whole.
    """
    sequences = step.sequences or 1
    count = min(stages, sequences) if step.kind in CUT else 1
    if count == 1:
        return MicroBatches(1, step, step.kind == "decode")
    return MicroBatches(count, replace(step, load=_part(step.load, count)), step.kind == "decode")


def _part(load: Load, count: int) -> Load:
    """The fullest of ``count`` equal parts of a load, with what its prompts bring to a tower."""
    groups = tuple(replace(group, count=ceil_div(group.count, count)) for group in load.groups)
    tower = _part(load.encoder, count) if load.encoder else None
    return replace(load, groups=groups, encoder=tower)


def waiting_s(stages_s: tuple[Number, ...], micro: MicroBatches) -> Number:
    """What a step takes beyond one micro-batch's way through all stages, in seconds.

    ``stages_s`` is what each stage takes for one micro-batch.
    """
    longest = maximum(*stages_s)
    if micro.steady:
        return maximum(0.0, micro.count * longest - sum(stages_s))
    return (micro.count - 1) * longest


def piped(solution: Solution, micro: MicroBatches) -> Solution:
    """The solution with what its slowest stage makes the others wait."""
    line = solution.timeline
    stages_s = tuple(_stages(solution))
    scale = line.path_s / sum(stages_s) if any_nonzero(sum(stages_s)) else 1.0
    wait_s = scale * waiting_s(stages_s, micro)
    return replace(solution, timeline=replace(line, waiting_s=wait_s))


def _stages(solution: Solution) -> Iterator[Number]:
    """Device time of each stage; a send counts for the stage that sends."""
    time_s: Number = 0.0
    for run in solution.runs:
        time_s = time_s + run.times * sum(as_float(kernel.time.time_s) for kernel in run.kernels)
        if all(isinstance(node.op, Send) for node in run.block.nodes):
            yield time_s
            time_s = 0.0
    yield time_s
