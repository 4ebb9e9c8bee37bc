"""The time between tokens as a reader sees it: from one step that moves a sequence to the next."""

from __future__ import annotations

from collections.abc import Collection

from planner.serving.replica import Step
from planner.serving.requests import Request


class Pace:
    """When the sequences of a server had their last token.

    Those that decode all had it at the end of the last step that decoded; those whose prompt ended
    since, at the end of that prompt. Where drafts are accepted a step hands out several at once.
    Not counted are waits across an eviction or from one pool to another.
    """

    def __init__(self) -> None:
        self._decoded_s, self._going_on = 0.0, 0
        self._begun: list[tuple[float, int]] = []

    def gaps(
        self, step: Step, left: Collection[Request], now_s: float
    ) -> tuple[tuple[float, int], ...]:
        """Waits that end with a step which is over now, and for how many sequences each.

        ``left`` are the requests that ended with it.
        """
        prompts = {seq.request.number for seq, _ in step.chunks}
        ended = sum(request.number not in prompts for request in left)
        found: list[tuple[float, int]] = []
        if step.decoding:
            first_s = now_s - (step.repeats - 1) * step.took.wall_s
            found = self._waited(first_s)
            found.append((step.took.wall_s, step.decoding * (step.repeats - 1)))
            self._decoded_s, self._going_on = now_s, step.decoding - ended
            self._begun = []
        begun = sum(not seq.todo for seq, _ in step.chunks) - (len(left) - ended)
        self._begun.append((now_s, begun))
        return tuple(each for each in found if each[1] > 0)

    def _waited(self, now_s: float) -> list[tuple[float, int]]:
        new = [(now_s - since_s, count) for since_s, count in self._begun]
        return [*new, (now_s - self._decoded_s, self._going_on)]
