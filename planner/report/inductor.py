"""Tables of plans' groupings beside TorchInductor's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from planner.report.cells import DASH, bullets, heading, small, table, words
from planner.units import show_bytes, show_seconds

_ABOUT = (
    "An edge is fused where producer and consumer are in one kernel, also where that kernel "
    "computes the producer again. groupings: the same without what is computed twice. cpp: rules "
    "of C++ for CPUs, compiled and run; triton: those that CUDA takes, up to fusion."
)
SETS = {
    "settled": "rules were settled with these",
    "apart": "written afterwards",
    "all": "all",
}


def inductor_view(body: Mapping[str, Any]) -> RenderableType:
    """What `planner validate --source inductor` prints."""
    parts: list[RenderableType] = [_sets(body["sets"]), heading("models"), _models(body["models"])]
    lines = disagreement_lines(body["models"])
    parts += [heading("disagreements"), bullets(lines or ["none"])]
    parts += [heading("what groupings are worth"), _worth(body["models"])]
    return Group(*parts, small(_ABOUT))


def _sets(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = ("models", "rules", "count", "edges fused", "precision", "recall", "F1", "groupings")
    found = table(names, left=(0, 1))
    for row in rows:
        if row["models"]:
            found.add_row(words(SETS[row["name"]]), row["rules"], str(row["models"]), *_scores(row))
    return found


def _scores(row: Mapping[str, Any]) -> tuple[str, ...]:
    figures = (row["precision"], row["recall"], row["f1"], row["groupings"]["f1"])
    return str(row["both"] + row["theirs"]), *(f"{figure:.3f}" for figure in figures)


def _models(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = ("model", "rules", "edges fused", "precision", "recall", "F1", "groupings")
    found = table((*names, "kernels", "Inductor's"), left=(0, 1))
    for row in rows:
        kernels = (str(row["kernels"]["ours"]), str(row["kernels"]["theirs"]))
        found.add_row(words(row["model"]), row["rules"], *_scores(row), *kernels)
    return found


def disagreement_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each reason in each model: how many edges, whose, and which first."""
    lines = []
    for row in rows:
        grouped = Counter((each["by"], each["reason"]) for each in row["disagreements"])
        for (by, reason), count in grouped.items():
            first = next(e for e in row["disagreements"] if (e["by"], e["reason"]) == (by, reason))
            who = "the plan" if by == "ours" else "Inductor"
            lines.append(
                f"{row['model']} ({row['rules']}): {count} fused by {who} alone, as "
                f"{first['producer']} with {first['consumer']}: {reason}"
            )
    return lines


def _worth(rows: Sequence[Mapping[str, Any]]) -> Table:
    found = table(("model", "rules", "Inductor's", "ours", "ideal", "ours saves"), left=(0, 1))
    for row in rows:
        worth = row["worth"]
        ideal = worth["ideal_bytes"]
        found.add_row(
            words(row["model"]),
            row["rules"],
            show_bytes(worth["theirs_bytes"]),
            show_bytes(worth["ours_bytes"]),
            DASH if ideal is None else show_bytes(ideal),
            show_seconds(worth["saved_s"]),
        )
    return found
