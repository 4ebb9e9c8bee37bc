"""What runs of the formats asked for: the engine's rules by GPU and version, then the GPU's units.

Where the engine's file has a rule for weights and products of a module, it decides. Without one a
product that the matrix units lack is widened: weights stay narrow in memory (weight-only).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from planner.dtypes import is_quantized
from planner.errors import Fault, SpecError
from planner.graph.formats import Asked
from planner.graph.modules import Pair, Scheme
from planner.ops.types import Formats
from planner.spec.conditions import holds
from planner.spec.origin import Origin
from planner.spec.types import FormatRule, GpuSpec, Scalar

CACHE = "kv_cache_write"
"""The operator under which an engine's rules speak of its KV cache."""


@dataclass(frozen=True)
class Engine:
    """As much of an engine as formats depend on."""

    title: str = ""
    rules: tuple[FormatRule, ...] = ()
    facts: Mapping[str, Scalar] = field(default_factory=dict)


def scheme(
    asked: Asked,
    gpu: GpuSpec,
    ops: Iterable[str] = ("linear",),
    engine: Engine | None = None,
    origin: Origin | None = None,
) -> Scheme:
    """The formats that run, with a note for each quantised pair of weights and products.

    ``ops`` are the operators of the model. Raises SpecError at ``origin``, the deployment's, for
    what the engine or the GPU cannot run.
    """
    place = (origin or Origin.unknown()).at("precision")
    run = _Running(asked, gpu, engine or Engine(), place)
    cache = run.cache()
    named = ["linear", *filter(run.names, ops)]
    table = [
        (*pair, op, run.formats(pair, op, cache))
        for pair in asked.pairs
        for op in dict.fromkeys(named)
    ]
    if run.faults:
        raise SpecError(dict.fromkeys(run.faults))
    default = next(formats for *pair, op, formats in table if (*pair,) == asked.pair)
    notes = tuple(dict.fromkeys(run.notes))
    return Scheme(default, asked.pair, asked.modules, tuple(table), notes)


@dataclass
class _Running:
    asked: Asked
    gpu: GpuSpec
    engine: Engine
    place: Origin
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def cache(self) -> str:
        """The format the engine keeps its cache in."""
        rule = self._rule(self.asked.pair, CACHE)
        if rule is None:
            return self.asked.kv_cache
        if rule.refuse:
            message = f"{self.engine.title} has no {self.asked.kv_cache} cache: {rule.refuse}"
            self.faults.append(self.place.at("kv_cache").fault(message))
        elif rule.note:
            self.notes.append(f"KV cache in {self.asked.kv_cache}: {rule.note}")
        return rule.kept or self.asked.kv_cache

    def formats(self, pair: Pair, op: str, cache: str) -> Formats:
        """What runs for a pair in an operator."""
        weights, matmul = pair
        rule = self._rule(pair, op)
        if rule and rule.refuse:
            self._refuse(pair, rule.refuse)
        if rule and rule.matmul:
            matmul = self.asked.wide if rule.matmul == "bf16" else rule.matmul
        if is_quantized(matmul) and matmul not in self.gpu.matrix:
            matmul = self.asked.wide
        if matmul not in self.gpu.matrix and matmul != "fp32":
            hint = f"it has {', '.join(self.gpu.matrix)}"
            message = f"{self.gpu.title} has no matrix rate for {matmul}"
            self.faults.append(self.place.fault(message, hint))
        self.notes += self._said(pair, matmul, rule)
        if rule is None:
            return Formats(weights, matmul, self.asked.wide, cache)
        kept, kernel = rule.kept or weights, rule.kernel or ""
        return Formats(kept, matmul, self.asked.wide, cache, kernel, rule.matrix_share)

    def names(self, op: str) -> bool:
        """Whether any rule of the engine speaks of an operator; all others run as linears do."""
        return op != CACHE and any(_means(rule, op) for rule in self.engine.rules)

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

    def _refuse(self, pair: Pair, reason: str) -> None:
        weights, matmul = pair
        message = (
            f"{self.engine.title} does not run {weights} weights with {matmul} products on "
            f"{self.gpu.title}: {reason}"
        )
        self.faults.append(self.place.at("weights").fault(message))

    def _said(self, pair: Pair, matmul: str, rule: FormatRule | None) -> Iterator[str]:
        """The note on what runs; none where it runs as asked and no kernel is known."""
        weights, wanted = pair
        if not is_quantized(weights):
            return
        kernel = f", by {rule.kernel}" if rule and rule.kernel else ""
        why = f"; {rule.note}" if rule and rule.note else ""
        if matmul != wanted and wanted not in self.gpu.matrix:
            yield (
                f"{self.gpu.title} has no {wanted} matrix rate: weights stay {weights} in memory "
                f"and are widened to {matmul} before each product{kernel}{why}"
            )
        elif not is_quantized(matmul) and (kernel or matmul != wanted):
            yield (
                f"weights stay {weights} in memory and are widened to {matmul} before each "
                f"product{kernel}{why}"
            )
        elif kernel:
            yield f"{weights} weights are multiplied in {matmul}{kernel}{why}"


def _means(rule: FormatRule, op: str) -> bool:
    wanted = (rule.op,) if isinstance(rule.op, str) else rule.op
    return any(fnmatchcase(op, each) for each in wanted)
