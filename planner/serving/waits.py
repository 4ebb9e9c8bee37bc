"""How long prompts wait for each other where users drift apart, in steps that hold prompts."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Queue:
    """The prompts of users, one of whom asks how many come before its own."""

    others: int
    """Users beside that one."""
    arriving: float
    """Prompts that come during a decode step."""
    share: float
    """What a prompt takes of a step's room for prompts: a third where three fit, two where it takes
    two steps.
    """
    away: float
    """Steps from the one in which a user's prompt begins to its next prompt."""

    def ahead(self, *, mixed: bool) -> float:
        """Steps with prompts before those of a prompt that arrives."""
        return self._behind if mixed else self._before

    @property
    def _behind(self) -> float:
        """Where every step serves prompts and decodes beside them, users come back after so many
        steps, however many of them hold prompts.

        A prompt finds on average what others alone would have found (Sevcik and Mitrani 1981, "The
        distribution of queuing network states at input and output instants"), and half of the one
        that is served is left: w = others · share · (w + share / 2) / (away + w). Where few come
        this is the wait of Pollaczek and Khinchine; where every step is full, each user beyond
        those adds ``share``.
        """
        lag = self.away / self.share - self.others
        return self.share * (math.sqrt(lag**2 + 2 * self.others) - lag) / 2

    @property
    def _before(self) -> float:
        """Where prompts go first nobody ends while any is left: only those wait for each other that
        come during one decode step, each for half of them on average.
        """
        return max(0.0, self.arriving * self.share - max(0.0, 1 - self.share)) / 2

    def gathered_s(self, steps: Steps) -> float:
        """How much longer than a mean step and one with prompts a prompt waits, since others share
        its own step. Users come back as steps end; those of an open loop also as time passes.
        """
        found_s = steps.found_s(self.most) if steps.open else steps.mean_s
        came = self.arriving * (found_s / steps.gap_s if steps.open else 1)
        beside = max(0.0, 1 + min(came, self.most - 1) - steps.count)
        return (found_s - steps.mean_s) / 2 + steps.each_s * beside

    @property
    def most(self) -> float:
        """Prompts that fit a step: one at least."""
        return max(1.0, 1 / self.share)


@dataclass(frozen=True)
class Steps:
    """The steps that prompts come in. Times in seconds."""

    count: int
    """Prompts of a step that holds any."""
    prefills: float
    """Of such steps for each that decodes."""
    mean_s: float
    """Any step."""
    gap_s: float
    """Between two steps that decode."""
    each_s: float
    """What each prompt adds to a step."""
    open: bool
    """Whether prompts come as time passes, and not as steps end."""

    def found_s(self, most: float) -> float:
        """A step that a prompt finds as it comes in time: rather a long one.

        Steps that take up what came during the one before are a queue with a gate: of λ prompts a
        second, each of which adds m, lengths of mean C vary by m² λ C / (1 − (λ m)²) (Takagi 1986,
        "Analysis of polling systems"), and C + variance / C is found. They lie between a step
        without prompts and a full one of ``most``.
        """
        busy = self.prefills * self.count * self.each_s / self.gap_s
        variance = self.each_s * busy * self.mean_s / (1 - busy**2)
        return self.mean_s + min(variance, (self.each_s * most) ** 2 / 4) / self.mean_s
