"""Which number formats a deployment is asked to run in: the checkpoint's, and its own over them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from planner.dtypes import DType, is_quantized, operand
from planner.errors import Fault, SpecError
from planner.graph.modules import Module, Pair
from planner.ops.types import Formats
from planner.spec.origin import Origin
from planner.spec.types import (
    DeploymentSpec,
    GpuSpec,
    ModelSpec,
    ModuleFormats,
    Quantization,
    layer_numbers,
)

STATIC = ("fp8", "fp8")
"""The pair whose activations may have one scale for all; blocks have theirs by 128 elements."""
_CACHE_FORMATS = ("fp32", "bf16", "fp16", "fp8", "int8", "nvfp4")


@dataclass(frozen=True)
class Asked:
    """What a deployment asks for, before its GPU and engine have their say."""

    pair: Pair
    """Of what no rule names."""
    wide: str
    """The 16-bit (or wider) format activations are kept in."""
    kv_cache: str
    modules: tuple[Module, ...]
    scales: str = "token"
    """Of FP8 activations; `token` where no module has any."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every pair of formats asked for, each once."""
        return tuple(dict.fromkeys([self.pair, *(module.asked for module in self.modules)]))

    @property
    def formats(self) -> Formats:
        """The formats of what no rule names, as asked for."""
        return Formats(*self.pair, self.wide, self.kv_cache, scales=self.scales)


def asked(deployment: DeploymentSpec, model: ModelSpec, gpu: GpuSpec) -> Asked:
    """The formats asked for. Raises SpecError for a request that no engine has a meaning for."""
    mine, made = deployment.precision, model.quantization or Quantization()
    checkpoint = made.weights or model.weights
    weights = mine.weights or checkpoint
    own = weights == checkpoint
    wide = _wide(weights, model.weights, gpu.matrix.keys())
    matmul = operand(mine.activations or (own and made.activations) or wide)
    if not is_quantized(matmul):
        wide = matmul
    faults: list[Fault] = []
    place = deployment.origin.at("precision")
    rules = _Rules((weights, matmul), wide, faults)
    rules.check(rules.pair, place.at("activations"))
    modules = list(rules.modules(mine.modules or (), place))
    if own:
        made_place = model.origin.at("quantization")
        modules += rules.ignored(made.ignore, model.weights, made_place.at("ignore"))
        modules += rules.modules(made.modules, made_place)
    cache = mine.kv_cache or made.kv_cache or ("fp32" if wide == "tf32" else wide)
    if cache not in _CACHE_FORMATS:
        hint = f"one of {', '.join(_CACHE_FORMATS)}"
        faults.append(place.at("kv_cache").fault(f"no engine caches in {cache}", hint))
    if faults:
        raise SpecError(faults)
    found = Asked(rules.pair, wide, cache, tuple(modules))
    scales = mine.scales or (own and made.scales) or found.scales
    return replace(found, scales=scales) if STATIC in found.pairs else found


@dataclass(frozen=True)
class _Rules:
    """Rules for modules, over the formats of the whole model."""

    pair: Pair
    wide: str
    faults: list[Fault]

    def modules(self, rules: tuple[ModuleFormats, ...], place: Origin) -> Iterator[Module]:
        for position, rule in enumerate(rules):
            origin = place.at("modules", position)
            pair = self._pair(rule.weights, rule.activations)
            self.check(pair, origin.at("activations"))
            one = isinstance(rule.match, str)
            patterns = (rule.match,) if isinstance(rule.match, str) else rule.match
            origins = tuple(
                origin.at("match") if one else origin.at("match", each)
                for each in range(len(patterns))
            )
            layers = layer_numbers(rule.layers)
            yield Module(patterns, layers, pair, origins, origin.at("layers"))

    def ignored(self, patterns: tuple[str, ...], weights: str, place: Origin) -> Iterator[Module]:
        if patterns:
            origins = tuple(place.at(position) for position in range(len(patterns)))
            yield Module(patterns, None, self._pair(weights, None), origins)

    def _pair(self, weights: str | None, activations: DType | None) -> Pair:
        matmul = self.wide if weights else self.pair[1]
        return weights or self.pair[0], operand(activations) if activations else matmul

    def check(self, pair: Pair, place: Origin) -> None:
        weights, matmul = pair
        if is_quantized(matmul) and not is_quantized(weights):
            message = f"activations in {matmul} need weights in {matmul}, not in {weights}"
            field = "weights" if "modules" in place.path else "precision.weights"
            self.faults.append(place.fault(message, f"set {field}: {matmul}"))
        if not is_quantized(matmul) and matmul != self.wide:
            message = f"the model's activations are {self.wide}: one module cannot have {matmul}"
            self.faults.append(place.fault(message, f"set precision.activations: {matmul}"))


def _wide(weights: str, checkpoint: str, rates: Collection[str]) -> str:
    for candidate in (weights, checkpoint):
        if not is_quantized(candidate):
            return candidate
    return "bf16" if "bf16" in rates else "fp16"
