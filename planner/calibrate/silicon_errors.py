"""Errors of predicted serving measurements: of sets, of groups, of what each lint rule marks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from planner.calibrate.silicon import HALVES
from planner.calibrate.silicon_lint import RULES
from planner.calibrate.silicon_run import Figure, Predicted

KEYS: Mapping[str, Callable[[Predicted], str]] = {
    "model": lambda each: each.flagged.row.model.rpartition("/")[2],
    "system": lambda each: each.flagged.row.system,
    "engine": lambda each: each.flagged.row.engine,
    "version": lambda each: each.flagged.row.version or "unstated",
    "precision": lambda each: each.flagged.row.gemm or "bf16",
    "concurrency": lambda each: _band(each.flagged.row.concurrency),
    "lengths": lambda each: f"{each.flagged.row.input}/{each.flagged.row.output}",
    "gpus": lambda each: str(each.flagged.split.gpus),
    "source": lambda each: each.flagged.row.family,
    "limit": lambda each: each.limit or "refused",
    "half": lambda each: each.flagged.row.half,
}
"""What errors may be grouped by."""
BY = ("model", "system", "engine", "precision", "concurrency", "lengths")
"""By default one table for each of these."""
_BANDS = (4, 16, 64, 256)


@dataclass(frozen=True)
class FigureErrors:
    """Of |predicted / measured − 1| over some rows; bias is the median with its sign."""

    rows: int
    median: float | None
    mean: float | None
    bias: float | None
    inside: float | None
    """Share inside the 80 % interval, of those that have one."""


@dataclass(frozen=True)
class RowErrors:
    """A set of rows."""

    name: str
    rows: int
    predicted: int
    tpot: FigureErrors
    ttft: FigureErrors


@dataclass(frozen=True)
class RuleErrors:
    """What one lint rule marks, and what becomes of the figures without it."""

    rule: str
    says: str
    rows: int
    alone: int
    """Rows that no other rule marks."""
    marked: RowErrors
    rest: RowErrors
    """All rows but the marked ones."""


@dataclass(frozen=True)
class Refusal:
    """Rows that are not predicted."""

    reason: str
    rows: int
    example: str
    """The id of one."""


def errors(name: str, rows: Sequence[Predicted]) -> RowErrors:
    """Errors of some rows, of those that were predicted."""
    tpot = [each.tpot for each in rows if each.tpot]
    ttft = [each.ttft for each in rows if each.ttft]
    return RowErrors(name, len(rows), len(tpot), _of(tpot), _of(ttft))


def _of(figures: Sequence[Figure]) -> FigureErrors:
    if not figures:
        return FigureErrors(0, None, None, None, None)
    offs = [figure.off for figure in figures]
    sizes = [abs(off) for off in offs]
    known = [figure.inside for figure in figures if figure.inside is not None]
    inside = fmean(known) if known else None
    return FigureErrors(len(offs), median(sizes), fmean(sizes), median(offs), inside)


def sets(rows: Sequence[Predicted]) -> list[RowErrors]:
    """All rows, those without a mark, the clean ones; of each half by itself where there are both.

    Clean rows are those that `Flagged.clean` says, less what is impossible.
    """
    halves = [half for half in HALVES if any(each.flagged.row.half == half for each in rows)]
    parts = [("", rows)]
    if len(halves) > 1:
        parts += [(f", {half}", _half(rows, half)) for half in halves]
    return [
        errors(f"{name}{suffix}", kept)
        for suffix, part in parts
        for name, kept in (
            ("all", part),
            ("without marks", [each for each in part if not each.flagged.flags]),
            ("clean", [each for each in part if clean(each)]),
        )
    ]


def _half(rows: Iterable[Predicted], half: str) -> list[Predicted]:
    return [each for each in rows if each.flagged.row.half == half]


def clean(each: Predicted) -> bool:
    """Whether a row counts as clean, and nothing beats the roofline in it."""
    return each.flagged.clean and "impossible" not in each.flagged.flags


def by(rows: Sequence[Predicted], names: Sequence[str]) -> list[tuple[dict[str, str], RowErrors]]:
    """Errors of groups of like rows, in order of their values."""
    groups: dict[tuple[str, ...], list[Predicted]] = defaultdict(list)
    for each in rows:
        groups[tuple(KEYS[name](each) for name in names)].append(each)
    return [
        (dict(zip(names, values, strict=True)), errors(" ".join(values), groups[values]))
        for values in sorted(groups, key=_natural)
    ]


def rules(rows: Sequence[Predicted]) -> list[RuleErrors]:
    """Every rule with what it marks: none may take away more than it explains."""
    found = []
    for rule, says in RULES.items():
        marked = [each for each in rows if rule in each.flagged.flags]
        rest = [each for each in rows if rule not in each.flagged.flags]
        alone = sum(each.flagged.flags == (rule,) for each in marked)
        ends = errors(rule, marked), errors("rest", rest)
        found.append(RuleErrors(rule, says, len(marked), alone, *ends))
    return found


def refusals(rows: Sequence[Predicted]) -> list[Refusal]:
    """Why rows are not predicted, the most frequent reason first."""
    reasons = [(each.refused, each.flagged.row.id) for each in rows if each.refused]
    counted = Counter(reason for reason, _ in reasons)
    examples = dict(reversed(reasons))
    return [Refusal(reason, count, examples[reason]) for reason, count in counted.most_common()]


def _band(users: int) -> str:
    for low, high in zip((0, *_BANDS), _BANDS, strict=False):
        if users <= high:
            return f"{low + 1}-{high}"
    return f"over {_BANDS[-1]}"


def _natural(values: tuple[str, ...]) -> tuple[object, ...]:
    """Numbers by size, however many digits they have."""
    return tuple(
        (0, int(head), word) if (head := _head(word)).isdigit() else (1, 0, word) for word in values
    )


def _head(word: str) -> str:
    return word.partition("-")[0].partition("/")[0]
