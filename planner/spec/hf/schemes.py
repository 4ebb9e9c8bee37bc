"""Quantisation written as schemes of bits, type and groups: compressed-tensors and ModelOpt."""

from __future__ import annotations

import re

from planner.dtypes import DType
from planner.spec.hf.fields import Config
from planner.spec.hf.quantization import METHODS, Other, Stored, grouped

_ALGORITHMS: dict[str, tuple[DType, DType | None]] = {
    "FP8": ("fp8", "fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": ("fp8", "fp8"),
    "FP8_PB_WO": ("fp8_block", "fp8"),  # weight-only by its name; engines narrow activations too
    "NVFP4": ("nvfp4", "nvfp4"),
    "W4A16_NVFP4": ("nvfp4", None),
    "NVFP4_AWQ": ("nvfp4", "nvfp4"),
    "W4A16_AWQ": ("int4", None),
    "W4A8_AWQ": ("int4", "fp8"),
    "W8A8_SQ_PER_CHANNEL": ("int8", "int8"),
    "INT8_SQ": ("int8", "int8"),
}
"""ModelOpt's `quant_algo`: weights, and activations where they are narrowed too.

Source: vLLM model_executor/layers/quantization/modelopt.py, QUANT_ALGOS and
ModelOptFp8PbWoLinearMethod.
"""
_STATIC = "FP8"
"""The algorithm whose activations have one scale for all, which ModelOpt finds ahead."""
_CACHES: dict[str, DType] = {"FP8": "fp8", "NVFP4": "nvfp4", "INT8": "int8"}
_CLASS = re.compile(r"[A-Z]\w*")
"""A class of modules as a target, which means every layer of it: ``Linear``."""
_MX_GROUP = 32


def _format(scheme: Config) -> DType | None:
    """The format of one scheme: ``{num_bits: 8, type: float, strategy: channel}``."""
    bits = scheme.count("num_bits", 8)
    kind = scheme.text("type") or "int"
    size = scheme.maybe("group_size") if scheme.get("group_size") != -1 else None
    if kind == "float" and bits == 4:  # noqa: PLR2004 - four-bit floats: MX or NVIDIA's by group
        return "mxfp4" if size == _MX_GROUP else "nvfp4"
    known: dict[tuple[str, int], DType] = {
        ("float", 8): "fp8",
        ("int", 8): "int8",
        ("int", 4): "int4",
    }
    found = known.get((kind, bits))
    if found is None:
        hint = "known are 4 and 8 bits, int or float"
        scheme.refuse("num_bits", f"{bits} bits of type {kind[:20]!r} cannot be planned", hint)
    return found


def _group(group: Config) -> Stored:
    weights, operands = group.inside("weights"), group.inside("input_activations")
    group.get("output_activations")
    group.get("format")
    found = Stored(_format(weights) if weights else None, _format(operands) if operands else None)
    if weights is None:
        return found
    size = weights.get("group_size")
    strategy = weights.text("strategy")
    if found.weights == "fp8" and type(size) is int and size > 0:
        found.notes.append(f"scales of FP8 weights, one per {size}, are not counted")
    for key in ("symmetric", "dynamic", "observer", "actorder", "block_structure"):
        weights.get(key)
    if operands and strategy == operands.text("strategy") == "tensor":
        found.scales = None if operands.get("dynamic") else "tensor"
    if strategy == "block" and found.weights == "fp8":
        found.weights = "fp8_block"
    return grouped(found, size if type(size) is int else None)


def _groups(config: Config) -> Stored:
    """The first group, and the modules of others."""
    groups = config.inside("config_groups")
    names = list(groups.data) if groups else []
    inside = [part for name in names if groups and (part := groups.inside(name))]
    if not inside:
        config.refuse("config_groups", "names no group of modules")
        return Stored()
    read = [(_group(part), part.texts("targets")) for part in inside]
    whole = next((at for at, (_, targets) in enumerate(read) if _all(targets)), 0)
    first, targets = read.pop(whole)
    first.targets = () if _all(targets) else targets
    first.others = tuple(
        Other(targets, other.weights, other.activations) for other, targets in read
    )
    return first


def _all(targets: tuple[str, ...]) -> bool:
    return not targets or any(_CLASS.fullmatch(target) for target in targets)


def _layers(config: Config) -> Stored:
    """Modules one by one, each with its algorithm; those that are not named stay wide."""
    each = config.inside("quantized_layers")
    named: dict[str, list[str]] = {}
    for name in each.data if each else ():
        own = each.inside(name) if each else None
        word = _algorithm(own) if own else None
        if word:
            named.setdefault(word, []).append(name)
    if not named:
        config.refuse("quantized_layers", "names no module")
        return Stored()
    first, *others = sorted(named, key=lambda word: -len(named[word]))
    found = Stored(*_ALGORITHMS[first], targets=tuple(named[first]))
    found.others = tuple(Other(tuple(named[word]), *_ALGORITHMS[word]) for word in others)
    return found


def _algorithm(config: Config) -> str | None:
    for key in ("group_size", "awq_block_size", "has_zero_point", "pre_quant_scale"):
        config.get(key)
    word = (config.text("quant_algo") or "").upper()
    if word in _ALGORITHMS:
        return word
    config.refuse("quant_algo", f"{word[:40]!r} is unknown", ", ".join(_ALGORITHMS))
    return None


@METHODS.register("compressed-tensors")
def compressed_tensors(config: Config) -> Stored:
    """What llm-compressor writes: W8A8 in int8 or fp8, W4A16, NVFP4, MXFP4."""
    for key in ("format", "global_compression_ratio", "quantization_status", "version"):
        config.get(key)
    sparsity = config.inside("sparsity_config")
    if sparsity and sparsity.get("format") not in (None, "dense"):
        sparsity.refuse("format", "sparse weights cannot be planned")
    found = _groups(config)
    found.kept = config.texts("ignore")
    cache = config.inside("kv_cache_scheme")
    found.kv_cache = _format(cache) if cache else None
    return found


@METHODS.register("modelopt")
def modelopt(config: Config) -> Stored:
    """NVIDIA's ModelOpt, by its algorithm's name or by schemes."""
    inner = config.inside("quantization") or config
    for key in ("producer", "group_size", "quant_method"):
        inner.get(key)
    kept = inner.texts(inner.first("ignore", "exclude_modules"))
    algorithm = inner.text("quant_algo")
    if inner.get("quantized_layers"):
        found = _layers(inner)
    elif algorithm is None or algorithm == "MIXED_PRECISION":
        found = _groups(inner)
    elif word := _algorithm(inner):
        found = Stored(*_ALGORITHMS[word], scales="tensor" if word == _STATIC else None)
    else:
        return Stored()
    found.kept = kept
    found.kv_cache = _cache(inner)
    return found


def _cache(config: Config) -> DType | None:
    word, scheme = config.text("kv_cache_quant_algo"), config.inside("kv_cache_scheme")
    if word is None:
        return _format(scheme) if scheme else None
    if word.upper() not in _CACHES:
        config.refuse("kv_cache_quant_algo", f"{word[:40]!r} is unknown", ", ".join(_CACHES))
    return _CACHES.get(word.upper())


METHODS.register("modelopt_fp4")(modelopt)
METHODS.register("modelopt_mixed")(modelopt)
