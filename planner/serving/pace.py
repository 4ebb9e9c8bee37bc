"""The time between tokens as a reader sees it: from one step that moves a sequence to the next."""

from __future__ import annotations

from planner.serving.replica import Step


class Pace:
    """When the sequences of a server had their last token.

    Those that decode all had it at the end of the last step that decoded; those whose prompt ended
    since, at the end of that prompt. Where drafts are accepted a step hands out several at once.
    """

    def __init__(self) -> None:
        self._decoded_s = 0.0
        self._begun: list[tuple[float, int]] = []

    def gaps(self, step: Step, now_s: float) -> tuple[tuple[float, int], ...]:
        """Waits that end with a step which is over now, and for how many sequences each."""
        found: list[tuple[float, int]] = []
        if step.decoding:
            first_s = now_s - (step.repeats - 1) * step.took.wall_s
            found = [*self._waited(step.decoding, first_s)]
            if step.repeats > 1:
                found.append((step.took.wall_s, step.decoding * (step.repeats - 1)))
            self._decoded_s, self._begun = now_s, []
        begun = sum(not seq.todo for seq, _ in step.chunks)
        if begun:
            self._begun.append((now_s, begun))
        return tuple(found)

    def _waited(self, decoding: int, now_s: float) -> list[tuple[float, int]]:
        found, older = [], decoding
        for since_s, begun in self._begun:
            count = min(begun, older)
            older -= count
            found.append((now_s - since_s, count))
        return [each for each in (*found, (now_s - self._decoded_s, older)) if each[1]]
