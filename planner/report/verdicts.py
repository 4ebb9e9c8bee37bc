"""Recorded runs, verdicts, baselines and history, as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from planner import units
from planner.plan.runs import UNITS
from planner.plan.verdict import Judgement, Verdict
from planner.report.cells import DASH, bullets, facts, heading, rate, small, table, words
from planner.report.trend import trends_view

VERDICT_STYLES = {
    "pass": "green",
    "improve": "green",
    "regress": "red",
    "incomparable": "yellow",
    "too_few_samples": "yellow",
}
"""Colour beside the word, never instead of it."""
_SLOWER = "ratio: how many times slower; above 1 is worse."


def recorded_view(
    runs: Sequence[Mapping[str, Any]], plan: str, kernels: Sequence[Sequence[str]]
) -> RenderableType:
    """What `planner record` kept; ``kernels`` is what each run's kernels say, in sentences."""
    parts: list[RenderableType] = []
    for run, said in zip(runs, kernels, strict=True):
        kept = "recorded" if run["new"] else "already known"
        parts.append(heading(f"run {run['run_id']}: {kept}, plan {run['plan_id']} ({plan})"))
        parts.append(words(f"{run['source']['tool']}, {run['source']['format']}"))
        parts.append(
            facts(
                (f"{each['statistic']} {each['name']}", figure(each["name"], each["value"]))
                for each in run["metrics"]
            )
        )
        parts.append(bullets([*run["notes"], *said]))
    return Group(*parts)


def verdict_view(run_id: str | None, verdict: Verdict) -> RenderableType:
    """What `planner accept` found; of a run by its id, where that is known."""
    who = "this run" if run_id is None else f"run {run_id}"
    return Group(
        Text.assemble(
            words(f"{who} against {verdict.against}: "),
            words(_said(verdict.verdict), f"bold {VERDICT_STYLES[verdict.verdict]}"),
        ),
        words(verdict.reason),
        *(_judgements(verdict.judgements) if verdict.judgements else ()),
        *(part for other in verdict.others for part in _other(other)),
    )


def baselines_view(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Baselines, as `planner baseline list` and `show` print them."""
    if not rows:
        return small("no baseline; `planner baseline set NAME RUN` makes one")
    headers = ("name", "run", "set (UTC)", "by", "id", "supersedes")
    found = table(headers, left=range(6), whole=(1, 4, 5))
    for row in rows:
        found.add_row(
            words(row["name"]),
            words(row["run_id"]),
            f"{row['set_at']:%Y-%m-%d %H:%M}",
            words(row["set_by"]),
            words(row["baseline_id"]),
            words(row["supersedes"] or DASH),
        )
    return found


def history_view(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Predicted and measured over time, as `planner history` prints them."""
    if not rows:
        return small("no recorded run matches; `planner record PLAN FILE` keeps one")
    headers = ("recorded (UTC)", "run", "plan", "figure", "predicted", "measured", "ratio")
    found = table((*headers, "baseline"), left=(0, 1, 2, 3, 7), whole=(1, 2))
    for row in rows:
        name, predicted = row["metric"], row["predicted"]
        found.add_row(
            f"{row['recorded_at']:%Y-%m-%d %H:%M}",
            words(row["run_id"]),
            words(row["plan_id"] or DASH),
            words(f"{row['statistic']} {name}"),
            DASH if predicted is None else figure(name, predicted),
            figure(name, row["measured"]),
            DASH if row["ratio"] is None else f"{row['ratio']:.2f}",
            words(row["baseline"] or DASH),
        )
    return Group(found, small(_SLOWER), trends_view(rows))


def figure(metric: str, value: float) -> str:
    """A figure with its unit."""
    return units.show_seconds(value) if UNITS[metric] == "s" else f"{rate(value)} tokens/s"


def _said(verdict: str) -> str:
    return verdict.replace("_", " ")


def _other(verdict: Verdict) -> tuple[RenderableType, ...]:
    said = f"against {verdict.against}: {_said(verdict.verdict)}"
    return heading(said), words(verdict.reason), *_other_rows(verdict)


def _other_rows(verdict: Verdict) -> tuple[RenderableType, ...]:
    return _judgements(verdict.judgements) if verdict.judgements else ()


def _judgements(rows: Sequence[Judgement]) -> tuple[RenderableType, ...]:
    headers = ("figure", "measured", "reference", "ratio", "interval", "p", "verdict")
    found = table(headers, left=(0, 6))
    for row in rows:
        found.add_row(
            words(f"{row.statistic} {row.metric}"),
            figure(row.metric, row.measured),
            figure(row.metric, row.reference),
            f"{row.ratio:.2f}",
            DASH if row.interval is None else f"{row.interval[0]:.2f} to {row.interval[1]:.2f}",
            DASH if row.p_value is None else f"{row.p_value:.2g}",
            words(_said(row.verdict), VERDICT_STYLES[row.verdict]),
        )
    return found, small(_SLOWER)
