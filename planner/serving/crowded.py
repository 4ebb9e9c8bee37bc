"""The steady state of a replica, whether or not its KV cache runs out.

Where it does, the cache's turnover (`planner.serving.turnover`) says how many sequences run, how
many are out of it, and what each request computes again. Steps follow: each request brings its own
prompt and those of its evictions, as many together as come back together. X requests a second are
served where those in the cache are X times the time that each is in it (Little's law). A request's
tokens after the first take its decode steps, its prompts computed again, and the steps that it is
out for: these decode alone, since nobody comes in while someone is out. All other time of the users
is the wait for the first token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from planner.plan.speculation import yielded
from planner.serving.clock import Clock
from planner.serving.replay import Cache, Turnover
from planner.serving.room import Room
from planner.serving.state import Crowd, Mixture, Steady
from planner.serving.steady import fresh, fullest, mixture_of, steady, whole
from planner.serving.turnover import turnover
from planner.serving.types import ClosedLoop

_ENDLESS = 4
"""Times the users where ever more wait: whether more than that do changes nothing for others."""
_ROUNDS = 4
_CLOSE = 0.005
"""Rounds end when the rate of requests changes by less."""


def served(clock: Clock, asked: ClosedLoop, users: int, room: Room) -> Steady:
    """The steady state of one replica with so many users. ``room`` is for one sequence at least."""
    speculation = clock.prepared.question.deployment.speculation
    yields = yielded(speculation) if speculation else 1.0
    steps = (asked.output - 1) / yields
    # those whose prompts find no room in steps do not ask for KV
    most = min(clock.scheduler.sequences, whole(fullest(clock, asked, steps)))
    asking = min(_ENDLESS * users if asked.endless else users, most)
    lengths = asked.input, asked.output, asking, asked.spread, asked.drifted
    cache = Cache(clock.scheduler.admission, room.pool_tokens, *lengths)
    found = turnover(cache)
    if found is None:
        return steady(clock, asked, users, room)
    running = cache.running(found)
    first_s = steady(clock, asked, max(1, round(running)), room).first_s
    return _Crowd(clock, asked, cache, found, running, steps).state(users, yields, first_s)


@dataclass(frozen=True)
class _Crowd:
    clock: Clock
    asked: ClosedLoop
    cache: Cache
    turnover: Turnover
    running: float
    """Sequences that hold KV."""
    steps: float
    """Of each request, that decode."""

    @property
    def prompts(self) -> float:
        """That each request brings, with those that it computes again."""
        return 1 + self.turnover.evictions

    def state(self, users: int, yields: float, first_s: float) -> Steady:
        """What users see who have their first tokens so long after they found room."""
        mixture, rate = self._settled()
        again, decode_s = self.turnover, mixture.decode.time_s
        if not mixture.mixed:
            mixture = replace(mixture, stalls=mixture.stalls * min(1.0, again.met))
        step_s = mixture.step_s(decode_s, mixture.prefill.time_s)
        away_s = again.evictions * mixture.chunks * mixture.prefill.time_s
        away_s += again.away * self.steps * decode_s
        inside_s = first_s + self.steps * step_s + away_s
        wait_s = 0.0
        if not self.asked.endless:
            rate = min(rate, users / inside_s)
            wait_s = users / rate - inside_s
        times = step_s, yields, wait_s, first_s, rate
        away_s /= max(1, self.asked.output - 1)
        return Steady(mixture, *times, away_s, Crowd(self.running, again))

    def _settled(self) -> tuple[Mixture, float]:
        """The steps, and the requests that are served in a second."""
        decoding, rate = self.running, 0.0
        for _ in range(_ROUNDS):
            mixture = self._mixture(max(1, round(decoding)))
            steps_s = self.steps * mixture.step_s(mixture.decode.time_s, mixture.prefill.time_s)
            before, rate = rate, self.running / (steps_s + self._prompts_s(mixture, steps_s))
            decoding = rate * steps_s
            if math.isclose(before, rate, rel_tol=_CLOSE):
                break
        return mixture, rate

    def _mixture(self, decoding: int) -> Mixture:
        sequences = decoding, max(1, round(self.running))
        each, context = self.steps / self.prompts, round(self.cache.mean)
        return mixture_of(self.clock, self._prompt, sequences, each, context)

    @property
    def _prompt(self) -> ClosedLoop:
        """A loop of prompts as they are on average, those computed again among them."""
        asked, again = self.asked, self.turnover
        cached = asked.input - fresh(asked)
        new = (fresh(asked) + again.again - again.evictions * cached) / self.prompts
        length = max(1, round(new)) + cached
        loop = replace(asked, input=length, cached=cached / length)
        return replace(loop, drifted=True, together=again.together)

    def _prompts_s(self, mixture: Mixture, steps_s: float) -> float:
        """The time that a request is in the cache before it decodes.

        Where prompts go first nothing else moves meanwhile: their time is that of all sequences.
        """
        full = fullest(self.clock, self._prompt, self.steps / self.prompts)
        own_s = self.prompts * mixture.chunks * mixture.prefill.time_s if mixture.mixed else 0.0
        return max(own_s, (self.running / full - 1) * steps_s)
