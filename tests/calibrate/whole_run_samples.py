"""Made-up steps of known parts, and figures measured on a machine of known overheads."""

from __future__ import annotations

import numpy as np

from planner.calibrate.overheads import SIGMA, Figures
from planner.calibrate.steps import StepParts
from planner.cost.adjust import FAMILIES

GEMM, ATTENTION, ELEMENTWISE, COLLECTIVE = range(4)
assert FAMILIES[:4] == ("gemm", "attention", "elementwise", "collective")


def step(work_s, *, sequences=1, collectives=0, rest_s=0.0, slope=1.0, bare=0.0):
    """A step of so much work by family, and ``rest_s`` of everything else."""
    work = np.array(work_s, dtype=float)
    return StepParts(
        "decode",
        float(work.sum()) + rest_s,
        sequences,
        collectives,
        slope,
        work,
        work * bare,
        np.arange(len(work)),
    )


def figures(steps, measured_s=None, sigma=SIGMA):
    """Each step as one figure of one plan, measured as planned unless told."""
    planned = np.array([each.time_s for each in steps])
    count = len(steps)
    return Figures(
        tuple(steps),
        np.eye(count),
        planned if measured_s is None else np.array(measured_s),
        np.full(count, sigma),
        np.ones(count),
        np.arange(count),
    )


def varied(rng, count, *, tensor=False):
    """Steps as batch, context and model size would make them: 1 to 40 ms, 1 to 128 sequences."""
    found = []
    for _ in range(count):
        whole = 10 ** rng.uniform(-3, -1.4)
        attention = whole * rng.uniform(0.05, 0.4)
        work = [whole - attention, attention, 0.05 * whole]
        collectives = 0
        if tensor and rng.random() < 0.5:
            collectives = int(rng.integers(20, 160))
            work.append(collectives * 8e-6)
        found.append(
            step(
                work,
                sequences=int(2 ** rng.integers(0, 8)),
                collectives=collectives,
                rest_s=0.1 * whole,
                bare=0.6,
            )
        )
    return found


def ran(steps, truth, rng=None, noise=0.03):
    """The figures of a machine whose parameters are ``truth``, by name and in their own units."""
    from planner.calibrate.overheads import SCALES, is_overhead

    terms = tuple(truth)
    z = np.array(
        [
            value / SCALES[name] if is_overhead(name) else np.log(value) / SCALES[name]
            for name, value in truth.items()
        ]
    )
    planned = figures(steps)
    real, _ = planned.predict(terms, z)
    if rng is not None:
        real = real * np.exp(rng.normal(0, noise, len(steps)))
    return figures(steps, real)
