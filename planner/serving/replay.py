"""A KV cache that is too small for all who ask for it, step by step and without times.

A sequence that is in it grows by a token a step. Where it is full the one that began last goes, and
waits in front of all others; it comes back with all its tokens and one more, which it had from
computing them again. Between the end of one sequence and the next, or an eviction, nothing changes,
so that the replay goes from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from planner.cost.scheduler import Admission
from planner.serving.admission import Expected

_WARM, _COUNTED, _LEAST = 4, 8, 160
"""Requests of each place before any is counted, and those counted; so many at least."""
_LOOK = 8
"""Steps after which an estimate that has fallen may let the next sequence in."""


@dataclass(frozen=True)
class Turnover:
    """What a full KV cache does, on average."""

    kv_share: float
    """Of the cache that is in use."""
    out: float
    """Of the sequences that ask for it, how many are not in it."""
    away: float
    """Sequences that had begun and were evicted, for each that runs."""
    evictions: float
    """Of each request."""
    again: float
    """Tokens that each request computes once more."""
    together: float
    """Prompts that come with one, itself among them."""
    met: float
    """Of those that run, how many a prompt finds running: less than one where they come in waves,
    whose first prompts find nobody."""


@dataclass(frozen=True)
class Cache:
    """A KV cache and who asks for it. Lengths in tokens, on average."""

    rule: Admission
    tokens: int
    prompt: int
    output: int
    sequences: int
    """That ask for it at once."""
    spread: float = 0.0
    """Lengths vary between (1 - spread) of the longest and the longest."""
    apart: bool = False
    """Whether sequences begin one by one although they are all alike."""

    @property
    def mean(self) -> float:
        """Tokens of a sequence that is found running.

        Each token of an output takes a step, so that those found running are as old as not, and
        long outputs are found more than short ones: with outputs even between 1 - s and 1 of the
        longest, of mean m and mean square q, q / 2m tokens of the output are there.
        """
        least = 1 - self.spread
        square = (1 + least + least**2) / 3 * self.longest**2
        return self.prompt + self.output * square / 2

    @property
    def holds(self) -> float:
        """Sequences that fit, as they are found running."""
        return self.tokens / self.mean

    def running(self, found: Turnover) -> float:
        """Sequences that hold KV at once, of a turnover of such a cache."""
        if self.sequences <= self.holds:
            return self.sequences * (1 - found.out)
        return found.kv_share * self.holds

    @property
    def longest(self) -> float:
        """Lengths of the longest, of those of the mean."""
        return 1 / (1 - self.spread / 2)

    @property
    def enough(self) -> bool:
        """Whether nothing can run out: all of them fit at their longest."""
        most = self.sequences * (self.prompt + self.output) * self.longest
        return self.rule == "whole" or most <= self.tokens


@dataclass(eq=False, slots=True)
class _Sequence:
    """A request in the cache, or waiting for it."""

    kv: float
    """Tokens that it holds when it begins, or begins again."""
    steps: int
    """That it then needs."""
    output: int
    since: int = 0
    """The step in which it began."""

    @property
    def ends(self) -> int:
        """The step after which it is done."""
        return self.since + self.steps


@dataclass(eq=False)
class Replay:
    """A KV cache at work."""

    cache: Cache
    now: int = 0
    held: float = 0.0
    """Tokens."""
    running: list[_Sequence] = field(default_factory=list)
    """In the order they began."""
    evicted: list[_Sequence] = field(default_factory=list)
    """The last of them comes back first."""
    begun: int = 0
    done: int = 0
    evictions: int = 0
    again: float = 0.0
    """Tokens of evicted sequences, to be computed once more."""

    def __post_init__(self) -> None:
        self._expected = Expected(self.cache.rule)
        self._random = Random(0)  # noqa: S311 - lengths, no secrets
        self._next = self._drawn()
        self._clear()

    def _clear(self) -> None:
        self._ran = self._away = self._kept = self._found = 0.0
        self._prompts = self._pairs = 0
        self.evictions, self.again = 0, 0.0

    def turned(self) -> Turnover:
        """The averages, once the beginning is forgotten."""
        cache = self.cache
        places = min(cache.holds, cache.sequences)
        self.play(cache.sequences + round(_WARM * places))
        self._clear()
        since = self.now
        self.play(self.done + max(_LEAST, round(_COUNTED * places)))
        steps = self.now - since
        requests = self._ran / max(1, cache.output - 1)
        return Turnover(
            self._kept / steps / cache.tokens,
            1 - self._ran / steps / cache.sequences,
            self._away / self._ran,
            self.evictions / requests,
            self.again / requests,
            self._pairs / max(1, self._prompts),
            self._found / max(1, self._prompts) / (self._ran / steps),
        )

    def play(self, done: int) -> None:
        """Go on until so many requests are done."""
        while self.done < done:
            if not self._make_room():
                self._let_in()
            self._step(self._until_next())

    def _make_room(self) -> bool:
        """Evict until all that run can grow; whether any had to go."""
        before = self.evictions
        while self.held + len(self.running) > self.cache.tokens and len(self.running) > 1:
            self._ran_out()
            last = self.running.pop()
            had = last.kv + self.now - last.since
            self.held -= had
            self.evictions += 1
            self.again += had + 1
            self.evicted.append(_Sequence(had + 1, last.ends - self.now - 1, last.output))
        return self.evictions > before

    def _ran_out(self) -> None:
        outputs = sum(each.output for each in self.running)
        made = outputs - len(self.running) - self._todo()
        self._expected.ran_out(made, len(self.running), outputs)

    def _todo(self) -> int:
        """Steps that those which run have still to do."""
        return sum(each.ends - self.now for each in self.running)

    def _let_in(self) -> None:
        """Those that wait, as long as they fit."""
        before = self._prompts
        self._admit(self._todo())
        self._pairs += (self._prompts - before) ** 2

    def _admit(self, todo: int) -> None:
        while self.evicted or self.begun - self.done < self.cache.sequences:
            new = self.evicted[-1] if self.evicted else self._next
            later = self._expected.of_running * todo + self._expected.of_new * new.steps
            needed = self.held + new.kv + max(later, len(self.running))
            if needed > self.cache.tokens and self.running:
                return
            self._begin(new)
            todo += new.steps

    def _begin(self, new: _Sequence) -> None:
        if self.evicted:
            self.evicted.pop()
        else:
            self.begun += 1
            self._next = self._drawn()
        new.since = self.now
        self._prompts += 1
        self._found += len(self.running)
        if new.steps > 0:
            self.running.append(new)
            self.held += new.kv
        else:
            self.done += 1

    def _drawn(self) -> _Sequence:
        """The next request; the first ones cut, so that they end one by one."""
        cache = self.cache
        prompt, output = self._length(cache.prompt), self._length(cache.output)
        apart = cache.spread > 0 or cache.apart
        if apart and self.begun < cache.sequences:
            output = self._random.randint(1, output)
        return _Sequence(prompt, output - 1, output)

    def _length(self, mean: int) -> int:
        if not self.cache.spread:
            return mean
        most = round(mean * self.cache.longest)
        return self._random.randint(max(1, int(most * (1 - self.cache.spread))), most)

    def _until_next(self) -> int:
        """Steps until one ends or must go."""
        ends = min(each.ends for each in self.running) - self.now
        room = int((self.cache.tokens - self.held) / len(self.running))
        most = _LOOK if self.cache.rule == "estimate" else ends
        return max(1, min(ends, room, most))

    def _step(self, steps: int) -> None:
        """So many of them."""
        count = len(self.running)
        self._ran += count * steps
        self._away += len(self.evicted) * steps
        self._kept += (self.held + count * steps / 2) * steps
        self.now += steps
        self.held += count * steps
        self._expected.decoded(steps)
        left = [each for each in self.running if each.ends > self.now]
        self.held -= sum(each.kv + each.steps for each in self.running if each.ends <= self.now)
        self.done += count - len(left)
        self.running = left
