"""What users must get, and how far from it a serving is, its interval included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.plan.serving_types import Range, ServingPlan


@dataclass(frozen=True)
class Targets:
    """Limits of what users see, on average; None where there is none."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    latency_s: float | None = None
    """Of a whole request."""
    output_tokens_per_s: float | None = None
    """At least so many, over all GPUs."""

    @property
    def latencies(self) -> Targets:
        """Those that one user feels, whatever the others get."""
        return Targets(self.ttft_s, self.tpot_s, self.latency_s)


@dataclass(frozen=True)
class Margin:
    """One limit, and how far inside it a predicted figure lies: shares of the limit."""

    name: str
    """``ttft``, ``tpot``, ``latency`` or ``throughput``."""
    limit: float
    """In seconds, or output tokens a second."""
    found: Range
    margin: float
    """0.2 is a fifth of the limit to spare; below nought it is missed."""
    worst: float | None
    """At the worse end of the 80 % interval; None where nothing tells it."""
    best: float | None

    @property
    def inside(self) -> bool:
        """Whether the predicted figure keeps the limit."""
        return self.margin >= 0

    @property
    def crosses(self) -> bool:
        """Whether the interval lies on both sides of the limit, so that it may turn out the other
        way.
        """
        return self.worst is not None and self.best is not None and self.worst < 0 <= self.best


def margins(targets: Targets, serving: ServingPlan) -> tuple[Margin, ...]:
    """Each limit that is asked for against a serving."""
    return tuple(_margins(targets, serving))


def _margins(targets: Targets, serving: ServingPlan) -> Iterator[Margin]:
    times = (
        ("ttft", targets.ttft_s, serving.ttft_s),
        ("tpot", targets.tpot_s, serving.tpot_s),
        ("latency", targets.latency_s, serving.latency_s),
    )
    for name, limit, found in times:
        if limit is not None:
            ends = (_spare(found.value, limit), _spare(found.high, limit), _spare(found.low, limit))
            yield Margin(name, limit, found, ends[0] or 0.0, ends[1], ends[2])
    limit, found = targets.output_tokens_per_s, serving.output_tokens_per_s
    if limit is not None:
        ends = (_over(found.value, limit), _over(found.low, limit), _over(found.high, limit))
        yield Margin("throughput", limit, found, ends[0] or 0.0, ends[1], ends[2])


def _spare(time_s: float | None, limit_s: float) -> float | None:
    return None if time_s is None else 1 - time_s / limit_s


def _over(rate: float | None, limit: float) -> float | None:
    return None if rate is None else rate / limit - 1


def least(found: tuple[Margin, ...]) -> float:
    """The margin of the tightest limit; infinite without limits."""
    return min((each.margin for each in found), default=float("inf"))
