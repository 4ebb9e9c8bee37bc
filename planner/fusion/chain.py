"""Blocks joined end to end: transfer matrices, their powers, and the way back to the kernels.

A matrix holds, for each boundary state at the start and at the end, the labels of all paths that
may be needed. Labels form a semiring (choose, join), so a run of equal blocks is a power of its
matrix, computed by repeated squaring; labels remember what they were joined from, so the chosen
chain is read back from the last one.
"""

from __future__ import annotations

from planner.fusion.objective import Label, Objective
from planner.fusion.types import SearchTooLarge

Row = dict[int, list[Label]]
"""By boundary state reached, the labels of the paths to it."""

Matrix = dict[int, Row]
"""By boundary state begun in, the row of labels."""

Path = tuple[str, tuple[int, ...]]
"""A kind of block and the payloads of its kernels in order."""

MAX_LABELS = 1_000_000


def advance(objective: Objective, row: Row, matrix: Matrix, name: str) -> Row:
    """The row after one more matrix. ``name`` tells where, should there be too many labels."""
    join = objective.join
    found: Row = {}
    for middle, heads in row.items():
        for out, tails in matrix.get(middle, {}).items():
            labels = found.setdefault(out, [])
            count = len(labels) + len(heads) * len(tails)
            if count > MAX_LABELS:
                raise SearchTooLarge(name, count, MAX_LABELS, "labels")
            labels += [join(head, tail) for head in heads for tail in tails]
    return {out: objective.prune(labels) for out, labels in found.items()}


def repeat(objective: Objective, row: Row, squares: list[Matrix], times: int, name: str) -> Row:
    """The row after ``times`` equal blocks.

    ``squares`` holds the matrix of one block and grows by those of 2, 4, 8 … blocks as needed.
    """
    for bit in range(times.bit_length()):
        if bit == len(squares):
            last = squares[-1]
            squares.append({s: advance(objective, r, last, name) for s, r in last.items()})
        if times >> bit & 1:
            row = advance(objective, row, squares[bit], name)
    return row


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
    return tuple(reversed(found))
