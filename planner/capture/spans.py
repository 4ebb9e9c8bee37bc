"""When each launch and each kernel of a step begins and ends: the timeline as a list of spans.

The host issues calls in turn. A kernel starts once its launch is issued, the kernel before it on
its own stream has ended, and so have the kernels that it waits for on other streams:

    h_i = h_{i-1} + delay_i + launch_i
    s_i = max(h_i, e of the one before on its stream, e_j of every j it waits for)
    e_i = s_i + device_i

A call that blocks holds the host until its kernel has ended. With one stream and no delays this is
`planner.capture.timeline`, one kernel at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from planner.capture.solve import Kernel, Solution
from planner.capture.types import FixedCosts
from planner.num import any_nonzero, as_float

HOST, COMPUTE, NETWORK = "host", "compute", "network"


@dataclass(frozen=True)
class Call:
    """One call of the host, and what it puts on a stream."""

    name: str
    launch_s: float
    """Host time to issue it."""
    device_s: float = 0.0
    """Device time; zero for a call that puts nothing there."""
    stream: str = COMPUTE
    waits: tuple[int, ...] = ()
    """Earlier calls, by their number, whose kernels must have ended."""
    delay_s: float = 0.0
    """Host time before it in which nothing is issued."""
    blocks: bool = False
    """Whether the host waits for its kernel before it goes on."""


@dataclass(frozen=True)
class Span:
    """A launch or a kernel in time, from the start of the step."""

    stream: str
    """``host``, or the stream that the kernel runs on."""
    name: str
    start_s: float
    end_s: float


def spans(calls: Iterable[Call]) -> Iterator[Span]:
    """The spans of calls in the order they are issued: of each its launch, then its kernel."""
    host_s = 0.0
    free: dict[str, float] = {}
    ended: list[float] = []
    for call in calls:
        begun_s = host_s + call.delay_s
        host_s = begun_s + call.launch_s
        if call.launch_s:
            yield Span(HOST, call.name, begun_s, host_s)
        start_s = max(host_s, free.get(call.stream, 0.0), *(ended[each] for each in call.waits))
        end_s = start_s + call.device_s
        if call.device_s:
            yield Span(call.stream, call.name, start_s, end_s)
            free[call.stream] = end_s
        ended.append(end_s)
        host_s = max(host_s, end_s) if call.blocks else host_s


def step_calls(solution: Solution, fixed: FixedCosts) -> Iterator[Call]:
    """The calls of a step, every block of the model in turn.

    Collectives have a stream of their own, with waits both ways, as NCCL's have: nothing overlaps.
    A graph is replayed first, with what a step takes before any launch; what follows the kernel
    that splits a graph is replayed with that kernel's launch.
    """
    replay_s = 0.0 if solution.mode == "none" else fixed.replay_s
    yield Call("replay", replay_s, delay_s=as_float(solution.timeline.beyond_s))
    number, last = 1, 0
    for run in solution.runs:
        for _ in range(run.times):
            for kernel in run.kernels:
                yield _call(kernel, last)
                number, last = number + 1, number


def _call(kernel: Kernel, last: int) -> Call:
    stream = NETWORK if any_nonzero(kernel.work.link_bytes) else COMPUTE
    name = kernel.group.name
    return Call(name, kernel.launch_s, as_float(kernel.time.time_s), stream, (last,))


def step_spans(solution: Solution, fixed: FixedCosts) -> tuple[Span, ...]:
    """The spans of a step of one load."""
    return tuple(spans(step_calls(solution, fixed)))
