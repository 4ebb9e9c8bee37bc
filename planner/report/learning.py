"""What whole runs teach, as `planner calibrate from-runs` prints it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from planner.plan.runs import UNITS
from planner.report.cells import DASH, bullets, facts, heading, rate, small, table, words
from planner.units import show_seconds

_WORDS = {
    "host.step": "time of each step that nothing hides",
    "host.sequence": "the same for each sequence",
    "host.collective": "time of each collective beyond its constants",
    "efficiency.all": "work of all kernels over the model's",
}
_ABOUT = (
    "before, left out, after: measured over predicted as time, above 1 is slower; by the plan, "
    "from the other plans' runs alone, and with what was learnt."
)


def learning_view(document: Mapping[str, Any]) -> RenderableType:
    """Runs before and after, what was learnt of each GPU and engine, what could not be."""
    parts: list[RenderableType] = []
    for each in document["learnt"]:
        parts += _learnt(each)
    for each in document["lacking"]:
        place = f"{each['gpu']} under {each['backend']}"
        parts.append(words(f"{place}: too few plans with runs ({each['plans']}). {each['hint']}"))
    if document["skipped"]:
        parts.append(heading("Runs that say nothing of their plans"))
        parts.append(bullets(f"{s['run_id']}: {s['reason']}" for s in document["skipped"]))
    return Group(*parts)


def _learnt(each: Mapping[str, Any]) -> list[RenderableType]:
    errors = each["errors"]
    said = (
        f"median error {_off(errors['before'])} before, {_off(errors['left_out'])} on runs left "
        f"out, {_off(errors['after'])} after"
    )
    parts: list[RenderableType] = [
        heading(f"{each['gpu']} under {each['backend']}: {len(each['runs'])} plans with runs"),
        _runs(each["runs"]),
        small(_ABOUT),
        words(""),
        words(said, "bold"),
        words(f"chosen: {' + '.join(each['terms']) or 'the plan as it is'}; {each['reason']}"),
    ]
    if each["parameters"]:
        parts.append(_parameters(each["parameters"]))
    interval = each["interval"]
    low, high = (math.expm1(interval[name]) for name in ("q10", "q90"))
    parts.append(small(f"80 % interval of a step from these runs: {low:+.1%} to {high:+.1%}"))
    written = f"written to {each['file']}" if each["file"] else "not written (dry run)"
    parts.append(words(f"{each['calibration']}: {written}"))
    return parts


def _off(log: float) -> str:
    return f"{math.expm1(log):.1%}"


def _runs(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    headers = ("plan", "load", "figure", "predicted", "measured", "before", "left out", "after")
    found = table(headers, left=(0, 1, 2), whole=(0,))
    for row in rows:
        count = len(row["run_ids"])
        found.add_row(
            words(row["plan_id"]),
            words(row["load"] if count == 1 else f"{row['load']} ({count} runs)"),
            words(row["metric"]),
            _figure(row["metric"], row["predicted"]),
            _figure(row["metric"], row["measured"]),
            *(f"{row[name]:.2f}" for name in ("before", "left_out", "after")),
        )
    return found


def _figure(metric: str, value: float) -> str:
    return show_seconds(value) if UNITS[metric] == "s" else rate(value)


def _parameters(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    return facts((row["name"], _parameter(row)) for row in rows)


def _parameter(row: Mapping[str, Any]) -> str:
    name = row["name"]
    values = (row[key] for key in ("value", "low", "high"))
    show = show_seconds if name.startswith("host.") else "{:.3f}".format
    value, low, high = map(show, values)
    family = name.rpartition(".")[2]
    about = _WORDS.get(name, f"work of {family} kernels over the model's")
    return f"{value}  ({low} to {high} at 80 %): {about}" if value else DASH
