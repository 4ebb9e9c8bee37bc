"""What runs of the formats asked for: the engine's rules by GPU and version, then the GPU's units.

Where the engine's file has a rule for weights and products of a module, it decides. Without one a
product that the matrix units lack is widened: weights stay narrow in memory (weight-only).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache

from planner.dtypes import is_quantized
from planner.errors import Fault, SpecError
from planner.graph.formats import STATIC, Asked
from planner.graph.modules import Pair, Runs, Scheme
from planner.graph.types import ModelGraph
from planner.ops.types import Formats
from planner.spec.conditions import holds
from planner.spec.origin import Origin
from planner.spec.types import FormatRule, GpuSpec, Scalar

CACHE = "kv_cache_write"
"""The operator under which an engine's rules speak of its KV cache."""
LATENT_CACHE = "mla_cache_write"
"""The same of caches of latents; rules that name it come before those of `CACHE`."""


@dataclass(frozen=True)
class Engine:
    """As much of an engine as formats depend on."""

    title: str = ""
    rules: tuple[FormatRule, ...] = ()
    facts: Mapping[str, Scalar] = field(default_factory=dict)
    states: str = ""
    """What it keeps recurrent states in; empty where operators say it themselves."""


def scheme(
    asked: Asked,
    gpu: GpuSpec,
    ops: Iterable[str] = ("linear",),
    engine: Engine | None = None,
    origin: Origin | None = None,
) -> Scheme:
    """The formats that run. ``ops`` are the operators of the model.

    Raises SpecError at ``origin``, the deployment's, for a cache that the engine does not have or
    a rate that the GPU does not have. What the engine refuses of weights is a fault of the graph
    that needs it (``planner.graph.build.model_graph``).
    """
    place = (origin or Origin.unknown()).at("precision")
    run = _Running(asked, gpu, engine or Engine(), place)
    present = dict.fromkeys(ops)
    cache, cache_note = run.cache(latent=LATENT_CACHE in present)
    named = dict.fromkeys(["linear", *filter(run.names, present)])
    table = tuple(run.runs(pair, op, cache) for pair in asked.pairs for op in named)
    if run.faults:
        raise SpecError(dict.fromkeys(run.faults))
    default = next(runs.formats for runs in table if runs.asked == asked.pair)
    return Scheme(default, asked.pair, asked.modules, table, cache_note)


def notes(chosen: Scheme, graph: ModelGraph) -> tuple[str, ...]:
    """How the graph's quantised weights are multiplied, a sentence for each way, and its cache."""
    named = {runs.op for runs in chosen.running}
    used = {
        (node.op_name if node.op_name in named else "linear", node.formats)
        for block in graph.kinds
        for node in block.nodes
        if node.parameters and node.formats and node.parameters[0].dtype == node.formats.weights
    }
    found = [runs.note for runs in chosen.running if (runs.op, runs.formats) in used]
    return tuple(dict.fromkeys(note for note in [*found, chosen.cache_note] if note))


@dataclass
class _Running:
    asked: Asked
    gpu: GpuSpec
    engine: Engine
    place: Origin
    faults: list[Fault] = field(default_factory=list)

    def cache(self, *, latent: bool) -> tuple[str, str | None]:
        """The format the engine keeps its cache in, and a note on it."""
        pair, wanted = self.asked.pair, self.asked.kv_cache
        rule = (self._rule(pair, LATENT_CACHE) if latent else None) or self._rule(pair, CACHE)
        if rule is None:
            return wanted, None
        if rule.refuse:
            message = f"{self.engine.title} has no {wanted} cache: {rule.refuse}"
            self.faults.append(self.place.at("kv_cache").fault(message))
        note = f"KV cache in {wanted}: {rule.note}" if rule.note else None
        return rule.kept or wanted, note

    def runs(self, pair: Pair, op: str, cache: str) -> Runs:
        """What runs for a pair in an operator."""
        weights, matmul = pair
        rule = self._rule(pair, op)
        if rule and rule.matmul:
            matmul = self.asked.wide if rule.matmul == "bf16" else rule.matmul
        if is_quantized(matmul) and matmul not in self.gpu.matrix:
            matmul = self.asked.wide
        if matmul not in self.gpu.matrix and matmul != "fp32":
            hint = f"it has {', '.join(self.gpu.matrix)}"
            message = f"{self.gpu.title} has no matrix rate for {matmul}"
            self.faults.append(self.place.fault(message, hint))
        states = self.engine.states
        formats = Formats(weights, matmul, self.asked.wide, cache, states=states)
        if (weights, matmul) == STATIC:
            formats = replace(formats, scales=self.asked.scales)
        if rule:
            formats = replace(
                formats,
                weights=rule.kept or weights,
                kernel=rule.kernel or "",
                matrix_share=rule.matrix_share,
                pads=(rule.pad_hidden, rule.pad_width),
                call_s=rule.call,
            )
        refusal = self._refused(pair, rule.refuse) if rule and rule.refuse else None
        return Runs(pair, op, formats, self._note(pair, matmul, rule), refusal)

    def names(self, op: str) -> bool:
        """Whether any rule of the engine speaks of an operator; all others run as linears do."""
        return op not in {CACHE, LATENT_CACHE} and _fits(op, self._patterns)

    @cached_property
    def _patterns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for rule in self.engine.rules for each in _ops(rule)))

    def _rule(self, pair: Pair, op: str) -> FormatRule | None:
        weights, matmul = pair
        facts = {
            **self.engine.facts,
            "weights": weights,
            "matmul": matmul,
            "kv_cache": self.asked.kv_cache,
        }
        rules = (rule for rule in self.engine.rules if _means(rule, op))
        return next((rule for rule in rules if holds(rule.when, facts)), None)

    def _refused(self, pair: Pair, reason: str) -> Fault:
        weights, matmul = pair
        message = (
            f"{self.engine.title} does not run {weights} weights with {matmul} products on "
            f"{self.gpu.title}: {reason}"
        )
        return self.place.at("weights").fault(message)

    def _note(self, pair: Pair, matmul: str, rule: FormatRule | None) -> str | None:
        """What runs, in words; nothing where it runs as asked and no kernel is known."""
        weights, wanted = pair
        if not is_quantized(weights):
            return None
        kernel = f", by {rule.kernel}" if rule and rule.kernel else ""
        why = f"; {rule.note}" if rule and rule.note else ""
        if rule is None and self.engine.rules:
            why = (
                f"; no rule says how {self.engine.title} runs {weights} weights with {wanted} "
                f"products on {self.gpu.title}, or whether it does"
            )
        wide = f"widened to {matmul} before each product{kernel}{why}"
        if matmul != wanted and wanted not in self.gpu.matrix:
            lacks = f"{self.gpu.title} has no {wanted} matrix rate"
            return f"{lacks}: weights stay {weights} in memory and are {wide}"
        if not is_quantized(matmul) and (kernel or why or matmul != wanted):
            return f"weights stay {weights} in memory and are {wide}"
        said = kernel or why
        return f"{weights} weights are multiplied in {matmul}{kernel}{why}" if said else None


def _means(rule: FormatRule, op: str) -> bool:
    return _fits(op, _ops(rule))


@lru_cache(maxsize=4096)
def _fits(op: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(op, each) for each in patterns)


def _ops(rule: FormatRule) -> tuple[str, ...]:
    return (rule.op,) if isinstance(rule.op, str) else rule.op
