"""Plans' groupings beside TorchInductor's.

From docs/measured/inductor.json, which `make inductor` writes: torch is not installed where
documentation is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from builders.markup import code, table
from planner.report.inductor import SETS, disagreement_lines
from planner.units import show_bytes, show_seconds

FILE = Path(__file__).resolve().parents[1] / "measured" / "inductor.json"
_RULES = {"cpp": "C++ (CPU)", "triton": "Triton (as CUDA)"}


@cache
def _document() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(FILE.read_text())
    return document


def _scores(row: Mapping[str, Any]) -> tuple[str, ...]:
    fused = row["both"] + row["theirs"]
    figures = (row["precision"], row["recall"], row["f1"], row["groupings"]["f1"])
    return str(fused), *(f"{figure:.3f}" for figure in figures)


def sets() -> str:
    """Sums over models."""
    header = ("models", "rules", "count", "edges fused", "precision", "recall", "F1", "groupings")
    rows = _document()["sets"]
    return table(
        header,
        [
            (SETS[row["name"]], _RULES[row["rules"]], str(row["models"]), *_scores(row))
            for row in rows
        ],
    )


def models() -> str:
    """Each model under both rules."""
    header = ("model", "rules", "edges fused", "precision", "recall", "F1", "groupings",
              "kernels, plan", "kernels, Inductor", "of them calls", "of no node")  # fmt: skip
    rows = []
    for row in _document()["models"]:
        kernels = [str(row["kernels"][name]) for name in ("ours", "theirs", "calls", "of_no_node")]
        rows.append((_name(row), _RULES[row["rules"]], *_scores(row), *kernels))
    return table(header, rows)


def _name(row: Mapping[str, Any]) -> str:
    return code(row["model"]) + (" *" if row["apart"] else "")


def disagreements() -> str:
    """A sentence for each reason."""
    return "\n".join(f"- {line}" for line in disagreement_lines(_document()["models"]))


def worth() -> str:
    """Bytes of three groupings, and what ours saves."""
    header = ("model", "rules", "Inductor's", "plan's", "ideal", "plan saves")
    return table(header, [_worth(row) for row in _document()["models"]])


def _worth(row: Mapping[str, Any]) -> Sequence[str]:
    found = row["worth"]
    ideal = found["ideal_bytes"]
    return (
        _name(row),
        _RULES[row["rules"]],
        show_bytes(found["theirs_bytes"]),
        show_bytes(found["ours_bytes"]),
        "–" if ideal is None else show_bytes(ideal),
        show_seconds(found["saved_s"]),
    )


PARTS: dict[str, Callable[[], str]] = {
    "sets": sets,
    "models": models,
    "disagreements": disagreements,
    "worth": worth,
}
"""By the name of the part."""
