"""How long a step of a server takes from its start to the next one's, GPU and host together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from planner.cost.scheduler import HostCosts, Scheduler
from planner.num import Number, any_nonzero
from planner.ops.types import Load
from planner.plan.interval import interval
from planner.plan.load import StepLoad, decode, drafted, prefill
from planner.plan.prepare import Prepared
from planner.plan.solve import solve_step
from planner.plan.speculation import draft_s
from planner.plan.wall import Wall


@dataclass(frozen=True)
class Prompts:
    """Prompt tokens in one step: so many prompts, each with so many tokens now and before."""

    count: Number
    tokens: Number
    before: Number = 0
    """KV tokens that each has already."""

    @property
    def total(self) -> Number:
        """Prompt tokens in the step."""
        return self.count * self.tokens


NONE = Prompts(0, 0)


@dataclass(frozen=True)
class Beat:
    """A step of so many decoding sequences, each attending to ``context`` keys, and prompts.

    Raises ValueError for a step of nothing.
    """

    decoding: Number
    context: Number
    prompts: Prompts = NONE

    def __post_init__(self) -> None:
        """Steps without decoding sequences are alike whatever the context."""
        if any_nonzero(self.decoding):
            return
        if not any_nonzero(self.prompts.count):
            raise ValueError("a step needs a sequence")
        object.__setattr__(self, "context", 0)

    @property
    def kind(self) -> str:
        """As of a `StepLoad`."""
        if not any_nonzero(self.prompts.count):
            return "decode"
        return "mixed" if any_nonzero(self.decoding) else "prefill"

    def step(self, drafts: int) -> StepLoad:
        """Its load, or those of many of a kind."""
        if self.kind == "decode":
            return decode(self.decoding, self.context, drafts)
        arriving = prefill(self.prompts.count, self.prompts.tokens, self.prompts.before)
        if self.kind == "prefill":
            return arriving
        running = decode(self.decoding, self.context, drafts).load.groups
        return StepLoad("mixed", Load((*running, *arriving.load.groups)))


@dataclass(frozen=True)
class DeviceTime:
    """What the GPU takes for a step; the interval None where nothing tells it."""

    time_s: float
    low_s: float | None
    high_s: float | None
    starved_s: float = 0.0
    """Of it, with nothing to run since launches come late."""


@dataclass(frozen=True)
class Tick:
    """One step."""

    device_s: float
    low_s: float | None
    high_s: float | None
    """The 80 % interval of what the GPU takes; None where nothing tells it."""
    host_s: float
    time_s: float
    starved_s: float = 0.0
    """Of ``device_s``, with nothing to run since launches come late."""


@dataclass(eq=False)
class Clock:
    """Times of steps on one replica, each asked for once."""

    prepared: Prepared
    scheduler: Scheduler
    host: HostCosts
    _known: dict[Beat, Tick] = field(default_factory=dict)

    def tick(self, decoding: int, context: int, prompts: Prompts = NONE) -> Tick:
        """A step of so many decoding sequences, each attending to ``context`` keys, and prompts.

        Raises ValueError for a step of nothing.
        """
        (found,) = self.ticks(Beat(decoding, context, prompts))
        return found

    def ticks(self, *beats: Beat) -> tuple[Tick, ...]:
        """Several steps, for whoever can price them together. Raises as `tick`."""
        for beat in beats:
            if beat not in self._known:
                self._known[beat] = self.timed(beat, self.device(beat))
        return tuple(self._known[beat] for beat in beats)

    def device(self, beat: Beat) -> DeviceTime:
        """What the GPU takes."""
        step = beat.step(drafted(self.prepared.question.deployment))
        solved = solve_step(self.prepared, step, modes=())
        chosen = solved.chosen
        draft = draft_s(self.prepared, beat.decoding, beat.context) if beat.decoding else 0.0
        found = interval(chosen, solved.step.kind, solved.adjusted.runs)
        low_s, high_s = (found[0] + draft, found[1] + draft) if found else (None, None)
        line = chosen.timeline
        return DeviceTime(line.time_s + draft, low_s, high_s, float(line.starved_s))

    def timed(self, beat: Beat, device: DeviceTime) -> Tick:
        """A step of which it is known what the GPU takes."""
        host_s = self._wall.host_s(beat.decoding, beat.prompts.count)
        wall_s = self.wall_s(device.time_s, host_s)
        spread = device.low_s, device.high_s
        return Tick(device.time_s, *spread, host_s, wall_s, device.starved_s)

    def following(self, tick: Tick, before: Tick) -> Tick:
        """A step right after another: an asynchronous host launches it while the other runs, and is
        ahead of the GPU by what that takes longer than the loop.
        """
        ahead_s = min(tick.starved_s, self.ahead_s(before.device_s, before.host_s))
        if not ahead_s:
            return tick
        ends = (tick.device_s, tick.low_s, tick.high_s)
        device_s, low_s, high_s = (end_s and max(0.0, end_s - ahead_s) for end_s in ends)
        assert device_s is not None
        wall_s = self.wall_s(device_s, tick.host_s)
        return Tick(device_s, low_s, high_s, tick.host_s, wall_s, tick.starved_s - ahead_s)

    def ahead_s(self, device_s: float, host_s: float) -> float:
        """How long before the GPU ends a step the host has done its own part of the next."""
        return max(0.0, device_s - host_s) if self.scheduler.asynchronous else 0.0

    def wall_s(self, device_s: float, host_s: float) -> float:
        """A step's time from those of GPU and host."""
        return float(self._wall.step_s(device_s, host_s))

    @cached_property
    def _wall(self) -> Wall:
        return Wall(self.scheduler, self.host)
