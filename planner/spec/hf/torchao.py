"""torchao and HQQ, as transformers writes their configs.

Source: transformers src/transformers/utils/quantization_config.py TorchAoConfig and HqqConfig;
torchao quantization/quant_api.py for what each class of configs does; vLLM
model_executor/layers/quantization/torchao.py for modules by name.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.dtypes import DType
from planner.spec.hf.fields import Config
from planner.spec.hf.quantization import GROUP, METHODS, Other, Stored, bits_of, grouped

_Formats = tuple[DType, DType | None]
_TYPES: dict[str, _Formats] = {
    "int4weightonly": ("int4", None),
    "int8weightonly": ("int8", None),
    "float8weightonly": ("fp8", None),
    "nvfp4weightonly": ("nvfp4", None),
    "int8dynamicactivationint8weight": ("int8", "int8"),
    "float8dynamicactivationfloat8weight": ("fp8", "fp8"),
    "float8staticactivationfloat8weight": ("fp8", "fp8"),
    "int8dynamicactivationint4weight": ("int4", "int8"),
    "float8dynamicactivationint4weight": ("int4", "fp8"),
    "nvfp4inference": ("nvfp4", "nvfp4"),
    "nvfp4dynamicactivationnvfp4weight": ("nvfp4", "nvfp4"),
}
"""By the class's name, or the word before torchao had classes, small and without joints."""
_GROUPS = {"int8dynamicactivationint4weight": 32}
"""Weights that share a scale by default, where they are not `GROUP`."""
_MODULES = ("modulefqnto", "fqnto")
_DEFAULT = "_default"


@METHODS.register("torchao")
def torchao(config: Config) -> Stored:
    """torchao: INT4, INT8, FP8 and NVFP4, weights alone or operands too; modules by name."""
    for key in ("untie_embedding_weights", "autoquant_kwargs"):
        config.get(key)
    given = config.get("quant_type")
    options = config.inside("quant_type_kwargs")
    if isinstance(given, str):
        found = _typed(config, "quant_type", given, options or Config({}, config.document))
    else:
        inside = config.inside("quant_type")
        found = _of_type(inside, "default") if inside else Stored()
        if found.weights is None and not config.faults:
            config.refuse("quant_type", "names no way to quantise", "as in {default: {_type: …}}")
    found.kept += config.texts("modules_to_not_convert")
    if config.get("include_input_output_embeddings"):
        found.notes.append("embedding and LM head are quantised too; they are counted in 16 bit")
    return found


def _of_type(holder: Config, key: str) -> Stored:
    """The formats of one config of torchao: ``{"_type": …, "_data": {…}}``."""
    own = holder.inside(key)
    if own is None:
        return Stored()
    own.get("_version")
    data = own.inside("_data") or Config({}, own.document)
    word = own.text("_type") or ""
    if _plain(word) in _MODULES:
        return _by_module(data)
    return _typed(own, "_type", word, data)


def _typed(holder: Config, key: str, word: str, data: Config) -> Stored:
    plain = _plain(word)
    if plain not in _TYPES:
        known = "Int4WeightOnlyConfig, Float8DynamicActivationFloat8WeightConfig and alike"
        holder.refuse(key, f"{word[:60]!r} cannot be planned", f"known are {known}")
        return Stored()
    size = data.get("group_size")
    default = _GROUPS.get(plain, GROUP)
    return grouped(Stored(*_TYPES[plain]), size if type(size) is int else default)


def _plain(word: str) -> str:
    return word.lower().replace("_", "").removesuffix("config")


def _by_module(data: Config) -> Stored:
    """Modules by their names; ``_default`` is all others, and null leaves them wide."""
    each = data.inside(data.first("module_fqn_to_config", "fqn_to_config"))
    if each is None:
        data.refuse("module_fqn_to_config", "names no module")
        return Stored()
    kept = tuple(name for name, own in each.data.items() if own is None and name != _DEFAULT)
    parts = [(name, _of_type(each, name)) for name, own in each.data.items() if own is not None]
    base = next((part for name, part in parts if name == _DEFAULT), None)
    named = [(name, part) for name, part in parts if name != _DEFAULT]
    if base is None:
        base = named[0][1] if named else Stored()
        base.targets = tuple(name for name, part in named if _same(part, base))
    base.kept = kept
    base.others = tuple(
        Other((name,), part.weights, part.activations)
        for name, part in named
        if not _same(part, base)
    )
    return base


def _same(one: Stored, other: Stored) -> bool:
    return (one.weights, one.activations) == (other.weights, other.activations)


@METHODS.register("hqq")
def hqq(config: Config) -> Stored:
    """HQQ: whole-number weights, with a scale and a zero point of 16 bits a group."""
    kept = config.texts("skip_modules")
    inside = config.inside("quant_config")
    if inside is None:
        return _hqq(config, kept)  # by hand: nbits and group_size at the top
    if "weight_quant_params" in inside.data:
        return _hqq(_params(inside), kept)
    parts = [(name, _hqq(_params(part), ())) for name, part in _objects(inside)]
    if not parts:
        config.refuse("quant_config", "names no module")
        return Stored()
    base = parts[0][1]
    base.kept, base.targets = kept, tuple(name for name, part in parts if _same(part, base))
    base.others = tuple(
        Other((name,), part.weights, None) for name, part in parts if not _same(part, base)
    )
    return base


def _params(config: Config) -> Config:
    for key in ("scale_quant_params", "zero_quant_params", "offload_meta"):
        config.get(key)
    return config.inside("weight_quant_params") or Config({}, config.document)


def _hqq(config: Config, kept: tuple[str, ...]) -> Stored:
    for key in ("channel_wise", "optimize", "round_zero", "axis", "view_as_float"):
        config.get(key)
    size = config.maybe("group_size", 64)
    found = grouped(Stored(bits_of(config, "nbits", "bits"), kept=kept), size)
    if size and not found.notes:
        found.notes.append(
            f"a zero point of 16 bits for {size} weights ({16 / size:g} bits a weight) is not "
            "counted"
        )
    return found


def _objects(config: Config) -> Iterator[tuple[str, Config]]:
    for name in config.data:
        if part := config.inside(name):
            yield name, part
