"""GPTQ and AutoRound: whole-number weights, with bits of their own for some modules."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.spec.hf.fields import Config
from planner.spec.hf.quantization import GROUP, METHODS, Other, Stored, bits_of, grouped

_WIDE_BITS = 16


@METHODS.register("gptq")
def gptq(config: Config) -> Stored:
    """GPTQ and AutoRound: int4 or int8 weights, 16-bit activations; -1 is a scale a channel.

    Both quantise the text model's layers, and vLLM reads a tower wide where they are used:
    `_maybe_ignore_quant_config` of model_executor/models/qwen2_vl.py and others.
    """
    for key in ("desc_act", "sym", "damp_percent", "static_groups", "true_sequential", "meta"):
        config.get(key)
    found = grouped(Stored(bits_of(config, "bits"), text_only=True), _size(config))
    if config.get("lm_head"):
        found.notes.append("the LM head is quantised too; it is counted in 16 bit")
    _dynamic(config, found)
    _extra(config, found)
    return found


METHODS.register("gptq_marlin")(gptq)
METHODS.register("auto-round")(gptq)
METHODS.register("intel/auto-round")(gptq)


def _size(config: Config) -> int:
    return config.count("group_size", GROUP, least=-1) if config.get("group_size") else GROUP


def _dynamic(config: Config, found: Stored) -> None:
    """GPTQModel's `dynamic`: patterns with ``-:`` stay wide, others have what stands at them.

    Source: vLLM model_executor/layers/quantization/utils/gptq_utils.py get_dynamic_override,
    where a pattern without a sign is one with ``+:``.
    """
    inside = config.inside("dynamic")
    kept, others = list[str](), list[Other]()
    for key in inside.data if inside else ():
        pattern = f"re:{re.sub(r'^[-+]:', '', key)}"
        if key.startswith("-:"):
            kept.append(pattern)
        elif inside and (own := inside.inside(key)):
            others.append(_other((pattern,), own, found))
    found.kept += tuple(kept)
    found.others += tuple(others)


def _extra(config: Config, found: Stored) -> None:
    """AutoRound's `extra_config`: modules by name or pattern, with bits; 16 are left as they were.

    Source: vLLM model_executor/layers/quantization/auto_round.py get_layer_config.
    """
    for key in ("block_name_to_quantize", "packing_format", "backend", "data_type"):
        config.get(key)
    inside = config.inside("extra_config")
    for name, own in _objects(inside):
        pattern = f"re:{name}" if re.search(r"[*\\^$+|()\[\]]", name) else name
        bits = own.get("bits")
        if type(bits) is int and bits >= _WIDE_BITS:
            found.kept += (pattern,)
        else:
            found.others += (_other((pattern,), own, found),)


def _objects(config: Config | None) -> Iterator[tuple[str, Config]]:
    for name in config.data if config else ():
        if config and (own := config.inside(name)):
            yield name, own


def _other(patterns: tuple[str, ...], own: Config, found: Stored) -> Other:
    """Modules with bits or groups of their own; what is not said is as in all others."""
    bits = bits_of(own, "bits") if own.get("bits") is not None else found.weights
    narrow = Stored("int4" if (bits or "").startswith("int4") else bits)
    narrow = grouped(narrow, _size(own)) if own.get("group_size") is not None else narrow
    weights = narrow.weights if own.get("group_size") is not None else bits
    found.notes += narrow.notes
    return Other(patterns, weights, None)
