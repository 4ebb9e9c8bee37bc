"""Products with their sum over 8 ranks as one kernel, as published, beside the ideal one's price.

The rows of docs/measured/fused-sums.csv: ``depth`` of all ranks, milliseconds of one kernel and of
one after another.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from builders.markup import table
from builders.planned import question_of
from planner.num import as_float
from planner.plan.assemble import step_load
from planner.plan.prepare import prepare
from planner.plan.solve import solve_ideal, solve_step
from planner.spec.load import load_text
from planner.spec.question import Question

CASES = Path(__file__).resolve().parents[1] / "measured" / "fused-sums.csv"
RANKS = 8
_MODEL = """\
kind: model
name: product
title: A product whose rows ranks sum up
dims: {{hidden: {features}}}
sequence: [{{block: look-up}}, {{block: product, times: 2}}]
blocks:
  look-up:
    name: look-up
    inputs: {{ids: [tokens]}}
    nodes:
      embed: {{op: embedding, in: ids, out: x, rows: 1024, features: {features}}}
    outputs: [x]
  product:
    name: product
    inputs: {{x: [tokens, {features}]}}
    nodes:
      up: {{op: linear, in: x, out: h, features: {depth}, shard: column}}
      act: {{op: relu, in: h, out: a}}
      down: {{op: linear, in: a, out: y, features: {features}, shard: row}}
    outputs: [y]
"""


@dataclass(frozen=True)
class Case:
    """One published pair of times, and what both are here, in milliseconds."""

    cells: dict[str, str]
    fused_ms: float
    apart_ms: float

    @property
    def ratio(self) -> float:
        """Of one kernel to one after another, here."""
        return self.fused_ms / self.apart_ms

    @property
    def measured(self) -> float:
        """The same as published."""
        return float(self.cells["fused_ms"]) / float(self.cells["apart_ms"])


@cache
def cases() -> tuple[Case, ...]:
    """Every published pair, priced."""
    with CASES.open(newline="") as file:
        return tuple(_case(row) for row in csv.DictReader(file))


def _case(cells: dict[str, str]) -> Case:
    times = _times(_question(cells))
    apart = times[frozenset({"down"})] + times[frozenset({"down.all_reduce"})]
    return Case(cells, times[frozenset({"down", "down.all_reduce"})], apart)


def _question(cells: dict[str, str]) -> Question:
    """A prompt of a model of such products."""
    sizes = {"features": cells["features"], "depth": cells["depth"]}
    spec = load_text(_MODEL.format(**sizes), "product.yaml", "model")
    asked = question_of(
        f"model: llama-3.1-70b-instruct, gpu: {cells['gpu']}, parallel: {{tensor: {RANKS}}}, "
        f"backend: {{name: vllm}}, step: {{prefill: {{batch: 1, tokens: {cells['tokens']}}}}}"
    )
    return replace(asked, model=spec, blocks=spec.blocks)


def _times(question: Question) -> dict[frozenset[str], float]:
    """Milliseconds of every group of a block, as a node of a graph."""
    solved = solve_step(prepare(question), step_load(question.deployment))
    solve_ideal(solved)
    problem = solved.solver.problem("ideal", solved.decision.mode)
    found = {}
    for number, slot in enumerate(problem.layout.slots):
        priced, nodes = problem.priced(number), frozenset(name for _, name in slot.group.nodes)
        floor_s = priced.floor_s(solved.fixed, in_graph=True)
        if len(slot.kinds) == 1:
            found[nodes] = 1e3 * float(as_float(priced.estimate.core_s + floor_s))
    return found


def listed() -> str:
    """Every published pair beside what it takes here."""
    header = ("GEMM with all-reduce, 8 ranks", "tokens", "fused / apart", "here")
    return table(header, _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    for case in cases():
        cells = case.cells
        shape = f"(tokens, {cells['features']}, {int(cells['depth']) // RANKS})"
        yield (
            f"[{cells['what']}, {shape}]({cells['source']})",
            cells["tokens"],
            _pair(float(cells["fused_ms"]), float(cells["apart_ms"])),
            _pair(case.fused_ms, case.apart_ms),
        )


def _pair(fused_ms: float, apart_ms: float) -> str:
    return f"{fused_ms:.3f} / {apart_ms:.3f} ms = {fused_ms / apart_ms:.2f}"


PARTS = {"listed": listed}
