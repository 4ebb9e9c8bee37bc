"""Step times for thousands of steps: real steps of the plan on a grid, and lines between them.

A decode step is a function of its sequences and of the keys each attends to; prompts add how many
they are, how long, and how many tokens each has behind it. Each axis is a grid of like
ratios, so that a line between two points is near; only points that a run touches are planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from planner.plan.load import drafted
from planner.serving.clock import NONE, Clock, Prompts

_DECODE_CUTS = 8
"""Points in each doubling of decoding sequences: as many as engines capture graphs for."""
_PROMPT_CUTS = 4
_COUNT_CUTS = 2
_BESIDE_CUTS = 2
"""In each doubling of sequences that decode beside prompts: these weigh less than the prompts."""


@dataclass(frozen=True)
class Took:
    """What a step takes."""

    device_s: float
    wall_s: float
    """From its start to the next one's."""
    starved_s: float = 0.0
    """Of it the GPU has nothing to run, since launches come late."""
    ahead_s: float = 0.0
    """How long before its end the host can begin to launch the next."""

    def after(self, before: Took) -> Took:
        """The same right after another, whose end it need not wait for."""
        ahead_s = min(self.starved_s, before.ahead_s)
        return replace(self, device_s=self.device_s - ahead_s, wall_s=self.wall_s - ahead_s)


@dataclass(frozen=True)
class PromptLoad:
    """Prompt tokens of one step, whoever's they are."""

    count: int = 0
    """Prompts, or chunks of them."""
    tokens: int = 0
    reach: float = 0.0
    """Keys that a token of them attends to, on average."""

    @classmethod
    def of(cls, chunks: Iterable[tuple[int, float]]) -> PromptLoad:
        """The load of chunks of so many tokens, each behind so many."""
        parts = list(chunks)
        tokens = sum(new for new, _ in parts)
        if not tokens:
            return cls()
        return cls(len(parts), tokens, sum(new * (old + new / 2) for new, old in parts) / tokens)


NO_PROMPTS = PromptLoad()
Point = Callable[[int, int, Prompts], float]
"""Something of the step of so many sequences, keys and prompts."""


class StepTimes(Protocol):
    """How long the steps of a server take."""

    def took(self, decoding: int, context: float, prompts: PromptLoad) -> Took:
        """A step of so many decoding sequences, attending to so many keys on average."""

    def arrival_s(self, prompt_tokens: int) -> float:
        """The front end's time between a request's send and the scheduler."""


@dataclass(eq=False)
class Timetable:
    """The steps of one replica, interpolated."""

    clock: Clock
    context: int
    """Keys of a sequence halfway through: where steps with prompts are planned."""

    def took(self, decoding: int, context: float, prompts: PromptLoad = NO_PROMPTS) -> Took:
        """A step. What the host takes is no matter of a grid."""
        device_s = self._decode_s(decoding, context) if decoding else 0.0
        if prompts.count:
            device_s += self._with_prompts_s(decoding, prompts, self._point)
            device_s -= self._decode_s(decoding, self.context) if decoding else 0.0
        clock = self.clock
        host_s = clock.host.loop_s(decoding, prompts.count)
        if not prompts.count:
            host_s /= clock.scheduler.decode_steps
        alone = prompts.count and not decoding
        starved_s = self._with_prompts_s(0, prompts, self._starved_s) if alone else 0.0
        ahead_s = 0.0 if prompts.count else clock.ahead_s(device_s, host_s)
        return Took(device_s, clock.wall_s(device_s, host_s), starved_s, ahead_s)

    def arrival_s(self, prompt_tokens: int) -> float:
        """The front end's time for a request."""
        return self.clock.host.arrival_s(prompt_tokens)

    def _decode_s(self, decoding: int, context: float) -> float:
        return _line(
            decoding,
            _cut(decoding, _DECODE_CUTS),
            lambda n: _line(context, _cut(context, 1), lambda c: self._point(n, c)),
        )

    def _with_prompts_s(self, decoding: int, load: PromptLoad, point: Point) -> float:
        """Between prompts of like length that have like many tokens before them."""
        each = load.tokens / load.count
        before = max(0.0, load.reach - each / 2)

        def beside(n: int) -> float:
            return _line(load.count, _cut(load.count, _COUNT_CUTS), lambda c: many(n, c))

        def many(n: int, count: int) -> float:
            return _line(each, _cut(each, _PROMPT_CUTS), lambda t: long(n, count, t))

        def long(n: int, count: int, tokens: int) -> float:
            return _line(
                before,
                _cut(before, 1) if before else (0, 0),
                lambda b: point(n, self.context, Prompts(count, tokens, b)),
            )

        return _line(decoding, _cut(decoding, _BESIDE_CUTS), beside) if decoding else beside(0)

    def _point(self, decoding: int, context: int, prompts: Prompts = NONE) -> float:
        return self.clock.tick(decoding, context, prompts).device_s

    def _starved_s(self, decoding: int, context: int, prompts: Prompts = NONE) -> float:
        return self.clock.tick(decoding, context, prompts).starved_s


def timetable(clock: Clock, prompt: float, output: float) -> Timetable:
    """The timetable of requests of such lengths, as they are on average."""
    context = prompt + output / 2 + 1 + drafted(clock.prepared.question.deployment)
    return Timetable(clock, round(context))


def _cut(value: float, cuts: int) -> tuple[int, int]:
    """The points of a grid of whole numbers around a value, so many to each doubling."""
    whole = max(1, int(value))
    step = max(1, (1 << (whole.bit_length() - 1)) // cuts)
    low = whole // step * step
    return (low, low) if value == low else (low, low + step)


def _line(value: float, ends: tuple[int, int], at: Callable[[int], float]) -> float:
    """On the line between two points of a grid."""
    low, high = ends
    if low == high:
        return at(low)
    share = (value - low) / (high - low)
    return (1 - share) * at(low) + share * at(high)
