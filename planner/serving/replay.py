"""A KV cache that is too small for all who ask for it, step by step and without times.

A sequence that is in it grows by a token a step. Where it is full the one that began last goes, and
waits in front of all others; it comes back with all its tokens and one more, which it had from
computing them again. Between the end of one sequence and the next, or an eviction, nothing changes,
so that the replay goes from one to the other.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from planner.cost.scheduler import Admission
from planner.serving.admission import Expected

_WARM, _COUNTED, _LEAST = 4, 5, 160
"""Requests of each place before any is counted, and those counted; so many at least."""
_PRIME = 2**31 - 1
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
    ends: int = 0
    """The step after which it is done."""


@dataclass(eq=False)
class Replay:
    """A KV cache at work."""

    cache: Cache
    now: int = 0
    held: float = 0.0
    """Tokens."""
    running: dict[_Sequence, None] = field(default_factory=dict)
    """In the order they began."""
    evicted: list[_Sequence] = field(default_factory=list)
    """The last of them comes back first."""
    begun: int = 0
    done: int = 0
    evictions: int = 0
    again: float = 0.0
    """Tokens of evicted sequences, to be computed once more."""

    def __post_init__(self) -> None:
        cache = self.cache
        self._places = max(1, round(min(cache.holds, cache.sequences)))
        self._expected = Expected(cache.rule)
        self._seed = 1
        self._next = self._drawn()
        self._ending: list[tuple[int, int, _Sequence]] = []
        self._ends = self._pushed = 0
        """Their last steps, summed."""
        self._clear()

    def _clear(self) -> None:
        self._ran = self._away = self._kept = self._found = 0.0
        self._prompts = self._pairs = 0
        self.evictions, self.again = 0, 0.0

    def turned(self) -> Turnover:
        """The averages, once the beginning is forgotten."""
        cache = self.cache
        self.play(_WARM * self._places)
        self._clear()
        since = self.now
        self.play(self.done + max(_LEAST, _COUNTED * self._places))
        steps = self.now - since
        requests, running = self._ran / max(1, cache.output - 1), self._ran / steps
        prompts = max(1, self._prompts)
        return Turnover(
            kv_share=self._kept / steps / cache.tokens,
            out=1 - running / cache.sequences,
            away=self._away / self._ran,
            evictions=self.evictions / requests,
            again=self.again / requests,
            together=self._pairs / prompts,
            met=self._found / prompts / running,
        )

    def play(self, done: int) -> None:
        """Go on until so many requests are done."""
        while self.done < done:
            if not self._make_room():
                before = self._prompts
                self._let_in()
                self._pairs += (self._prompts - before) ** 2
            self._step(self._until_next())

    def _make_room(self) -> bool:
        """Evict until all that run can grow; whether any had to go."""
        before = self.evictions
        while self.held + len(self.running) > self.cache.tokens and len(self.running) > 1:
            self._ran_out()
            last, _ = self.running.popitem()
            left = last.ends - self.now
            had = last.kv + last.steps - left
            self.held -= had
            self._ends -= last.ends
            self.evictions += 1
            self.again += had + 1
            self.evicted.append(_Sequence(had + 1, left - 1, last.output))
        return self.evictions > before

    def _ran_out(self) -> None:
        if self.cache.rule == "estimate":
            outputs = sum(each.output for each in self.running)
            made = outputs - len(self.running) - self._todo
            self._expected.ran_out(made, len(self.running), outputs)

    @property
    def _todo(self) -> int:
        """Steps that those which run have still to do."""
        return self._ends - len(self.running) * self.now

    def _let_in(self) -> None:
        """Those that wait, as long as they fit."""
        while self.evicted or self.begun - self.done < self.cache.sequences:
            new = self.evicted[-1] if self.evicted else self._next
            later = self._expected.of_running * self._todo + self._expected.of_new * new.steps
            needed = self.held + new.kv + max(later, len(self.running))
            if needed > self.cache.tokens and self.running:
                return
            self._begin(new)

    def _begin(self, new: _Sequence) -> None:
        if self.evicted:
            self.evicted.pop()
        else:
            self.begun += 1
            self._next = self._drawn()
        self._prompts += 1
        self._found += len(self.running)
        if new.steps <= 0:
            self.done += 1
            return
        new.ends = self.now + new.steps
        self.running[new] = None
        self.held += new.kv
        self._ends += new.ends
        self._pushed += 1
        heapq.heappush(self._ending, (new.ends, self._pushed, new))

    def _drawn(self) -> _Sequence:
        """The next request; the first ones cut, so that they end one by one."""
        cache = self.cache
        prompt, output = self._length(cache.prompt), self._length(cache.output)
        if (cache.spread > 0 or cache.apart) and self.begun < self._places:
            output = self._even(1, output)
        return _Sequence(prompt, output - 1, output)

    def _length(self, mean: int) -> int:
        if not self.cache.spread:
            return mean
        most = round(mean * self.cache.longest)
        return self._even(max(1, int(most * (1 - self.cache.spread))), most)

    def _even(self, least: int, most: int) -> int:
        """A number drawn evenly, the same ones in every replay: the generator of Park and Miller
        (1988), "Random number generators: good ones are hard to find".
        """
        self._seed = self._seed * 16_807 % _PRIME
        return least + self._seed * (most - least + 1) // _PRIME

    def _until_next(self) -> int:
        """Steps until one ends or must go."""
        while self._ending[0][2] not in self.running:
            heapq.heappop(self._ending)
        ends = self._ending[0][0] - self.now
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
        while self._ending and self._ending[0][0] <= self.now:
            ends, _, last = heapq.heappop(self._ending)
            if last in self.running:
                del self.running[last]
                self.held -= last.kv + last.steps
                self._ends -= ends
                self.done += 1
