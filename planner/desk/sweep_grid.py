"""The rows of a sweep over a grid: one deployment file with some of its fields varied."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from planner.desk.cases import faults_line
from planner.desk.sweep_rows import Row
from planner.desk.sweep_tasks import Executor, Task
from planner.errors import SpecError, UsageError
from planner.plan.swept import Line, Swept
from planner.spec.axes import Axis, axes
from planner.spec.overrides import OVER
from planner.spec.sizes import MOST, Sizes, sizes_in, sizes_of, whole_size
from planner.spec.types import DeploymentSpec

PIECE = 131_072
"""Rows that are answered together."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Neighbouring rows with their answer, made into rows when they are asked for."""

    first: int
    """Rows before it."""
    cells: Mapping[str, str]
    """What its rows share, by path."""
    sizes: Mapping[str, Any]
    """Arrays of what they do not."""
    count: int
    answer: Swept | Line

    def row(self, place: int) -> Row:
        """One of its rows."""
        own = {path: str(int(values[place])) for path, values in self.sizes.items()}
        line = self.answer if isinstance(self.answer, Line) else self.answer.line(place)
        return Row(str(self.first + place + 1), {**self.cells, **own}, line)


@dataclass(frozen=True, eq=False)
class Grid:
    """A deployment over axes. Sizes of the load vary fastest."""

    load: Callable[[Sequence[str]], DeploymentSpec]
    """The deployment with ``--set`` texts applied."""
    sets: tuple[str, ...]
    axes: tuple[Axis, ...]

    @property
    def count(self) -> int:
        """Rows."""
        return math.prod(len(axis.values) for axis in self.axes)

    def pieces(self, executor: Executor, done: int = 0) -> Iterator[Piece]:
        """The rows after the first ``done``, answered, in order.

        Raises SpecError for a file that is wrong without any axis.
        """
        asked: deque[tuple[int, Mapping[str, str], Mapping[str, Any], int]] = deque()

        def tasks() -> Iterator[Task]:
            for first, cells, sizes, count, task in self._tasks():
                if first + count > done:
                    skip = max(0, done - first)
                    left = {path: values[skip:] for path, values in sizes.items()}
                    asked.append((first + skip, cells, left, count - skip))
                    yield _after(task, skip)

        for answer in executor.answers(tasks()):
            yield Piece(*asked.popleft(), answer)

    @cached_property
    def _sizes(self) -> tuple[Axis, ...]:
        """Axes of sizes of the load, where all their values are whole numbers."""
        return tuple(
            axis
            for axis in self.axes
            if axis.path in MOST and all(whole_size(value, axis.path) for value in axis.values)
        )

    def _tasks(
        self,
    ) -> Iterator[tuple[int, Mapping[str, str], Mapping[str, Any], int, Task]]:
        """Rows before it, what its rows share, what they do not, their count, and the task."""
        load = self.load
        own_gpu = load(self.sets).gpu
        slow = [axis for axis in self.axes if axis not in self._sizes]
        first = 0
        for values in product(*(axis.values for axis in slow)):
            cells = {axis.path: value for axis, value in zip(slow, values, strict=True)}
            sets = [axis.setting(value) for axis, value in zip(slow, values, strict=True)]
            if cells.get("gpu", own_gpu) != own_gpu:
                sets.insert(0, "price=null")
            for sizes in self._cuts():
                count = len(next(iter(sizes.values()), (0,)))
                for task, at in self._of(load, sets, sizes, count):
                    inner = {path: array[at] for path, array in sizes.items()}
                    rows = len(next(iter(inner.values()), (0,)))
                    yield first, cells, inner, rows, task
                    first += rows

    def _cuts(self) -> Iterator[dict[str, Any]]:
        """All sizes of the load, in pieces."""
        import numpy as np

        lists = {axis.path: np.array([int(v) for v in axis.values]) for axis in self._sizes}
        count = math.prod(len(values) for values in lists.values())
        for start in range(0, count, PIECE):
            place = np.arange(start, min(start + PIECE, count))
            found = {}
            for path in reversed(lists):
                found[path] = lists[path][place % len(lists[path])]
                place = place // len(lists[path])
            yield {path: found[path] for path in lists}

    def _of(
        self, load: Any, sets: list[str], sizes: Mapping[str, Any], count: int
    ) -> Iterator[tuple[Task, slice]]:
        """The tasks of rows that share all but sizes, and which rows they are."""
        found = self._loaded(load, sets, sizes, 0)
        kind = sizes_of(found) if isinstance(found, DeploymentSpec) else None
        if isinstance(found, DeploymentSpec) and kind and sizes.keys() <= set(kind.paths):
            yield Task(found, _sized(found, kind, sizes, count)), slice(None)
            return
        if isinstance(found, Task):
            yield found, slice(None)
            return
        for place in range(count):
            one = self._loaded(load, sets, sizes, place)
            task = one if isinstance(one, Task) else Task(one)
            yield task, slice(place, place + 1)

    def _loaded(
        self, load: Any, sets: list[str], sizes: Mapping[str, Any], place: int
    ) -> DeploymentSpec | Task:
        """The deployment of a row, or a task that says what is wrong with it."""
        own = [f"{OVER}{path}={values[place]}" for path, values in sizes.items()]
        try:
            deployment: DeploymentSpec = load([*self.sets, *sets, *own])
        except SpecError as error:
            return Task(None, error=faults_line(error.faults))
        return deployment


def grid_of(
    load: Callable[[Sequence[str]], DeploymentSpec], sets: tuple[str, ...], overs: Sequence[str]
) -> Grid:
    """The grid of ``--over`` texts. Raises UsageError where there are none or they are wrong."""
    found = axes(overs, load(sets))
    if not found:
        raise UsageError("a sweep of a FILE needs --over", "as in --over batch=1:512")
    return Grid(load, sets, found)


def _after(task: Task, skip: int) -> Task:
    """The task without its first rows."""
    if task.sizes is None or not skip:
        return task
    return Task(task.deployment, tuple(each[skip:] for each in task.sizes))


def _sized(
    deployment: DeploymentSpec, kind: Sizes, given: Mapping[str, Any], count: int
) -> tuple[Any, ...]:
    """The sizes of so many rows: those given, else the deployment's own."""
    import numpy as np

    own = zip(kind.paths, sizes_in(deployment, kind), strict=True)
    return tuple(given.get(path, np.full(count, size)) for path, size in own)
