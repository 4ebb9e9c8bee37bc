"""Tables of measured cases beside their predictions, as `planner validate FILE` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from planner.report.cells import DASH, bullets, heading, small, table, words
from planner.report.verdicts import VERDICT_STYLES

_ABOUT = (
    "ratio: measured / predicted, as time: above 1 is slower than predicted, of throughputs too; "
    "of a group its median. median, mean: of the error |predicted / measured - 1|. bias: its "
    "median with sign. in 80 %: share inside the predicted interval."
)
_ORDER = (
    "work: the same model and workload, with two ways to serve it or more. tau: Kendall's, 1 is "
    "the measured order, -1 its reverse. first: how often the best by prediction was the best. "
    "regret: how much worse than the best it was, mean and the worst tenth."
)
FIGURES = {
    "step_ms": "step ms",
    "ttft_ms": "ttft ms",
    "tpot_ms": "tpot ms",
    "latency_s": "latency s",
    "throughput_tok_s": "tok/s",
}
"""What the figures of columns are called."""
_TALLIES = ("rows", "figures", "ratio", "median", "mean", "bias", "in 80 %")


def cases_view(
    rows: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]],
    by: Sequence[str],
    ranking: Sequence[Mapping[str, Any]] = (),
) -> RenderableType:
    """Every figure, the errors by group, how well runs of the same work are ordered, and why rows
    were refused.
    """
    if not rows:
        return small("there is no row under the headings")
    parts: list[RenderableType] = [_figures(rows), heading("errors"), _groups(groups, by)]
    if ranking:
        parts += [heading("order of runs of the same work"), _ranking(ranking), small(_ORDER)]
    refused = [f"{row['id']}: {row['error'] or row['reason']}" for row in rows if row["refused"]]
    if refused:
        parts += [heading("refused"), bullets(refused)]
    tight = [row["id"] for row in rows if row["fits"] is False]
    if tight:
        parts += [heading("does not fit by its plan"), bullets(tight)]
    return Group(*parts, small(_ABOUT))


def _figures(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    headers = ("id", "engine", "GPU", "figure", "predicted", "80 %", "measured", "ratio", "verdict")
    found = table(headers, left=(0, 1, 2, 3, 8), whole=(3,))
    for row in rows:
        names = [words(row[name] or DASH) for name in ("id", "engine", "gpu")]
        for each in row["figures"]:
            found.add_row(*names, *_figure(each))
        if not row["figures"]:
            said = row["refused"] or "planned"
            found.add_row(*names, *[DASH] * 5, words(said, "yellow"))
    return found


def _figure(each: Mapping[str, Any]) -> Sequence[Any]:
    verdict = words(each["verdict"].replace("_", " "), VERDICT_STYLES[each["verdict"]])
    low, high = each["low"], each["high"]
    return (
        words(FIGURES[each["figure"]]),
        _number(each["predicted"]),
        DASH if low is None else f"{_number(low)}–{_number(high)}",
        _number(each["measured"]),
        DASH if each["ratio"] is None else f"{each['ratio']:.2f}",
        verdict,
    )


def _groups(groups: Sequence[Mapping[str, Any]], by: Sequence[str]) -> RenderableType:
    last = len(by) + len(_TALLIES)
    refused = any(group["refused"] for group in groups)
    headers = (*by, *_TALLIES, "refused") if refused else (*by, *_TALLIES)
    found = table(headers, left=(*range(len(by)), last))
    for group in groups:
        said = ", ".join(_refusals(why, count) for why, count in group["refused"].items())
        found.add_row(
            *(words(group["group"][name] or DASH) for name in by),
            f"{group['rows']:,}",
            f"{group['figures']:,}",
            DASH if group["median_ratio"] is None else f"{group['median_ratio']:.2f}",
            *(_percent(group[name]) for name in ("median", "mean")),
            _percent(group["bias"], sign="+"),
            _percent(group["inside"], digits=0),
            *([words(said or DASH)] if refused else []),
        )
    return found


def _refusals(why: str, count: int) -> str:
    return f"{count} {why}{'s' if why == 'error' and count > 1 else ''}"


def _ranking(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    found = table(("figure", "work", "runs", "tau", "first", "regret", "worst tenth"))
    for row in rows:
        found.add_row(
            words(FIGURES[row["figure"]]),
            f"{row['groups']:,}",
            f"{row['options']:,}",
            f"{row['tau']:.2f}",
            _percent(row["first"], digits=0),
            *(_percent(row[name]) for name in ("regret", "worst_tenth")),
        )
    return found


def _percent(value: float | None, sign: str = "", digits: int = 1) -> str:
    return DASH if value is None else f"{value:{sign}.{digits}%}"


def _number(value: float | None) -> str:
    """Four digits: figures stand under the unit of their column."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"  # noqa: PLR2004
