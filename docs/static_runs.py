"""Static batches that others measured, beside plans: ``python docs/static_runs.py``.

Plans every row of docs/measured/static-runs.csv, writes errors alone to docs/measured/static.json.
Mistakes are looked for in the rows whose id has an even SHA-1; odd ones are never broken down.
"""

# ruff: noqa: INP001 - a script beside the page it makes
from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from planner.calibrate.from_runs import learn, with_calibration  # noqa: E402 - of this checkout
from planner.calibrate.whole_runs import Recorded, base_question  # noqa: E402
from planner.plan.cases import Answer, answer, run_of  # noqa: E402
from planner.plan.expected import expected  # noqa: E402
from planner.serving.plan import plan_question  # noqa: E402
from planner.spec.cases import Case, open_cases  # noqa: E402
from planner.spec.catalog import Catalog  # noqa: E402
from planner.spec.question import ask  # noqa: E402
from planner.spec.types import CalibrationSpec  # noqa: E402

FILE, OUT = (ROOT / "docs" / "measured" / name for name in ("static-runs.csv", "static.json"))
DRAWS, DRAWN = 5, 10
"""How often runs are drawn to learn from, and how many each time."""
FIGURE = "latency_s"
MARKS = {
    "impossible": "faster than the bare roofline: something else was measured",
    "does-not-fit": "the plan has no room for the KV cache of the whole batch: the engine ran it in"
    " parts, which a static batch leaves out",
    "alike": "TensorRT-LLM's script gives every sequence the same prompt, so that routers choose"
    " the same experts for all; a plan takes every expert to be as likely",
}
"""What may be wrong with a row, by rule."""
KEYS = ("gpu", "engine", "tp", "model", "batch", "input")


@dataclass(frozen=True, eq=False)
class Row:
    """A measured batch and its plan."""

    case: Case
    answer: Answer
    marks: tuple[str, ...]

    @property
    def even(self) -> bool:
        """Whether it may be studied."""
        return int(sha1(self.case.id.encode(), usedforsecurity=False).hexdigest(), 16) % 2 == 0

    @property
    def measured_s(self) -> float:
        """What was measured."""
        return self.case.measured[FIGURE]

    @property
    def cell(self) -> tuple[str, str]:
        """Its GPU and engine."""
        return self.answer.plan.gpu, self.answer.plan.backend

    def drawn(self, draw: int) -> str:
        """Where it stands in the order of a draw."""
        return sha1(f"{draw}:{self.case.id}".encode(), usedforsecurity=False).hexdigest()


def rows(catalog: Catalog) -> tuple[Row, ...]:
    """Every row, planned."""
    with open_cases(FILE) as table:
        return tuple(_row(case, catalog) for case in table.cases)


def _row(case: Case, catalog: Catalog) -> Row:
    assert case.deployment is not None, case.faults
    plan = plan_question(ask(case.deployment, catalog))
    found = answer(plan, case.measured)
    routed = any(node.op == "moe" for node in plan.nodes)
    same = routed and plan.backend == "tensorrt-llm" and case.cells["batch"] != "1"
    holds = {"impossible": found.impossible, "does-not-fit": not found.fits, "alike": same}
    return Row(case, found, tuple(name for name in MARKS if holds[name]))


def errors(pairs: Iterable[tuple[float, float]]) -> dict[str, Any]:
    """Of pairs of a prediction and its measurement."""
    found = [predicted / measured - 1 for predicted, measured in pairs]
    if not found:
        return {"rows": 0}
    sizes = [abs(error) for error in found]
    return {
        "rows": len(found),
        "median": median(sizes),
        "mean": fmean(sizes),
        "bias": median(found),
    }


def _unfitted(among: Iterable[Row]) -> dict[str, Any]:
    kept = [(row, row.answer.predicted[FIGURE]) for row in among]
    ends = [(each.low, row.measured_s, each.high) for row, each in kept]
    inside = [low <= measured <= high for low, measured, high in ends if low and high]
    return {
        **errors((each.value, row.measured_s) for row, each in kept),
        "inside": fmean(inside) if inside else None,
        "roofline": errors((each.bare, row.measured_s) for row, each in kept if each.bare),
    }


def sets(found: Sequence[Row]) -> list[dict[str, Any]]:
    """All rows and those without a mark, of both halves and of each."""
    kinds: dict[str, Callable[[Row], bool]] = {
        "all": lambda _: True,
        "without marks": lambda row: not row.marks,
    }
    halves: dict[str, Callable[[Row], bool]] = {
        "": lambda _: True,
        ", even": lambda row: row.even,
        ", odd": lambda row: not row.even,
    }
    return [
        {"name": kind + half, **_unfitted(row for row in found if kinds[kind](row) and is_in(row))}
        for (half, is_in), kind in product(halves.items(), kinds)
    ]


def broken_down(found: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """Even rows without a mark, by one column and another."""
    studied = [row for row in found if row.even and not row.marks]
    return {
        key: [{"name": name, **_unfitted(group)} for name, group in _grouped(studied, key)]
        for key in KEYS
    }


def _grouped(among: Iterable[Row], key: str) -> Iterator[tuple[str, list[Row]]]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in among:
        groups[row.case.cells[key]].append(row)
    yield from sorted(groups.items(), key=lambda item: (len(item[0]), item[0]))


def marked(found: Sequence[Row]) -> list[dict[str, Any]]:
    """What each rule marks."""
    return [
        {
            "rule": rule,
            "says": says,
            "rows": sum(rule in row.marks for row in found),
            "errors": _unfitted(row for row in found if rule in row.marks),
        }
        for rule, says in MARKS.items()
    ]


def learnt(found: Sequence[Row], catalog: Catalog) -> list[dict[str, Any]]:
    """Ten even rows of a GPU and engine learnt from, the rest of them predicted, five times."""
    cells: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        if not row.marks:
            cells[row.cell].append(row)
    return [
        {"gpu": gpu, "engine": engine, "draws": [_draw(own, k, catalog) for k in range(DRAWS)]}
        for (gpu, engine), own in sorted(cells.items())
    ]


def _draw(own: Sequence[Row], draw: int, catalog: Catalog) -> dict[str, Any]:
    taken = sorted((row for row in own if row.even), key=lambda row: row.drawn(draw))[:DRAWN]
    rest = [row for row in own if row not in taken]
    runs = [
        Recorded(row.case.id, row.answer.plan, run_of(row.case.measured, row.answer.plan), "")
        for row in taken
    ]
    learning = learn(runs, catalog, date="2026-11-30", script="")
    (one,) = learning.learnt
    after = {row: _predicted(row, one.calibration, catalog) for row in rest}
    halves = {"rest": rest, "odd": [row for row in rest if not row.even]}
    return {
        "terms": list(one.terms),
        "skipped": len(learning.skipped),
        "parameters": {each.name: each.value for each in one.parameters},
        **{
            name: {
                "before": errors(
                    (row.answer.predicted[FIGURE].value, row.measured_s) for row in of
                ),
                "after": errors((after[row], row.measured_s) for row in of),
            }
            for name, of in halves.items()
        },
    }


def _predicted(row: Row, spec: CalibrationSpec, catalog: Catalog) -> float:
    question = with_calibration(base_question(row.answer.plan, catalog), spec)
    figures: Mapping[str, float] = {e.metric: e.value for e in expected(plan_question(question))}
    return figures["latency"]


def main() -> None:
    """Write the figures."""
    catalog = Catalog.standard()
    found = rows(catalog)
    document = {
        "rows": len(found),
        "sets": sets(found),
        "marks": marked(found),
        "by": broken_down(found),
        "learnt": learnt(found, catalog),
    }
    OUT.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
