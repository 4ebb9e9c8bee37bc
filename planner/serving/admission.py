"""When a request may start: how much KV must be free beside what running sequences may come to
need.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.scheduler import Admission

# SGLang, python/sglang/srt/environ.py: SGLANG_INIT_NEW_TOKEN_RATIO, _MIN_NEW_TOKEN_RATIO_FACTOR,
# _NEW_TOKEN_RATIO_DECAY_STEPS, _RETRACT_DECODE_STEPS
_FIRST = 0.7
_LEAST = 0.7 * 0.14
_DECAY = (_FIRST - _LEAST) / 600
_AHEAD = 20


@dataclass(eq=False)
class Expected:
    """The share of outputs still to come that an engine keeps KV for."""

    rule: Admission
    _estimate: float = _FIRST

    @property
    def of_running(self) -> float:
        """Of what running sequences have still to generate."""
        return {"prompt": 0.0, "estimate": self._estimate, "whole": 1.0}[self.rule]

    @property
    def of_new(self) -> float:
        """Of the whole output of a request that asks to start."""
        return 0.0 if self.rule == "prompt" else 1.0

    def decoded(self, steps: int) -> None:
        """So many decode steps went well: the estimate falls."""
        self._estimate = max(_LEAST, self._estimate - steps * _DECAY)

    def ran_out(self, generated: float, sequences: int, outputs: float) -> None:
        """KV ran out: the estimate becomes what was generated, and some steps, of all outputs."""
        if outputs:
            self._estimate = min(1.0, (generated + _AHEAD * sequences) / outputs)
