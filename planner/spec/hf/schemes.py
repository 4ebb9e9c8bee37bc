"""Quantisation written as schemes of bits, type and groups: compressed-tensors and ModelOpt."""

from __future__ import annotations

from planner.dtypes import DType
from planner.spec.hf.fields import Config
from planner.spec.hf.quantization import METHODS, Other, Stored, grouped

_ALGORITHMS: dict[str, tuple[DType, DType | None]] = {
    "FP8": ("fp8", "fp8"),
    "FP8_PER_CHANNEL_PER_TOKEN": ("fp8", "fp8"),
    "FP8_PB_WO": ("fp8_block", None),
    "NVFP4": ("nvfp4", "nvfp4"),
    "NVFP4_AWQ": ("nvfp4", "nvfp4"),
    "W4A16_AWQ": ("int4", None),
    "W8A8_SQ_PER_CHANNEL": ("int8", "int8"),
    "INT8_SQ": ("int8", "int8"),
}
"""ModelOpt's `quant_algo`: weights, and activations where they are narrowed too."""
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
    for key in ("symmetric", "dynamic", "observer", "actorder", "block_structure"):
        weights.get(key)
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
    first, *others = [(_group(part), part.texts("targets")) for part in inside]
    first[0].targets = first[1]
    first[0].others = tuple(
        Other(targets, other.weights, other.activations) for other, targets in others
    )
    return first[0]


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
    if algorithm is None or algorithm == "MIXED_PRECISION":
        found = _groups(inner)
    elif algorithm in _ALGORITHMS:
        found = Stored(*_ALGORITHMS[algorithm])
    else:
        inner.refuse("quant_algo", f"{algorithm[:40]!r} is unknown", ", ".join(_ALGORITHMS))
        return Stored()
    found.kept = kept
    cache = inner.get("kv_cache_quant_algo")
    scheme = inner.inside("kv_cache_scheme")
    if cache == "NVFP4":
        found.kv_cache = "nvfp4"
    elif cache == "FP8" or scheme:
        found.kv_cache = "fp8"
    return found


METHODS.register("modelopt_fp4")(modelopt)
METHODS.register("modelopt_mixed")(modelopt)
