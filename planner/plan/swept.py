"""The answers of a sweep: one line a row, whether it was planned by itself or with many others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from planner.capture.types import MODE_WORDS, MODES
from planner.cost.estimator import BOUNDS
from planner.plan.cases import Answer, Predicted
from planner.plan.sweep import Rows
from planner.plan.types import Plan
from planner.spec.types import DeploymentSpec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

RANKINGS: Mapping[str, bool] = {
    "tok_s_per_gpu": True,
    "tok_s": True,
    "step_ms": False,
    "tpot_ms": False,
    "ttft_ms": False,
    "latency_s": False,
    "usd_per_mtok": False,
}
"""Figures that rows may be ranked by, and whether more is better."""


@dataclass(frozen=True)
class Line:
    """What there is to say of one row."""

    predicted: Mapping[str, Predicted]
    """By the names of columns, without ``predicted.``."""
    fits: bool | None = None
    bound: str = ""
    mode: str = ""
    tok_s: float | None = None
    """Output tokens a second over all GPUs."""
    gpus: int = 1
    price_per_h: float | None = None
    """Of one GPU."""
    verdict: str | None = None
    ratio: float | None = None
    error: str | None = None

    @property
    def tok_s_per_gpu(self) -> float | None:
        """Output tokens a second and GPU."""
        return None if self.tok_s is None else self.tok_s / self.gpus

    @property
    def usd_per_mtok(self) -> float | None:
        """What a million output tokens cost."""
        if self.price_per_h is None or not self.tok_s:
            return None
        return self.price_per_h * self.gpus / 3600 / self.tok_s * 1e6

    def figure(self, name: str) -> float | None:
        """A figure of `RANKINGS`."""
        found = self.predicted.get(name)
        if found is not None:
            return float(found.value)
        value: float | None = getattr(self, name, None)
        return value

    def rank(self, name: str) -> tuple[bool, bool, float]:
        """Before another where less: what fits first, then by the figure, then the rest."""
        value = self.figure(name)
        if value is None:
            return True, True, 0.0
        return False, not self.fits, -value if RANKINGS[name] else value


def line_of(answer: Answer, deployment: DeploymentSpec) -> Line:
    """The line of a row that was planned by itself."""
    plan = answer.plan
    return Line(
        answer.predicted,
        answer.fits,
        answer.bound,
        plan.step.mode,
        _tok_s(plan, answer.predicted),
        deployment.parallel.gpus,
        deployment.price,
        answer.verdict,
        answer.ratio,
    )


def _tok_s(plan: Plan, predicted: Mapping[str, Predicted]) -> float | None:
    found = predicted.get("throughput_tok_s")
    if found is not None:
        return float(found.value)
    if plan.speculation is not None:
        return plan.speculation.output_tokens_per_s
    if plan.step.kind != "decode" or not plan.step.time_s:
        return None
    decode: Mapping[str, Any] = plan.deployment["step"]["decode"]
    return float(decode["batch"] / plan.step.time_s)


@dataclass(frozen=True, eq=False)
class Swept:
    """Loads of one deployment, answered together."""

    rows: Rows
    gpus: int
    price_per_h: float | None

    def line(self, place: int) -> Line:
        """One of them."""
        found = self.rows
        if place in found.wrong:
            return Line({}, error=found.wrong[place])
        figures = {name: _at(each, place) for name, each in found.figures.items()}
        return Line(
            {name: each for name, each in figures.items() if each is not None},
            bool(found.missing_bytes[place] == 0),
            BOUNDS[int(found.steps.bound[place])],
            MODE_WORDS[MODES[int(found.steps.mode[place])]],
            _known(found.tok_s[place]),
            self.gpus,
            self.price_per_h,
        )

    @property
    def fitting(self) -> int:
        """Rows that fit."""
        return int(self.rows.fits.sum()) - sum(bool(self.rows.fits[n]) for n in self.rows.wrong)

    def best(self, name: str, count: int) -> list[int]:
        """The places that `Line.rank` puts first, as many as asked for; none that is wrong."""
        import numpy as np

        value = self._figure(name)
        order = np.lexsort((-value if RANKINGS[name] else value, ~self.rows.fits, np.isnan(value)))
        right = (int(place) for place in order if int(place) not in self.rows.wrong)
        return list(islice(right, count))

    def _figure(self, name: str) -> Array:
        """As `Line.figure`, NaN for none."""
        found = self.rows.figures.get(name)
        if found is not None:
            value: Array = found.value
            return value
        value = self.rows.tok_s / (self.gpus if name == "tok_s_per_gpu" else 1)
        if name != "usd_per_mtok":
            return value if name.startswith("tok_s") else value * math.nan
        return (math.nan if self.price_per_h is None else self.price_per_h) / value


def _at(figure: Predicted, place: int) -> Predicted | None:
    """One row's figure; None where it has none."""
    value, low, high = (
        None if each is None else _known(each[place])
        for each in (figure.value, figure.low, figure.high)
    )
    return None if value is None else Predicted(value, low, high, None)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
