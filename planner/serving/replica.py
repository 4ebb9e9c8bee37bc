"""The scheduler of one replica: what it puts into each step, and what the step changes.

Rules are the engine's by its version and flags (`planner.cost.scheduler`). Decoding sequences all
move together, so they are counted, not visited: one ends when the count of decode steps reaches a
number that is known when it begins.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.cost.scheduler import Scheduler
from planner.serving.admission import Expected
from planner.serving.requests import Request
from planner.serving.timetable import PromptLoad, StepTimes, Took

_MOST_REPEATS = 64
"""Decode steps in one go: their mean context then stands for all of them."""
_WHILE_WAITING = 8
"""The same where a request waits: an estimate may let it in as it falls."""
_SAFE = 0.9


@dataclass(eq=False, slots=True)
class Sequence:
    """A request in the engine."""

    request: Request
    ready_s: float
    """When the scheduler could first see it."""
    todo: int
    """Tokens still to be computed before it decodes: of the prompt, and of what it had generated
    when it was evicted."""
    kv: float
    """KV tokens that it holds when it begins to decode."""
    steps: int
    """Decode steps that it then needs."""
    ends: int = 0
    """The decode step that is its last one."""


@dataclass(frozen=True)
class Step:
    """What runs next: prompts, decoding sequences, or both; decode steps alone may repeat."""

    chunks: tuple[tuple[Sequence, int], ...]
    decoding: int
    repeats: int
    took: Took
    """Each of them."""

    @property
    def time_s(self) -> float:
        """Until the next."""
        return self.repeats * self.took.wall_s


@dataclass(eq=False)
class Replica:
    """One engine with its KV cache."""

    rules: Scheduler
    times: StepTimes
    pool_tokens: int
    longest: int = sys.maxsize
    """Tokens of the longest sequence that it takes."""
    yields: float = 1.0
    """Tokens that a decode step gives each sequence, on average."""
    drafts: int = 0
    """Draft tokens that it verifies for each."""
    hands_on: bool = False
    """Whether requests leave with their first token, as from a prefill server."""
    waiting: deque[Sequence] = field(default_factory=deque)
    partial: list[Sequence] = field(default_factory=list)
    """Sequences whose prompts have begun."""
    decoding: dict[Sequence, None] = field(default_factory=dict)
    """In the order they began."""
    evictions: int = 0
    _ending: list[tuple[int, int, Sequence]] = field(default_factory=list)
    _count: int = 0
    """Decode steps so far."""
    _held: float = 0.0
    """KV tokens of decoding sequences."""
    _ends: int = 0
    """Their last steps, summed: what they have still to do follows."""
    _begun: int = 0
    _waited: int = 0
    """Decode steps that prompts have waited for others to come."""
    _holding: bool = False
    _before: Took | None = None
    """The step before, if any."""

    def __post_init__(self) -> None:
        self._expected = Expected(self.rules.admission)

    @property
    def kv_tokens(self) -> float:
        """KV tokens in use."""
        return self._held + sum(seq.kv for seq in self.partial)

    @property
    def running(self) -> int:
        """Requests in the engine."""
        return len(self.partial) + len(self.decoding)

    def takes(self, request: Request) -> bool:
        """Whether it could ever run one of this length."""
        later = 0 if self.hands_on else request.output
        if request.prompt + later > min(self.pool_tokens, self.longest):
            return False
        again = 0 if self.rules.preemption == "none" else later
        longest = self.rules.longest_prompt
        return longest is None or request.fresh + again <= longest

    def enter(self, request: Request, now_s: float, *, computed: bool = False) -> None:
        """A request reaches the scheduler, or comes with the KV of its prompt."""
        steps = 0 if self.hands_on else math.ceil((request.output - 1) / self.yields)
        todo = 0 if computed else request.fresh
        self.waiting.append(Sequence(request, now_s, todo, request.prompt, steps))

    def next_step(self, seen_s: float, horizon_s: float) -> Step | None:
        """What runs now; None where nothing can.

        The scheduler sees what was ready at ``seen_s``; nothing new comes for ``horizon_s``.
        """
        self._holding = False
        room = not self.rules.mixed or self._make_room()
        chunks = tuple(self._chunks(seen_s, room))
        if not self.rules.mixed and not chunks:
            self._make_room()
        decoding = len(self.decoding) if self.rules.mixed or not chunks else 0
        if not chunks and not decoding:
            return None
        context = self._held / decoding + 1 + self.drafts if decoding else 0.0
        load = PromptLoad.of((new, seq.kv - seq.todo) for seq, new in chunks)
        took = self.times.took(decoding, context, load)
        before, self._before = self._before, took
        if chunks:
            follows = before and self.decoding and not decoding
            return Step(chunks, decoding, 1, took.after(before) if before and follows else took)
        repeats = self._repeats(seen_s, horizon_s / took.wall_s)
        middle = context + self.yields * (repeats - 1) / 2
        return Step((), decoding, repeats, self.times.took(decoding, middle, load))

    def finish(self, step: Step, now_s: float) -> list[Request]:
        """Apply a step that ends now; the requests that leave."""
        left: list[Request] = []
        self._waited = self._waited + step.repeats if self._holding else 0
        if step.decoding:
            self._count += step.repeats
            self._held += step.decoding * step.repeats * self.yields
            self._expected.decoded(step.repeats)
            left += self._ended(now_s)
        for seq, new in step.chunks:
            seq.todo -= new
            if not seq.todo:
                self.partial.remove(seq)
                left += self._begin(seq, now_s)
        return left

    def _chunks(self, seen_s: float, room: bool) -> Iterator[tuple[Sequence, int]]:
        """Prompts of the next step: those that have begun, then waiting ones as they fit."""
        rules = self.rules
        if rules.order == "decode_first" and not rules.mixed and self.decoding:
            return
        budget = rules.tokens
        if rules.counts == "all" and rules.mixed:
            budget -= len(self.decoding) * (1 + self.drafts)
        for seq in self.partial:
            new = min(seq.todo, max(0, budget))
            budget -= new
            if new:
                yield seq, new
        if self._holds(seen_s):
            return
        while budget > 0 and room and self._admits(seen_s, budget):
            seq = self.waiting.popleft()
            if not seq.todo:
                self._begin(seq, seen_s)
                continue
            self.partial.append(seq)
            new = min(seq.todo, budget)
            budget -= new
            yield seq, new

    def _holds(self, seen_s: float) -> bool:
        """Whether prompts wait for others beside what decodes."""
        rules = self.rules
        if not self.decoding or self.partial or self._waited >= rules.hold_steps:
            return False
        there = sum(seq.todo for seq in self.waiting if seq.ready_s <= seen_s)
        self._holding = 0 < there < rules.hold_share * rules.tokens - len(self.decoding)
        return self._holding

    def _admits(self, seen_s: float, budget: int) -> bool:
        """Whether the first request that waits may start in this step."""
        if not self.waiting or self.waiting[0].ready_s > seen_s:
            return False
        seq, rules = self.waiting[0], self.rules
        if self.running >= rules.sequences or (not rules.chunked and seq.todo > budget):
            return False
        todo = self._ends - len(self.decoding) * self._count + sum(s.steps for s in self.partial)
        later = self._expected.of_running * todo + self._expected.of_new * seq.steps
        now = len(self.decoding) if rules.mixed else 0
        return self.kv_tokens + seq.kv + max(later, now) * self.yields <= self.pool_tokens

    def _begin(self, seq: Sequence, now_s: float) -> list[Request]:
        """A prompt is whole: its first token is there, if it did not come before an eviction."""
        request = seq.request
        request.first_s = request.first_s or now_s
        if not seq.steps:
            request.done_s = now_s
            return [request]
        seq.ends = self._count + seq.steps
        self._held += seq.kv
        self._ends += seq.ends
        self.decoding[seq] = None
        self._begun += 1
        heapq.heappush(self._ending, (seq.ends, self._begun, seq))
        return []

    def _ended(self, now_s: float) -> list[Request]:
        left = []
        while self._ending and self._ending[0][0] <= self._count:
            _, _, seq = heapq.heappop(self._ending)
            if seq in self.decoding:
                self._stop(seq)
                seq.request.done_s = now_s
                left.append(seq.request)
        return left

    def _stop(self, seq: Sequence) -> float:
        """A decoding sequence gives its KV back; how many tokens that were."""
        had = seq.kv + (seq.steps - seq.ends + self._count) * self.yields
        del self.decoding[seq]
        self._held -= had
        self._ends -= seq.ends
        return had

    def _make_room(self) -> bool:
        """Evict the last to begin until every decoding sequence can grow; whether none had to go.

        What was evicted waits in front of all others, to be computed again.
        """
        before = self.evictions
        while self.kv_tokens + len(self.decoding) * self.yields > self.pool_tokens:
            if self.running <= 1:
                break
            self.evictions += 1
            if self.partial:
                self._again(self.partial.pop(), None)
            else:
                self._retract()
        return before == self.evictions

    def _retract(self) -> None:
        seqs = self.decoding
        made = sum((seq.steps - seq.ends + self._count) for seq in seqs)
        self._expected.ran_out(made, len(seqs), sum(seq.request.output for seq in seqs))
        seq = next(reversed(seqs))
        self._again(seq, self._stop(seq))

    def _again(self, seq: Sequence, had: float | None) -> None:
        """Put a sequence in front of the queue.

        What had begun to decode computes its tokens once more, the last one of them too, and that
        gives it its next one.
        """
        request, kv, steps = seq.request, seq.kv, seq.steps
        if had is not None:
            kv, steps = had + 1, seq.ends - self._count - 1
        todo = max(1, round(kv) - (request.prompt - request.fresh))
        self.waiting.appendleft(Sequence(request, seq.ready_s, todo, kv, steps))

    def _repeats(self, seen_s: float, steps: float) -> int:
        """Decode steps until anything changes, where so many fit in before the next event."""
        if self.waiting and self.waiting[-1].ready_s > seen_s:
            return 1
        while self._ending[0][2] not in self.decoding:
            heapq.heappop(self._ending)
        room = (self.pool_tokens - self.kv_tokens) / (len(self.decoding) * self.yields)
        most = _WHILE_WAITING if self.waiting else _MOST_REPEATS
        if self._holding:
            most = min(most, self.rules.hold_steps - self._waited)
        # steps grow longer meanwhile: the event is not to be passed
        before = 1 + int(min(most, _SAFE * steps))
        return max(1, min(most, self._ending[0][0] - self._count, int(room), before))
