"""Overheads and efficiencies that make predicted figures of whole runs the measured ones.

A figure is Σ weight · (step as planned + slope · Σ (e_family − 1) · work + step + sequence · n
+ slope · collective · launches). Parameters are asked for their most probable values: each has a
prior centred on what is planned, so that few runs move few things, and little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from planner.calibrate.steps import Indices, StepParts
from planner.calibrate.types import Floats
from planner.cost.adjust import FAMILIES

RATIOS = tuple(f"efficiency.{family}" for family in FAMILIES)
"""One for each of `FAMILIES`."""
ALL = "efficiency.all"
STEP, SEQUENCE, COLLECTIVE = "host.step", "host.sequence", "host.collective"
SCALES: dict[str, float] = {
    **dict.fromkeys((ALL, *RATIOS), 0.15),
    STEP: 1e-3,
    SEQUENCE: 20e-6,
    COLLECTIVE: 5e-6,
}
"""One standard deviation of each prior, by where a parameter stands in a calibration.

Efficiencies are log-normal about 1: kernel models with constants of their own are 5 to 10 % off,
borrowed ones about 20 % (docs/accuracy.md). Overheads are half-normal from 0. Steps: vLLM of 2024
left 4 ms and more between decode steps (vllm-project/vllm issue 6854); its V1 engine runs a whole
step of Llama 3.2 1B in 2.7 ms (pull request 17866), which bounds what hosts add by 2 ms; half of
that is assumed. Sequences: 12.7 us a request was seen once (openfabric-systems/simllm pull request
204, whose authors do not vouch for it); 20 us is assumed. Collectives: what the smallest NCCL
all-reduce takes on H100 (catalog/calibrations/h100-sxm-nccl.yaml).
"""
SIGMA = 0.05
"""Standard deviation of log(measured / predicted) of a run that the model describes: what single
steps on GPUs with constants of their own were off (docs/decisions/0014)."""
_MOST_STEPS = 40
_SMALL = 1e-4
_HALVINGS = 12
_ROUNDING = 1e-12

Flags: TypeAlias = npt.NDArray[np.bool_]
Terms = tuple[str, ...]
"""Names of the parameters that are free."""


@dataclass(frozen=True, eq=False)
class Figures:
    """Measured figures with the steps they are made of."""

    steps: tuple[StepParts, ...]
    weights: Floats
    """How often each step counts in each figure."""
    measured_s: Floats
    sigma: Floats
    """Standard deviation of each figure's log."""
    share: Floats
    """How much each figure counts: those of one plan add up to 1."""
    group: Indices
    """Which plan each figure is of."""

    def predict(self, terms: Terms, z: Floats) -> tuple[Floats, Floats]:
        """Every figure in seconds, and its slopes, at parameters in units of their scales.

        The last axis of ``z`` is by term; those before it are kept.
        """
        times, slopes = self.times(terms, z)
        return times @ self.weights.T, np.einsum("fs,...sk->...fk", self.weights, slopes)

    def times(self, terms: Terms, z: Floats) -> tuple[Floats, Floats]:
        """Every step in seconds, and its slopes."""
        kernels = self._kernels
        ratios = np.exp(SCALES[ALL] * _raised(terms, z))
        stretched = kernels.work_s * ratios[..., kernels.family]
        moving = stretched > kernels.bare_s
        longer = np.where(moving, stretched, kernels.bare_s) - kernels.work_s
        slope = kernels.slope[:, None]
        grows = kernels.sums(np.where(moving, stretched, 0.0)) * slope * SCALES[ALL]
        times: Floats = kernels.time_s + (kernels.sums(longer) * slope).sum(axis=-1)
        slopes = np.zeros((*times.shape, len(terms)))
        for k, name in enumerate(terms):
            if is_overhead(name):
                slopes[..., k] = kernels.counts[name] * SCALES[name]
                times = times + slopes[..., k] * z[..., k, None]
            else:
                slopes[..., k] = grows[..., _columns(name, terms)].sum(axis=-1)
        return times, slopes

    def steps_of(self, rows: Indices) -> tuple[StepParts, ...]:
        """The steps that some figures are made of."""
        used = np.flatnonzero((self.weights[rows] > 0).any(axis=0))
        return tuple(self.steps[j] for j in used)

    @cached_property
    def _kernels(self) -> _Kernels:
        steps, families = self.steps, len(FAMILIES)
        of_step = np.repeat(np.arange(len(steps)), [len(step.work_s) for step in steps])
        family = np.concatenate([step.family for step in steps])
        order = np.argsort(of_step * families + family, kind="stable")
        pairs, starts = np.unique((of_step * families + family)[order], return_index=True)
        slope = np.array([step.slope for step in steps])
        return _Kernels(
            np.concatenate([step.work_s for step in steps])[order],
            np.concatenate([step.bare_s for step in steps])[order],
            family[order],
            pairs,
            starts,
            np.array([step.time_s for step in steps]),
            slope,
            {
                STEP: np.ones(len(steps)),
                SEQUENCE: np.array([float(step.sequences) for step in steps]),
                COLLECTIVE: slope * np.array([float(step.collectives) for step in steps]),
            },
        )


@dataclass(frozen=True, eq=False)
class _Kernels:
    """Kernels by step and family one after another, then what is known by step."""

    work_s: Floats
    bare_s: Floats
    family: Indices
    pairs: Indices
    """Step and family of each stretch of kernels, as one number."""
    starts: Indices
    time_s: Floats
    slope: Floats
    counts: Mapping[str, Floats]

    def sums(self, values: Floats) -> Floats:
        """Sums over kernels, by step and family."""
        shape = (*values.shape[:-1], len(self.time_s) * len(FAMILIES))
        found = np.zeros(shape)
        found[..., self.pairs] = np.add.reduceat(values, self.starts, axis=-1)
        return found.reshape(*shape[:-1], len(self.time_s), len(FAMILIES))


def _raised(terms: Terms, z: Floats) -> Floats:
    """What each family's efficiency is raised by, in units of its scale."""
    found = np.zeros((*z.shape[:-1], len(FAMILIES)))
    for k, name in enumerate(terms):
        if not is_overhead(name):
            found[..., _columns(name, terms)] = z[..., k, None]
    return found


def _columns(name: str, terms: Terms) -> list[int]:
    """The families that a ratio is of."""
    if name != ALL:
        return [RATIOS.index(name)]
    return [i for i, ratio in enumerate(RATIOS) if ratio not in terms]


@dataclass(frozen=True, eq=False)
class Solved:
    """The most probable parameters, in units of their scales."""

    terms: Terms
    z: Floats
    covariance: Floats

    def value(self, name: str, deviations: float = 0.0) -> float:
        """A parameter, or so many standard deviations from it: a ratio, or seconds."""
        k = self.terms.index(name)
        z = float(self.z[k]) + deviations * float(np.sqrt(self.covariance[k, k]))
        return max(0.0, SCALES[name] * z) if is_overhead(name) else float(np.exp(SCALES[name] * z))


def is_overhead(name: str) -> bool:
    """Whether a parameter is a time that is added, not a ratio."""
    return name in {STEP, SEQUENCE, COLLECTIVE}


def solve(figures: Figures, rows: Indices, terms: Terms) -> Solved:
    """The most probable parameters given some of the figures."""
    counted = np.isin(np.arange(len(figures.share)), rows)
    z, covariance = solve_all(figures, counted[None], terms)
    return Solved(terms, z[0], covariance[0])


def solve_all(figures: Figures, counted: Flags, terms: Terms) -> tuple[Floats, Floats]:
    """The most probable parameters and their covariance, for each choice of figures at once.

    Minimises Σ share · (√(1 + r²) − 1) + ½ Σ z², r = log(measured / predicted) / sigma, by
    Gauss-Newton steps: the loss is linear in what is far off, so that one bad run moves little.
    """
    share = figures.share * counted
    z = np.zeros((len(counted), len(terms)))
    bounded = np.array([is_overhead(name) for name in terms], dtype=bool)
    state = _at(figures, share, terms, z)
    for _ in range(_MOST_STEPS if terms else 0):
        loss, gradient, hessian = state
        held = bounded & (z <= 0) & (gradient >= 0)
        move = _newton(np.where(held, 0.0, gradient), hessian, held)
        for _ in range(_HALVINGS):
            tried = z + move
            tried[:, bounded] = np.maximum(tried[:, bounded], 0.0)
            state = _at(figures, share, terms, tried)
            worse = state[0] > loss + _ROUNDING
            if not worse.any():
                break
            move[worse] /= 2
        done = float(np.abs(tried - z).max()) < _SMALL
        z = tried
        if done:
            break
    return z, np.asarray(np.linalg.inv(state[2]))


def _newton(gradient: Floats, hessian: Floats, held: Flags) -> Floats:
    """The step to the lowest point of each quadratic, over the parameters that are not held."""
    either = held[:, :, None] | held[:, None, :]
    eye = np.eye(gradient.shape[1])
    solved = np.linalg.solve(np.where(either, eye, hessian), gradient[..., None])
    return np.asarray(-solved[..., 0])


def _at(figures: Figures, share: Floats, terms: Terms, z: Floats) -> tuple[Floats, Floats, Floats]:
    """Losses, gradients, and Gauss-Newton curvatures."""
    predicted, slopes = figures.predict(terms, z)
    r = np.log(figures.measured_s / predicted) / figures.sigma
    slopes = -slopes / (predicted * figures.sigma)[..., None]
    root = np.sqrt(1 + r**2)
    pull = share / root
    loss = (share * (root - 1)).sum(axis=-1) + (z**2).sum(axis=-1) / 2
    gradient = np.einsum("bf,bfk->bk", pull * r, slopes) + z
    hessian = np.einsum("bf,bfk,bfl->bkl", pull, slopes, slopes) + np.eye(len(terms))
    return loss, gradient, hessian


def residuals(figures: Figures, terms: Terms, z: Floats) -> Floats:
    """log(measured / predicted) of every figure."""
    predicted, _ = figures.predict(terms, z)
    return np.asarray(np.log(figures.measured_s / predicted))
