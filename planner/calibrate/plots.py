"""Residual plots: what the models leave over, by predicted time, for a person to look at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibrate.aiconfigurator import INSTALL
from planner.calibrate.validate import Held
from planner.errors import UsageError

MOST_POINTS = 400
"""Points drawn of one cell; more are one black cloud."""


def plot_residuals(held: Sequence[Held], folder: Path, *, seed: int = 0) -> tuple[Path, ...]:
    """One PNG per family and variant, a panel per GPU and engine, into ``folder``.

    Raises UsageError when Altair or vl-convert is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def key(one: Held) -> tuple[str, str]:
        return one.family, one.variant

    for (family, variant), members in itertools.groupby(sorted(held, key=key), key):
        path = folder / f"residuals-{family}-{variant}.png"
        points = [point for one in members for point in _points(one, seed)]
        _chart(f"{family} {variant}", points).save(str(path), format="png")
        written.append(path)
    return tuple(written)


def _points(one: Held, seed: int) -> Iterator[dict[str, Any]]:
    order = np.random.default_rng(seed).permutation(len(one.measured_s))[:MOST_POINTS]
    predicted_s, measured_s = one.predicted_s[order], one.measured_s[order]
    for predicted, ratio in zip(predicted_s, measured_s / predicted_s, strict=True):
        yield {
            "gpu": one.gpu,
            "engine": one.engine,
            "predicted_us": float(predicted) * 1e6,
            "log_ratio": float(np.log(ratio)),
        }


def _chart(title: str, points: list[dict[str, Any]]) -> Any:
    try:
        import altair as alt
        import vl_convert  # noqa: F401 - what saves PNG; Altair finds it by itself
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", INSTALL) from None
    base = alt.Chart(alt.InlineData(values=points)).transform_calculate(zero="0")
    dots = base.mark_circle(size=6, opacity=0.35).encode(
        x=alt.X("predicted_us:Q", scale=alt.Scale(type="log"), title="predicted, us"),
        y=alt.Y(
            "log_ratio:Q",
            scale=alt.Scale(domain=[-0.8, 0.8], clamp=True),
            title="log(measured / predicted)",
        ),
    )
    line = base.mark_rule(color="black").encode(y="zero:Q")
    panels = alt.layer(dots, line).properties(width=190, height=120)
    return panels.facet(row="gpu:N", column="engine:N").properties(title=title)
