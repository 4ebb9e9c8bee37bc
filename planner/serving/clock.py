"""How long a step of a server takes from its start to the next one's, GPU and host together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from planner.cost.scheduler import HostCosts, Scheduler
from planner.ops.types import Load, SequenceGroup
from planner.plan.interval import interval
from planner.plan.load import StepLoad, decode, drafted, prefill
from planner.plan.prepare import Prepared
from planner.plan.solve import solve_step
from planner.plan.speculation import draft_s
from planner.plan.wall import Wall


@dataclass(frozen=True)
class Prompts:
    """Prompt tokens in one step: so many prompts, each with so many tokens now and before."""

    count: int
    tokens: int
    before: int = 0
    """KV tokens that each has already."""

    @property
    def total(self) -> int:
        """Prompt tokens in the step."""
        return self.count * self.tokens


NONE = Prompts(0, 0)


@dataclass(frozen=True)
class Tick:
    """One step."""

    device_s: float
    low_s: float | None
    high_s: float | None
    """The 80 % interval of what the GPU takes; None where nothing tells it."""
    host_s: float
    time_s: float


@dataclass(eq=False)
class Clock:
    """Times of steps on one replica, each asked for once."""

    prepared: Prepared
    scheduler: Scheduler
    host: HostCosts
    _known: dict[tuple[int, int, Prompts], Tick] = field(default_factory=dict)

    def tick(self, decoding: int, context: int, prompts: Prompts = NONE) -> Tick:
        """A step of so many decoding sequences, each attending to ``context`` keys, and prompts.

        Raises ValueError for a step of nothing.
        """
        if not decoding and not prompts.count:
            raise ValueError("a step needs a sequence")
        key = (decoding, context if decoding else 0, prompts)
        if key not in self._known:
            self._known[key] = self._tick(decoding, context, prompts)
        return self._known[key]

    def _tick(self, decoding: int, context: int, prompts: Prompts) -> Tick:
        solved = solve_step(self.prepared, self._load(decoding, context, prompts), modes=())
        chosen = solved.chosen
        draft = draft_s(self.prepared, decoding, context) if decoding else 0.0
        device_s = chosen.timeline.time_s + draft
        found = interval(chosen, solved.step.kind, solved.adjusted.runs)
        low_s, high_s = (found[0] + draft, found[1] + draft) if found else (None, None)
        host_s = self._wall.host_s(decoding, prompts.count)
        return Tick(device_s, low_s, high_s, host_s, self.wall_s(device_s, host_s))

    def wall_s(self, device_s: float, host_s: float) -> float:
        """A step's time from those of GPU and host."""
        return self._wall.step_s(device_s, host_s)

    @cached_property
    def _wall(self) -> Wall:
        return Wall(self.scheduler, self.host)

    def _load(self, decoding: int, context: int, prompts: Prompts) -> StepLoad:
        drafts = drafted(self.prepared.question.deployment)
        if not prompts.count:
            return decode(decoding, context, drafts)
        if not decoding:
            return prefill(prompts.count, prompts.tokens, prompts.before)
        running = decode(decoding, context, drafts).load.groups
        kv_tokens = prompts.before + prompts.tokens
        arriving = SequenceGroup(prompts.count, prompts.tokens, kv_tokens)
        return StepLoad("mixed", Load((*running, arriving)))
