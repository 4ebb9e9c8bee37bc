"""What traces have in common: kernel totals, busy time, and steps from named ranges."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from planner.importers.distribution import summary
from planner.importers.fields import Fields
from planner.plan.runs import KernelTime, Metric
from planner.units import show_seconds

PROFILED = "kernel times under a profiler may be longer than without"
_MOST_S = 1e11
"""Three thousand years: clocks count from 1970 or from the start of the machine."""
_VLLM = re.compile(
    r"execute_(?:context|new)_(\d{1,9})(?:\(\d+\))?_(?:generation|cached)_(\d{1,9})(?:\(\d+\))?"
)
_STEP = re.compile(r"(\w*[Ss]tep[#_ ]?)\d+")


@dataclass(frozen=True)
class Span:
    """A stretch of time, from any start."""

    name: str
    start_s: float
    length_s: float
    lane: str = ""
    """The device of a kernel; the thread of a range."""

    @property
    def end_s(self) -> float:
        """Where it ends. Lengths are kept apart, since clocks from 1970 would round them."""
        return self.start_s + self.length_s


@dataclass(frozen=True)
class Steps:
    """Engine steps found in a trace: wall times, and the decode batch where the names say it."""

    times_s: tuple[float, ...] = ()
    batch: int | None = None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Statistics of the step; none without steps."""
        return summary("step", self.times_s) if self.times_s else ()

    @property
    def samples(self) -> dict[str, tuple[float, ...]]:
        """The single steps."""
        return {"step": self.times_s} if self.times_s else {}


def span(fields: Fields, name: str, start_s: float, length_s: float, lane: object) -> Span:
    """A stretch whose times can be. Raises ImportRefused when they cannot."""
    if length_s > _MOST_S or abs(start_s) > _MOST_S:
        raise fields.refusal(name, "lies at a time that cannot be", "in another unit?")
    return Span(name, start_s, length_s, str(lane))


def totals(spans: Iterable[Span]) -> tuple[KernelTime, ...]:
    """Calls and time per kernel name, the longest first."""
    calls: dict[str, int] = defaultdict(int)
    time_s: dict[str, float] = defaultdict(float)
    for one in spans:
        calls[one.name] += 1
        time_s[one.name] += one.length_s
    return ranked(KernelTime(name, calls[name], time_s[name]) for name in calls)


def ranked(kernels: Iterable[KernelTime]) -> tuple[KernelTime, ...]:
    """The longest first."""
    return tuple(sorted(kernels, key=lambda kernel: (-kernel.total_s, kernel.name)))


def busy(spans: Sequence[Span]) -> str:
    """A note on how long any kernel ran, overlaps counted once, and how long the trace is."""
    covered, end = 0.0, float("-inf")
    for one in sorted(spans, key=lambda one: one.start_s):
        covered += max(0.0, one.end_s - max(one.start_s, end))
        end = max(end, one.end_s)
    whole = end - min(one.start_s for one in spans)
    return f"some kernel ran for {show_seconds(covered)} of {show_seconds(whole)} traced"


def devices(spans: Iterable[Span]) -> Iterator[str]:
    """A note, where kernels of several devices are added up."""
    count = len({one.lane for one in spans})
    if count > 1:
        yield f"kernel times and calls are summed over {count} GPUs"


def is_step(name: str) -> bool:
    """Whether a range of that name is a step of an engine or a profiler."""
    return _VLLM.fullmatch(name) is not None or _STEP.fullmatch(name) is not None


def steps(ranges: Iterable[Span]) -> Steps:
    """Times from one step's start to the next's, of the thread and kind that has the most.

    vLLM's ranges name the batch. Of them only those count that decode for equally many sequences
    without prefill and follow each other, so no step of another kind lies between.
    """
    times: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    last: dict[tuple[str, str], tuple[int | None, Span]] = {}
    for one in sorted(ranges, key=lambda one: one.start_s):
        kind, batch = kind_of_range(one.name)
        before = last.get((one.lane, kind))
        if before and batch is not None and before[0] == batch and one.start_s > before[1].start_s:
            times[one.lane, kind, batch].append(one.start_s - before[1].start_s)
        last[one.lane, kind] = (batch, one)
    if not times:
        return Steps()
    # An engine's own ranges come before a profiler's, which may hold several steps.
    most = max(times, key=lambda key: (key[1] == "", len(times[key])))
    return Steps(tuple(times[most]), most[2] or None)


def kind_of_range(name: str) -> tuple[str, int | None]:
    """The kind of range and its decode batch: 0 where unsaid, None where it is no pure decode."""
    engine = _VLLM.fullmatch(name)
    if engine:
        return "", None if int(engine[1]) else int(engine[2])
    other = _STEP.fullmatch(name)
    return (other[1] if other else name), 0
