"""Measured kernels of a run against the kernels of its plan, and which of them is off by most.

With the order of a step every launch is laid along the plan's kernels (``alignment``), so that
GEMMs of one name are told apart. Without it a name counts for every kernel that its calls a step
leave possible, and kernels that names and counts cannot tell apart are one row (``kernel_groups``).
Either way time decides nothing: a miss must not hide itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from planner.errors import UsageError
from planner.plan.alignment import Expected, Launches, align
from planner.plan.kernel_groups import Group, groups, steps_by_plan
from planner.plan.kernel_names import FittingNames
from planner.plan.kernel_rows import matched_row
from planner.plan.matched import KernelMatch, MatchedRow, Placed, Unmatched
from planner.plan.runs import KernelStep, Run
from planner.plan.types import Plan


def match(run: Run, plan: Plan) -> KernelMatch:
    """Lay a run's kernels along its plan's.

    Raises UsageError for a run without kernels, and where not even the plan's counts tell steps.
    """
    if not run.kernels:
        hint = "record a trace: of the PyTorch profiler, or nsys"
        raise UsageError("the run holds no kernels", hint)
    traced = run.traced
    if traced and traced.sequence and plan.order:
        return _ordered(run, plan, traced.sequence)
    return _unordered(run, plan)


def _ordered(run: Run, plan: Plan, sequence: Sequence[KernelStep]) -> KernelMatch:
    assert run.traced is not None
    places = _places(plan)
    assigned = _assigned(sequence, plan, [kernel for kernel, _ in places])
    placed = tuple(
        Placed(one.name, one.time_s, *((None, None) if at is None else places[at]))
        for one, at in zip(sequence, assigned, strict=True)
    )
    of_kernel: dict[int, list[Placed]] = defaultdict(list)
    for one in placed:
        if one.kernel is not None:
            of_kernel[one.kernel].append(one)
    rows = [
        matched_row(
            plan,
            (kernel,),
            _longest_first((one.name, one.time_s) for one in some),
            found=float(len({one.occurrence for one in some})),
            launches=float(len(some)),
            measured_s=sum(one.time_s for one in some),
        )
        for kernel, some in of_kernel.items()
    ]
    left = [one for one in placed if one.kernel is None]
    kernels_s = sum(one.time_s for one in sequence)
    return _whole(
        run,
        plan,
        rows,
        _unmatched(((one.name, 1.0, one.time_s) for one in left), kernels_s),
        steps=(run.traced.alike, run.traced.found_by),
        busy=(float(len(sequence)), kernels_s, run.traced.busy_s or kernels_s),
        sequence=placed,
    )


def _places(plan: Plan) -> list[tuple[int, int]]:
    """Kernel and occurrence at each place of the step; what launches nothing is left out."""
    occurrences: Counter[int] = Counter()
    found = []
    for run in plan.order:
        for kernel in run.kernels * run.times:
            if plan.kernels[kernel].launches:
                found.append((kernel, occurrences[kernel]))
                occurrences[kernel] += 1
    return found


def _assigned(
    sequence: Sequence[KernelStep], plan: Plan, places: Sequence[int]
) -> list[int | None]:
    fitting = FittingNames([one.name for one in sequence], plan.kernels)
    expected = [
        Expected(fitting.column(kernel), plan.kernels[kernel].launches) for kernel in places
    ]
    launches = Launches(
        fitting.numbers, np.array(fitting.table, bool), np.array(fitting.late, bool)
    )
    return align(launches, expected)


def _unordered(run: Run, plan: Plan) -> KernelMatch:
    fitting = FittingNames([kernel.name for kernel in run.kernels], plan.kernels)
    counted = steps_by_plan(run, plan.kernels, fitting)
    if counted is None:
        hint = "is it the plan of what was traced? `planner record` keeps a file for another plan"
        raise UsageError("no kernel of the plan is in the run, so its steps cannot be told", hint)
    steps, by = counted
    found, left = groups(run.kernels, plan.kernels, fitting, steps)
    kernels_s = sum(kernel.total_s for kernel in run.kernels) / steps
    calls = sum(kernel.calls for kernel in run.kernels) / steps
    notes: tuple[str, ...] = ()
    if run.traced and run.traced.sequence:
        notes = ("the plan was stored without its order; plan it again to tell kernels apart",)
    return _whole(
        run,
        plan,
        [_of_group(plan, group, steps) for group in found],
        _unmatched(((one.name, one.calls / steps, one.total_s / steps) for one in left), kernels_s),
        steps=(steps, by),
        busy=(calls, kernels_s, kernels_s),
        notes=notes,
    )


def _of_group(plan: Plan, group: Group, steps: int) -> MatchedRow:
    calls = sum(one.calls for one in group.names) / steps
    alone = plan.kernels[group.kernels[0]] if len(group.kernels) == 1 else None
    found = None
    if alone:
        most = max(one.calls for one in group.names) / steps
        # what takes several launches may have one name for them all, or a name for each
        found = most if alone.launches == 1 else min(most, float(alone.repeat))
    return matched_row(
        plan,
        group.kernels,
        _longest_first((one.name, one.total_s) for one in group.names),
        found=found,
        launches=calls,
        measured_s=sum(one.total_s for one in group.names) / steps,
    )


def _longest_first(names: Iterable[tuple[str, float]]) -> tuple[str, ...]:
    total: dict[str, float] = defaultdict(float)
    for name, time_s in names:
        total[name] += time_s
    return tuple(sorted(total, key=lambda name: (-total[name], name)))


def _unmatched(
    found: Iterable[tuple[str, float, float]], kernels_s: float
) -> tuple[Unmatched, ...]:
    launches: dict[str, float] = defaultdict(float)
    time_s: dict[str, float] = defaultdict(float)
    for name, count, seconds in found:
        launches[name] += count
        time_s[name] += seconds
    rows = (
        Unmatched(name, launches[name], time_s[name], time_s[name] / kernels_s) for name in launches
    )
    return tuple(sorted(rows, key=lambda row: (-row.time_s, row.name)))


def _of_part(rows: Sequence[MatchedRow]) -> Iterator[str]:
    """A note, where most of the time planned is of kernels that ran less than half as often."""
    planned_s = sum(row.predicted_s for row in rows)
    rare = [row for row in rows if row.found is not None and 2 * row.found < row.planned]
    if rare and 2 * sum(row.predicted_s for row in rare) > planned_s:
        worst = max(rare, key=lambda row: row.predicted_s)
        yield (
            f"{worst.nodes[0]} ran {worst.found:g} times a step where {worst.planned} are planned: "
            "is it another model, or a part of it?"
        )


def _missing(plan: Plan, rows: Iterable[MatchedRow]) -> Iterator[MatchedRow]:
    found = {kernel for row in rows for kernel in row.kernels}
    for kernel, row in enumerate(plan.kernels):
        if row.launches and kernel not in found:
            yield matched_row(plan, (kernel,), ())


def _whole(
    run: Run,
    plan: Plan,
    rows: Sequence[MatchedRow],
    unmatched: tuple[Unmatched, ...],
    *,
    steps: tuple[int, str],
    busy: tuple[float, float, float],
    sequence: tuple[Placed, ...] = (),
    notes: tuple[str, ...] = (),
) -> KernelMatch:
    launches, kernels_s, busy_s = busy
    step_s = _step_s(run)
    matched_s = sum(row.measured_s for row in rows)
    return KernelMatch(
        bool(sequence),
        *steps,
        launches,
        sum(row.repeat * row.launches for row in plan.kernels),
        step_s,
        busy_s,
        None if step_s is None else step_s - busy_s,
        plan.step.time_s,
        sum(row.repeat * row.time_s for row in plan.kernels),
        kernels_s,
        matched_s,
        matched_s / kernels_s if kernels_s else 0.0,
        tuple(sorted(rows, key=lambda row: (-abs(row.difference_s), row.kernels))),
        unmatched,
        tuple(sorted(_missing(plan, rows), key=lambda row: (-row.predicted_s, row.kernels))),
        sequence,
        (*notes, *_of_part(rows)),
    )


def _step_s(run: Run) -> float | None:
    if run.traced and run.traced.wall_s is not None:
        return run.traced.wall_s
    known = {metric.statistic: metric.value for metric in run.metrics if metric.name == "step"}
    return known.get("median", known.get("mean"))
