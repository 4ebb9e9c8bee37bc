"""``planner calibrate from-runs``: a calibration of one's own from whole runs, on top of others.

What is learnt is used on what is planned without it, and written for one GPU and engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from planner.calibrate.choice import LEAST, Choice, choose
from planner.calibrate.learnt import (
    Errors,
    Lacking,
    Learning,
    Learnt,
    LearntRun,
    Parameter,
    Tried,
)
from planner.calibrate.overheads import Solved
from planner.calibrate.runs_file import TENTH, calibration
from planner.calibrate.types import Floats
from planner.calibrate.whole_runs import Measured, Recorded, figures, gather
from planner.plan.expected import cost, expected
from planner.plan.load import step_load
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.question import Measured as Lender
from planner.spec.question import Question
from planner.spec.types import CalibrationSpec


def learn(recorded: Iterable[Recorded], catalog: Catalog, *, date: str, script: str) -> Learning:
    """What recorded runs teach of each GPU and engine; ``script`` may name {gpu} and {engine}."""
    cells, skipped = gather(recorded, catalog)
    learnt, lacking = [], []
    for (gpu, backend), measured in sorted(cells.items()):
        if len(measured) < LEAST:
            lacking.append(Lacking(gpu, backend, len(measured), what_next(measured)))
            continue
        line = script.format(gpu=gpu, engine=backend)
        learnt.append(_learn(gpu, backend, measured, date=date, script=line))
    return Learning(tuple(learnt), tuple(lacking), tuple(skipped))


def what_next(measured: Sequence[Measured]) -> str:
    """Which runs would tell most beside those there are."""
    seen: dict[str, set[int]] = {"batch": set(), "context": set(), "parallel.tensor": set()}
    for each in measured:
        deployment = each.question.deployment
        longest = max((int(g.kv_tokens) for g in step_load(deployment).load.groups), default=0)
        seen["batch"].add(each.plan.step.sequences or 0)
        seen["context"].add(longest)
        seen["parallel.tensor"].add(deployment.parallel.tensor)
    alike = [f"another {name}" for name, values in seen.items() if len(values) <= 1]
    wanted = ", ".join(alike) or "another model"
    lacking = LEAST - len(measured)
    return f"record runs of {lacking} more plan{'s' if lacking > 1 else ''} or so: {wanted}"


def _learn(
    gpu: str, backend: str, measured: Sequence[Measured], *, date: str, script: str
) -> Learnt:
    data = figures(measured)
    choice = choose(data)
    spec = calibration(gpu, backend, measured, data, choice, date=date, script=script)
    runs = _runs(measured, choice, spec)
    after = np.array([math.log(run.after) for run in runs])
    return Learnt(
        gpu,
        backend,
        choice.solved.terms,
        choice.reason,
        _parameters(choice.solved),
        runs,
        Errors(_middle(choice.before), _middle(choice.left_out), _middle(after)),
        tuple(Tried(each.terms, each.score) for each in choice.scored),
        spec,
    )


def _middle(logs: Floats) -> float:
    return float(np.median(np.abs(logs)))


def _parameters(solved: Solved) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(name, *(solved.value(name, d) for d in (0.0, -TENTH, TENTH)))
        for name in solved.terms
    )


def _runs(
    measured: Sequence[Measured], choice: Choice, spec: CalibrationSpec
) -> tuple[LearntRun, ...]:
    found = []
    for each, before, left_out in zip(measured, choice.before, choice.left_out, strict=True):
        metric = next(iter(each.ratios))
        planned = {e.metric: e.value for e in expected(each.plan)}
        again = {
            e.metric: e.value
            for e in expected(plan_question(with_calibration(each.question, spec)))
        }
        moved = sum(
            math.log(cost(m, again[m]) / cost(m, planned[m])) / len(each.ratios)
            for m in each.ratios
        )
        found.append(
            LearntRun(
                each.plan.plan_id,
                each.plan.name,
                f"{each.plan.model.name}, {each.plan.described['workload']}",
                tuple(run.run_id for run in each.recorded),
                metric,
                each.value(metric),
                planned[metric],
                math.exp(before),
                math.exp(left_out),
                math.exp(before - moved),
            )
        )
    return tuple(found)


def with_calibration(question: Question, spec: CalibrationSpec) -> Question:
    """A question with a calibration of its GPU and engine before the others."""
    lender = Lender(spec, question.gpu.architecture, question.gpu.capability)
    return replace(question, calibrations=(lender, *question.calibrations))
