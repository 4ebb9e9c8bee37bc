"""Blocks joined end to end: transfer matrices, their powers, and the way back to the kernels.

A matrix holds, for each boundary state at the start and at the end, the labels of all paths that
may be needed. Labels form a semiring (choose, join), so a run of equal blocks is a power of its
matrix, computed by repeated squaring; labels remember what they were joined from, so the chosen
chain is read back from the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from planner.fusion.explore import Space
from planner.fusion.objective import Additive, Label, Objective, Way
from planner.fusion.types import NoSchedule, Pair, SearchTooLarge
from planner.records import dataclass

Row = dict[int, list[Label]]
"""By boundary state reached, the labels of the paths to it."""

Matrix = dict[int, Row]
"""By boundary state begun in, the row of labels."""

Path = tuple[str, tuple[int, ...]]
"""A kind of block and the payloads of its kernels in order."""


@dataclass(frozen=True)
class Stretch:
    """Equal blocks in a row."""

    name: str
    """Of its window, for messages."""
    start: int
    """How many blocks lie before it."""
    times: int
    matrix: Matrix
    """Of one block."""


Keep = Callable[[int, int, list[Label]], list[Label]]
"""Of labels of paths from the beginning over so many blocks to a boundary state those that a
schedule may need, as it needs them there: none that another beats."""


@dataclass(frozen=True)
class Chain:
    """How to join blocks: under which objective, with how many labels at a time, keeping which."""

    objective: Objective
    max_labels: int
    keep: Keep | None = None

    def run(self, stretches: list[Stretch]) -> Row:
        """The labels of whole schedules.

        Raises NoSchedule when a block cannot be completed, SearchTooLarge when one join would make
        more than ``max_labels`` labels.
        """
        row: Row = {0: [self.objective.identity]}
        for stretch in stretches:
            row = self._walk(row, stretch) if self.keep else self._repeat(row, stretch)
            if not row:
                raise NoSchedule(f"fusion: the kernels given cannot complete {stretch.name}")
        return row

    def _repeat(self, row: Row, stretch: Stretch) -> Row:
        """The row after all blocks of the stretch: a product with some of the powers 1, 2, 4 …"""
        power, blocks = stretch.matrix, 1
        while True:
            if stretch.times & blocks:
                row = self._advance(row, power, stretch.name)
            blocks *= 2
            if blocks > stretch.times:
                return row
            power = {s: self._advance(r, power, stretch.name) for s, r in power.items()}

    def _walk(self, row: Row, stretch: Stretch) -> Row:
        """The same block by block: of a path from the model's beginning is known what it costs at
        least in the end, of a power of the matrix only what the best place for it costs. Where
        labels are many, so few are left that powers take ten times as long.
        """
        assert self.keep
        for done in range(stretch.start + 1, stretch.start + stretch.times + 1):
            found = self._joined(row, stretch.matrix, stretch.name)
            kept = {out: self.keep(done, out, each) for out, each in found.items()}
            row = {out: labels for out, labels in kept.items() if labels}
        return row

    def _advance(self, row: Row, matrix: Matrix, name: str) -> Row:
        """The row after one more matrix."""
        if isinstance(self.objective, Additive):
            return _least(row, matrix, self.objective)
        return self._pruned(self._joined(row, matrix, name))

    def _joined(self, row: Row, matrix: Matrix, name: str) -> Row:
        join = self.objective.join
        found: Row = {}
        for middle, heads in row.items():
            for out, tails in matrix.get(middle, {}).items():
                labels = found.setdefault(out, [])
                count = len(labels) + len(heads) * len(tails)
                if count > self.max_labels:
                    raise SearchTooLarge(name, count, self.max_labels, "labels")
                labels += [join(head, tail) for head in heads for tail in tails]
        return found

    def _pruned(self, row: Row) -> Row:
        return {out: self.objective.prune(labels) for out, labels in row.items() if labels}


def _least(row: Row, matrix: Matrix, objective: Additive) -> Row:
    """As `Chain._advance` where each entry is one label: only the least of each is joined."""
    found: dict[int, tuple[int, Label, Label]] = {}
    for middle, (head,) in row.items():
        for out, (tail,) in matrix.get(middle, {}).items():
            cost = head[0] + tail[0]
            if out not in found or cost < found[out][0]:
                found[out] = cost, head, tail
    return {out: [objective.join(head, tail)] for out, (_, head, tail) in found.items()}


def beside(one: Matrix, other: Matrix) -> Matrix:
    """The labels of both."""
    return {
        state: {
            out: [*one[state].get(out, []), *other[state].get(out, [])]
            for out in one[state].keys() | other[state].keys()
        }
        for state in one
    }


def stretches_of(
    passes: Sequence[tuple[Pair, int]], space: Space, matrices: Mapping[Pair, Matrix]
) -> list[Stretch]:
    """The passes of a problem with the matrices of their windows."""
    found: list[Stretch] = []
    start = 0
    for pair, times in passes:
        found.append(Stretch(space.windows[pair].name, start, times, matrices[pair]))
        start += times
    return found


def paths(label: Label) -> list[tuple[Path, int]]:
    """The blocks of a whole schedule as runs of equal paths.

    A block's own label has the kind of block in the place of the first of the two it is made from.
    """
    spine: list[Label] = []
    while label[-1] is not None:
        spine.append(label[-1])
        label = label[-2]
    runs: list[tuple[Path, int]] = []
    known: dict[int, list[tuple[Path, int]]] = {}
    for part in reversed(spine):
        _extend(runs, _power_runs(part, known))
    return runs


def _power_runs(label: Label, known: dict[int, list[tuple[Path, int]]]) -> list[tuple[Path, int]]:
    """The runs below a label of a power: a balanced tree whose halves are often the same label."""
    if id(label) in known:
        return known[id(label)]
    first, second = label[-2:]
    if isinstance(first, str):
        runs = [((first, _kernels(second)), 1)]
    else:
        runs = list(_power_runs(first, known))
        _extend(runs, _power_runs(second, known))
    known[id(label)] = runs
    return runs


def _extend(runs: list[tuple[Path, int]], more: list[tuple[Path, int]]) -> None:
    """Append, merging where the neighbours are equal."""
    for path, times in more:
        if runs and runs[-1][0] == path:
            runs[-1] = (path, runs[-1][1] + times)
        else:
            runs.append((path, times))


def _kernels(label: Label) -> tuple[int, ...]:
    found: list[int] = []
    while label[-1] is not None:
        found.append(label[-1][-2])
        label = label[-2]
    several = label[-2].payloads if isinstance(label[-2], Way) else ()
    return (*several, *reversed(found))
