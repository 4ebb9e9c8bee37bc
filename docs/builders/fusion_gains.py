"""Published gains of fused kernels, and kernels a layer, beside what the planner says.

The rows of docs/measured/fusion-gains.csv and layer-kernels.csv. Made by `make fusion-gains`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from builders.markup import table
from builders.planned import catalog, linked, planned, question_of
from planner.capture.solve import SolvedRun
from planner.fusion.groups import RuleSet
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.solve import SolvedStep, solve_step
from planner.plan.types import KernelRow, Plan

FOLDER = Path(__file__).resolve().parents[1] / "measured"
GAINS, COUNTS = FOLDER / "fusion-gains.csv", FOLDER / "layer-kernels.csv"
WITHIN = 1.5
_BATCHES = (1, 4, 16, 64, 256)
_PROMPTS = (128, 512, 2048, 8192)
_LOADS: dict[str, tuple[str, ...]] = {
    "BATCH": tuple(map(str, _BATCHES)),
    "RATE": ("1", "5", "10"),
    "STEP": (
        *(f"{{decode: {{batch: {batch}, context: 600}}}}" for batch in _BATCHES),
        *(f"{{prefill: {{batch: 1, tokens: {tokens}}}}}" for tokens in _PROMPTS),
    ),
}
"""What stands for the loads of a row, and the loads: those its source states, or any."""
_ADA = "SM89"
"""What stands for a card of which its source says no more than the capability."""


@dataclass(frozen=True)
class Gain:
    """A published gain and the planner's."""

    cells: Mapping[str, str]
    figures: tuple[float, ...]
    """The planner's, for each load or card that the source leaves open."""

    @property
    def predicted(self) -> float:
        """The most over loads; the middle one over cards."""
        return median(self.figures) if self.cells["bound"] == "middle" else max(self.figures)

    @property
    def stated(self) -> float:
        """As its source says it."""
        return float(self.cells["stated"])

    @property
    def near(self) -> bool:
        """Whether the two are within the factor of each other, or both nothing."""
        low, high = sorted((self.predicted, self.stated))
        return low > 0 and high / low <= WITHIN


@cache
def gains() -> tuple[Gain, ...]:
    """Every published gain with the planner's figure."""
    with GAINS.open(encoding="utf-8", newline="") as stream:
        return tuple(Gain(row, _figures(row)) for row in csv.DictReader(stream))


def _figures(cells: Mapping[str, str]) -> tuple[float, ...]:
    """The planner's figure, for every load or card where the row has several."""
    text = cells["deployment"]
    words = {**_LOADS, _ADA: _cards(8.9)}
    word = next((word for word in words if word in text), "")
    if not word:
        return (_figure(text, cells),)
    return tuple(_figure(text.replace(word, one), cells) for one in words[word])


@cache
def _cards(capability: float) -> tuple[str, ...]:
    """Every GPU of the catalogue of a capability."""
    found = (catalog().find("gpu", name) for name in catalog().names("gpu"))
    return tuple(gpu.name for gpu in found if gpu.capability == capability)


def _figure(text: str, cells: Mapping[str, str]) -> float:
    kind, names = cells["figure"], cells["before"]
    if kind == "floor":
        return _floor_s(planned(text))
    if kind == "saved":
        return _saved_s(text, cells)
    if kind == "apart":
        saved_s, time_s = _apart(text, names)
        return saved_s / time_s
    if kind == "joined":
        saved_s, time_s = _joined(text, names)
        return saved_s / time_s
    return _gain(text, cells)


def _gain(text: str, cells: Mapping[str, str]) -> float:
    """By how much more a step yields with the flags turned; a token where requests are served."""
    before, after = (_token_s(planned(text, cells[side])) for side in ("before", "after"))
    return before / after - 1


def _token_s(plan: Plan) -> float:
    return plan.step.time_s if plan.serving is None else float(plan.serving.tpot_s.value)


def _floor_s(plan: Plan) -> float:
    """What one launch of the layer takes beside its work: the mean over kernels of one launch,
    attention and collectives left out.
    """
    layers = max(kernel.repeat for kernel in plan.kernels)
    fixed = [
        kernel.fixed_s
        for kernel in _of_layers(plan)
        if kernel.repeat == layers and kernel.launches == 1 and not kernel.link_bytes
        if "attention.scores" not in kernel.nodes
    ]
    return sum(fixed) / len(fixed)


def _saved_s(text: str, cells: Mapping[str, str]) -> float:
    """Time that one fused kernel of a layer saves against its parts."""
    before, after = (planned(text, cells[side]) for side in ("before", "after"))
    layers = max(kernel.repeat for kernel in before.kernels)
    return (before.step.time_s - after.step.time_s) / (2 * layers)


def _apart(text: str, names: str) -> tuple[float, float]:
    """What running parts of some kernels as kernels of their own adds to a step, and the step.

    ``names`` are nodes: joined by + they run together, by | apart, by ; in another kernel.
    """
    solved, alone = _alone(text, "engine")
    added_s = 0.0
    for kernel in names.split(" ; "):
        parts = [frozenset(part.split("+")) for part in kernel.split(" | ")]
        whole = frozenset[str]().union(*parts)
        times = _times(solved.chosen.runs, whole)
        added_s += times * (sum(alone[part] for part in parts) - alone[whole])
    return added_s, float(solved.chosen.timeline.time_s)


def _joined(text: str, names: str) -> tuple[float, float]:
    """What one kernel in the place of several saves, though no rule joins them; and the step."""
    solved, alone = _alone(text, "ideal")
    parts = [frozenset(part.split("+")) for part in names.split(" | ")]
    times = _times(solved.chosen.runs, parts[0])
    saved_s = times * (sum(alone[part] for part in parts) - alone[frozenset().union(*parts)])
    return saved_s, float(solved.chosen.timeline.time_s)


def _alone(text: str, rules: RuleSet) -> tuple[SolvedStep, dict[frozenset[str], float]]:
    """A solved step, and what each group that a rule set allows takes as a kernel of its own."""
    question = question_of(text)
    solved = solve_step(prepare(question), step_load(question.deployment), ())
    mode, fixed = solved.decision.mode, solved.fixed
    problem = solved.solver.problem(rules, mode)
    alone: dict[frozenset[str], float] = {}
    for number, slot in enumerate(problem.layout.slots):
        nodes = frozenset(name for _, name in slot.group.nodes)
        alone[nodes] = float(problem.priced(number).kernel(mode, fixed).time.time_s)
    return solved, alone


def _times(runs: tuple[SolvedRun, ...], names: frozenset[str]) -> int:
    """How often a step runs the kernel that holds these nodes."""
    return sum(
        run.times
        for run in runs
        for kernel in run.kernels
        if {name for _, name in kernel.group.nodes} == names
    )


def _of_layers(plan: Plan) -> list[KernelRow]:
    layers = max(kernel.repeat for kernel in plan.kernels)
    return [kernel for kernel in plan.kernels if kernel.repeat >= layers - 1]


def published() -> str:
    """Every gain, as published and as predicted."""
    rows = (
        (
            linked(gain.cells["case"], gain.cells["source"]),
            gain.cells["what"],
            _said(gain.stated, gain.cells),
            _said(gain.predicted, gain.cells) + _range(gain),
            f"{gain.predicted / gain.stated:.2f}" if gain.stated > 0 else "",
            "yes" if gain.near else "**no**",
            gain.cells["open"] or "nothing",
            gain.cells["note"],
        )
        for gain in gains()
    )
    header = ("case", "configuration", "published", "planner", "ratio", "within 1.5")
    return table((*header, "its source leaves open", "about it"), rows)


def _range(gain: Gain) -> str:
    """The least and the most over cards."""
    if gain.cells["bound"] != "middle":
        return ""
    least, most = (_said(one(gain.figures), gain.cells) for one in (min, max))
    return f" ({least} to {most})"


def _said(value: float, cells: Mapping[str, str]) -> str:
    upper = "up to " if cells["bound"] == "most" else ""
    if cells["figure"] in {"floor", "saved"}:
        return f"{upper}{value * 1e6:.1f} us"
    return f"{upper}{100 * value:.1f} %"


def counts() -> str:
    """Kernels of one decoder layer: as counted from the engine's code, and as planned."""
    with COUNTS.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return table(
        ("model", "how it runs", "counted in the code", "planner", "inside"), map(_count, rows)
    )


def _count(cells: Mapping[str, str]) -> tuple[str, ...]:
    plan = planned(cells["deployment"], cells["flags"])
    layers = max(kernel.repeat for kernel in plan.kernels)
    found = round(sum(k.launches * k.repeat for k in _of_layers(plan)) / layers)
    low, high = int(cells["low"]), int(cells["high"])
    said = f"{low}" if low == high else f"{low} to {high}"
    inside = "yes" if low <= found <= high else "**no**"
    return cells["model"], cells["how"], said, f"{found}", inside


def summary() -> str:
    """How many gains come out within the factor, of sources that state enough and of all."""
    stated = [gain.near for gain in gains() if not gain.cells["open"]]
    near = sum(gain.near for gain in gains())
    return (
        f"{near} of {len(gains())} published gains come out within a factor of {WITHIN}; "
        f"{sum(stated)} of the {len(stated)} whose sources leave nothing open."
    )


PARTS = {"gains": published, "counts": counts, "summary": summary}
