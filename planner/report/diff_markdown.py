"""Two plans as Markdown, for a comment on a pull request. GitHub renders it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from planner.plan.diff import PlanDiff
from planner.report.cells import clean
from planner.report.diff import figure_rows, flip_words, part_rows, verdict

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#@])")
"""What Markdown or GitHub might obey in the names of users."""


def diff_markdown(change: PlanDiff) -> str:
    """The verdict, what was asked differently, and what follows; bounds that flip are folded."""
    return "\n\n".join(_parts(change)) + "\n"


def _parts(change: PlanDiff) -> Iterator[str]:
    yield f"**{_escaped(verdict(change))}**"
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
        listed = "\n".join(f"- {_escaped(flip_words(flip))}" for flip in change.flips)
        title = f"Kernels bound by something else: {len(change.flips)}"
        yield f"<details><summary>{title}</summary>\n\n{listed}\n\n</details>"


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(headers), _row(["---"] * len(headers))]
    lines += [_row(map(_escaped, row)) for row in rows]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", clean(text)).replace("\n", " ")
