"""Figures about models that others have published, beside what the planner says.

The rows of docs/measured/public-claims.csv; those that cannot be held against a plan are in
docs/measured/public-claims-left-out.csv with the reason.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from builders.markup import table
from planner.errors import PlannerError
from planner.graph import totals
from planner.graph.types import ModelGraph
from planner.plan.assemble import assemble
from planner.plan.cases import answer
from planner.plan.prepare import prepare
from planner.plan.types import NodeRow, Plan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

FOLDER = Path(__file__).resolve().parents[1] / "measured"
CLAIMS, LEFT_OUT = FOLDER / "public-claims.csv", FOLDER / "public-claims-left-out.csv"
_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "MB": 1e6, "GB": 1e9, "ms": 1e-3, "%": 0.01}
_DEFAULT = "gpu: h200-sxm, backend: {{name: vllm}}, step: {{decode: {{batch: 1, context: {}}}}}"
_CONTEXT = "4096"


def _growth(graph: ModelGraph) -> float:
    """KV bytes of one token more, once every window is full."""
    return sum(each.times * each.bytes_per_token for each in _kv(graph) if each.window is None)


def _windowed(graph: ModelGraph) -> float:
    """KV bytes of the layers with a window, once it is full."""
    return sum(each.times * each.bytes_per_token * (each.window or 0) for each in _kv(graph))


def _kv(graph: ModelGraph) -> tuple[totals.KvLayers, ...]:
    return totals.kv_layers(graph)


def _kv_layers(graph: ModelGraph) -> int:
    return sum(each.times for each in _kv(graph))


def _layers(graph: ModelGraph) -> int:
    """Blocks between embedding and LM head."""
    return sum(graph.times) - 2


def _state_layers(graph: ModelGraph) -> int:
    return sum(times for _, times in totals.state_layers(graph))


def _index_bytes_per_token(graph: ModelGraph) -> float:
    return sum(
        times * node.op.cached_bytes(block.shapes_of(node), graph.formats)
        for block, times in zip(graph.kinds, graph.times, strict=True)
        for node in block.nodes
        if node.op_name == "index_cache_write"
    )


def _kv_bytes(plan: Plan) -> float:
    """KV of the load, without states."""
    memory = plan.memory
    return memory.kv_bytes - memory.state_bytes_per_sequence * (plan.step.sequences or 1)


def _rule(plan: Plan) -> float:
    """KV over what a rule by parameters alone gives; 0.75 stands for the file's billions."""
    return plan.model.kv_bytes_per_token / (0.000008 * 0.751632384 * 2**30)


def _node(plan: Plan, name: str) -> NodeRow:
    return next(node for node in plan.nodes if node.id == name)


def _weights_read(plan: Plan) -> float:
    return sum(node.weight_bytes * node.repeat for node in plan.nodes if not node.composite)


def _embedding_share(plan: Plan) -> float:
    return _node(plan, "lm_head").weight_bytes / 2 / plan.model.parameters


FIGURES: Mapping[str, Callable[[Plan, ModelGraph], float]] = {
    "parameters": lambda plan, _: plan.model.parameters,
    "text_parameters": lambda plan, _: plan.model.parameters - plan.model.tower_parameters,
    "active_parameters": lambda plan, _: plan.model.active_parameters,
    "kv_bytes_per_token": lambda plan, _: plan.model.kv_bytes_per_token,
    "kv_bytes": lambda plan, _: _kv_bytes(plan),
    "weights_bytes": lambda plan, _: plan.memory.weights_bytes,
    "held_bytes": lambda plan, _: plan.memory.weights_bytes + _kv_bytes(plan),
    "weights_read": lambda plan, _: _weights_read(plan),
    "embedding_share": lambda plan, _: _embedding_share(plan),
    "kv_over_rule": lambda plan, _: _rule(plan),
    "gemm_crossing": lambda plan, _: _node(plan, "gate_proj").crossing_tokens or 0,
    "attention_intensity": lambda plan, _: _node(plan, "attention").flops_per_byte,
    "step": lambda plan, _: plan.step.time_s,
    "kv_growth": lambda _, graph: _growth(graph),
    "windowed_bytes": lambda _, graph: _windowed(graph),
    "kv_layers": lambda _, graph: _kv_layers(graph),
    "state_layers": lambda _, graph: _state_layers(graph),
    "layers": lambda _, graph: _layers(graph),
    "layers_per_kv_layer": lambda _, graph: _layers(graph) / _kv_layers(graph),
    "latent_bytes": lambda plan, graph: (
        _kv_bytes(plan) * (1 - _index_bytes_per_token(graph) / plan.model.kv_bytes_per_token)
    ),
}
"""What a claim may be about, in SI units, of the plan or of its graph."""


@dataclass(frozen=True)
class Claim:
    """A published figure and the planner's."""

    cells: Mapping[str, str]
    predicted: float | None
    """In the unit of the claim; None where the planner refuses the deployment."""
    verdict: str
    right: bool

    @property
    def ratio(self) -> float | None:
        """Predicted over stated."""
        return None if self.predicted is None else self.predicted / float(self.cells["stated"])


def deployment_text(cells: Mapping[str, str]) -> str:
    """The deployment that answers a claim, as `planner plan` takes it."""
    rest = cells["deployment"] or _DEFAULT.format(cells["context"] or _CONTEXT)
    return f"{{model: {cells['model']}, {rest}}}\n"


def stated() -> list[dict[str, str]]:
    """Every claim, unanswered."""
    with CLAIMS.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@cache
def claims() -> tuple[Claim, ...]:
    """Every claim with its answer."""
    return tuple(_answered(row) for row in stated())


def _answered(cells: Mapping[str, str]) -> Claim:
    text = deployment_text(cells)
    try:
        question = ask(load_text(text, str(FOLDER / cells["id"]), "deployment"), Catalog.standard())
        # a claim is no right one because whole runs, its own report among them, scatter
        question = replace(question, spread=None)
        plan, graph = assemble(question), prepare(question).graph
    except PlannerError as error:
        return Claim(cells, None, "refused", cells["stated"] in str(error))
    if cells["right_if"] == "refused":
        return Claim(cells, None, "planned", right=False)
    unit = _UNITS.get(cells["unit"], 1)
    predicted = FIGURES[cells["figure"]](plan, graph) / unit
    return Claim(cells, predicted, *_judged(cells, plan, predicted))


def _judged(cells: Mapping[str, str], plan: Plan, predicted: float) -> tuple[str, bool]:
    """What is said of the claim, and whether that is right."""
    stated, rule = cells["stated"], cells["right_if"]
    if rule == "at most":
        return f"at most {stated}", predicted <= float(stated)
    if rule in {"impossible", "interval"}:
        found = answer(plan, {"step_ms": float(stated)})
        low, high = plan.step.low_s or 0, plan.step.high_s or 0
        said = "impossible" if found.impossible else f"{low * 1e3:.1f} to {high * 1e3:.1f}"
        return said, found.impossible if rule == "impossible" else found.verdict == "pass"
    return f"within {float(rule):.2g}", abs(predicted / float(stated) - 1) <= float(rule)


def summary() -> str:
    """How many are right, by the way they are judged."""
    kinds = {
        "counts and bytes": [c for c in claims() if c.cells["figure"] not in {"step", "refusal"}],
        "deployments that must be refused": _of("refused"),
        "times that no GPU can reach, to be refused": _of("impossible"),
        "measured times, inside the interval of their kernels": _of("interval"),
    }
    rows = [
        (name, f"{len(chosen)}", f"{sum(claim.right for claim in chosen)}")
        for name, chosen in {**kinds, "all": list(claims())}.items()
    ]
    return table(("figures", "number", "right"), rows)


def _of(rule: str) -> list[Claim]:
    return [claim for claim in claims() if claim.cells["right_if"] == rule]


def listed() -> str:
    """Every claim beside the planner's figure."""
    header = ("case", "model", "claim", "stated", "a calculator said", "planner", "ratio", "judged")
    return table((*header, "right", "tolerance"), map(_row, claims()))


def _row(claim: Claim) -> tuple[str, ...]:
    cells = claim.cells
    refusal = cells["right_if"] == "refused"
    unit = "" if refusal else cells["unit"]
    return (
        _linked(cells),
        cells["model"],
        cells["claim"],
        "" if refusal else f"{_number(cells['stated'])} {unit}",
        f"{_number(cells['wrong'])} {unit}" if cells["wrong"] else "",
        claim.verdict if claim.predicted is None else f"{_number(claim.predicted)} {unit}",
        "" if claim.ratio is None else f"{claim.ratio:.4f}",
        claim.verdict,
        "yes" if claim.right else "**no**",
        cells["why"],
    )


def _number(value: float | str) -> str:
    """A figure with all digits of a count, else with five."""
    try:
        found = float(value)
    except ValueError:
        return str(value)
    return f"{found:,.0f}" if found.is_integer() else f"{found:,.5g}"


def _linked(cells: Mapping[str, str]) -> str:
    address = cells["source"]
    return f"[{cells['id']}]({address})" if address.startswith("https") else cells["id"]


def left_out() -> str:
    """Claims that no plan answers, and why."""
    with LEFT_OUT.open(encoding="utf-8", newline="") as stream:
        rows = [(_linked(row), row["claim"], row["why"]) for row in csv.DictReader(stream)]
    return table(("case", "claim", "why it is not checked"), rows)


PARTS = {"summary": summary, "claims": listed, "left-out": left_out}
