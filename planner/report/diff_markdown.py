"""Two plans as Markdown, for a comment on a pull request. GitHub renders it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from planner.plan.diff import PlanDiff
from planner.report.cells import clean
from planner.report.diff import figure_rows, flip_words, part_rows, verdict
from planner.report.markdown import piece_markdown
from planner.report.pieces import Bullets, Grid, Line


def diff_markdown(change: PlanDiff) -> str:
    """The verdict, what was asked differently, and what follows; bounds that flip are folded."""
    return "\n\n".join(_parts(change)) + "\n"


def _parts(change: PlanDiff) -> Iterator[str]:
    yield piece_markdown(Line(clean(verdict(change)), "strong"))
    if not all(change.fits):
        yield "**It does not fit.**" if not change.fits[1] else "It did not fit, and now does."
    if change.result_only:
        yield "The question is the same, the answer is not: planner's own model has changed."
    elif not change.parts:
        yield "Both answer the same question with the same result."
        return
    yield _table(("what differs", "before", "after"), part_rows(change))
    yield _table(("a step", "before", "after", "before ÷ after"), figure_rows(change))
    if change.flips:
        listed = piece_markdown(Bullets(tuple(clean(flip_words(flip)) for flip in change.flips)))
        title = f"Kernels bound by something else: {len(change.flips)}"
        yield f"<details><summary>{title}</summary>\n\n{listed}\n\n</details>"


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    right = tuple(False for _ in headers)
    return piece_markdown(Grid(tuple(headers), right, tuple(tuple(map(clean, r)) for r in rows)))
