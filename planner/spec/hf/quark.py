"""AMD Quark: one scheme for all modules, others for some of them.

Source: vLLM model_executor/layers/quantization/quark/quark.py: which of `exclude`,
`layer_quant_config`, `layer_type_quant_config` and `global_quant_config` a module is under.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.dtypes import DType
from planner.spec.hf.fields import Config
from planner.spec.hf.quantization import METHODS, Other, Stored, grouped

_MX_GROUP, _NV_GROUP = 32, 16
_WHOLE: dict[str, DType] = {"int8": "int8", "uint8": "int8", "int4": "int4", "uint4": "int4"}
_FP8 = ("fp8_e4m3", "fp8_e5m2", "fp8_e4m3fnuz")
_BLOCKS = ("per_group", "per_block")
_BESIDE = (
    "algo_config", "export", "kv_cache_post_rope", "min_kv_scale", "quant_mode", "version",
    "softmax_quant_spec", "log_severity_level", "pack_method",
)  # fmt: skip


@METHODS.register("quark")
def quark(config: Config) -> Stored:
    """AMD Quark: FP8, INT8, INT4, MXFP4 and NVFP4, as `weight` and `input_tensors` say."""
    for key in _BESIDE:
        config.get(key)
    whole = config.inside("global_quant_config")
    base = _scheme(whole) if whole else Stored()
    parts = [
        (pattern, _scheme(part))
        for key in ("layer_quant_config", "layer_type_quant_config")
        for pattern, part in _objects(config.inside(key))
    ]
    if base.weights is None:  # nothing but what is named
        base = next((part for _, part in parts if part.weights), base)
        base.targets = tuple(pattern for pattern, part in parts if _same(part, base))
    if base.weights is None and not config.faults:
        config.refuse("global_quant_config", "gives no module a format of weights")
    base.kept = config.texts("exclude")
    base.others = tuple(
        Other((pattern,), part.weights, part.activations)
        for pattern, part in parts
        if not _same(part, base)
    )
    base.kv_cache = _cache(config)
    return base


def _same(one: Stored, other: Stored) -> bool:
    return (one.weights, one.activations) == (other.weights, other.activations)


def _objects(config: Config | None) -> Iterator[tuple[str, Config]]:
    for name in config.data if config else ():
        if config and (part := config.inside(name)):
            yield name, part


def _scheme(config: Config) -> Stored:
    for key in ("bias", "output_tensors", "target_device"):
        config.get(key)
    weights, operands = _first(config, "weight"), _first(config, "input_tensors")
    found = Stored(_format(weights) if weights else None, _format(operands) if operands else None)
    size = weights.get("group_size") if weights else None
    whole = [part and part.get("qscheme") == "per_tensor" for part in (weights, operands)]
    if operands and all(whole) and not operands.get("is_dynamic"):
        found.scales = "tensor"
    return grouped(found, size if type(size) is int else None)


def _first(config: Config, key: str) -> Config | None:
    """The scheme of a tensor; of two that are laid over each other, the narrower.

    A list holds NVFP4 with the scale of its scales, or INT4 within FP8.
    """
    value = config.get(key)
    if not isinstance(value, list):
        return config.inside(key)
    parts = [
        Config(each, config.document, (*config.place(key), at), config.faults)
        for at, each in enumerate(value)
        if isinstance(each, dict)
    ]
    return next((part for part in parts if "4" in str(part.get("dtype"))[:4]), None) or next(
        iter(parts), None
    )


def _format(scheme: Config) -> DType | None:
    for key in list(scheme.data):
        scheme.get(key)
    word = scheme.text("mx_element_dtype") if scheme.get("dtype") == "mx" else scheme.text("dtype")
    size, parts = scheme.get("group_size"), scheme.get("qscheme")
    if word in _FP8:
        return "fp8_block" if parts in _BLOCKS else "fp8"
    if word == "fp4" and size in (_MX_GROUP, _NV_GROUP, None):
        return "nvfp4" if size == _NV_GROUP else "mxfp4"
    if word in _WHOLE:
        return _WHOLE[word]
    if word in ("bfloat16", "float16", "float32"):
        return None
    known = ", ".join((*_FP8, *_WHOLE, "fp4 in groups of 32 or 16"))
    scheme.refuse("dtype", f"{str(word)[:30]!r} cannot be planned", f"known are {known}")
    return None


def _cache(config: Config) -> DType | None:
    """The cache's format: the outputs of what projects keys and values."""
    export, own = config.inside("export"), config.inside("kv_cache_quant_config")
    group = export.texts("kv_cache_group") if export else ()
    places = [part for part in (own, config.inside("layer_quant_config")) if part]
    for part in places:
        for name, scheme in _objects(part):
            outputs = _first(scheme, "output_tensors")
            asked = part is own or name in group
            if asked and outputs and outputs.get("dtype") in _FP8:
                return "fp8"
    return None
