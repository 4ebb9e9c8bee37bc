"""`quantization_config`: what the linear layers of a checkpoint are stored in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from planner.dtypes import DType
from planner.registry import Registry
from planner.spec.hf.fields import Config
from planner.spec.kinds.precision import Scales

GROUP = 128
_GROUPED: dict[int, DType] = {128: "int4", 64: "int4_g64", 32: "int4_g32"}
"""Whole-number formats by the weights that share a scale."""


@dataclass(frozen=True)
class Other:
    """Modules in formats of their own, by the patterns a checkpoint names them with.

    Of patterns that mean the same module the first counts.
    """

    patterns: tuple[str, ...]
    weights: DType | None
    """None for 16 bit."""
    activations: DType | None


@dataclass
class Stored:
    """How a checkpoint is quantised, as far as a spec can say it."""

    weights: DType | None = None
    """Format of the linear layers; None for one that no spec can name."""
    activations: DType | None = None
    """What the engine narrows the operands of the GEMMs to; None for 16 bit."""
    scales: Scales | None = None
    """Of FP8 activations, where they are one for all that lies in the checkpoint."""
    kv_cache: DType | None = None
    kept: tuple[str, ...] = ()
    """Patterns of modules that stay wide, as the checkpoint names them."""
    others: tuple[Other, ...] = ()
    targets: tuple[str, ...] = ()
    """Patterns of the modules in the formats above; empty for all. Others stay wide."""
    text_only: bool = False
    """Whether the tool quantises the text model's layers alone."""
    notes: list[str] = field(default_factory=list)

    @property
    def aims(self) -> tuple[str, ...]:
        """Patterns of all that is quantised, in whichever formats; empty for everything."""
        others = (each for other in self.others for each in other.patterns)
        return (*self.targets, *others) if self.targets else ()


Method = Callable[[Config], Stored]
METHODS: Registry[Method] = Registry("quantisation")
_BITS: dict[int, DType] = {4: "int4", 8: "int8"}


def stored(config: Config) -> Stored:
    """Read a `quantization_config`. What no spec can name is a fault at its place."""
    method = config.text("quant_method") or _unnamed(config)
    reader = METHODS.get(method)
    if reader is None:
        near = METHODS.nearest(method)
        hint = f"did you mean {near!r}?" if near else f"known are {', '.join(METHODS.names())}"
        config.refuse("quant_method", f"{method[:40]!r} is no quantisation known here", hint)
        return Stored()
    return reader(config)


def _unnamed(config: Config) -> str:
    """Configs of ModelOpt and of old exports name no method, only their own fields."""
    if config.get("load_in_4bit") or config.get("load_in_8bit"):
        return "bitsandbytes"
    if config.get("quant_algo"):
        return "modelopt"
    return "compressed-tensors" if config.get("config_groups") else "(none)"


def bits_of(config: Config, *keys: str) -> DType | None:
    """The whole-number format of a bit width. Another width is a fault."""
    key = config.first(*keys)
    bits = config.count(key, 4)
    if bits not in _BITS:
        words = " or ".join(map(str, _BITS))
        config.refuse(key, f"weights of {bits} bits cannot be planned; known is {words}")
    return _BITS.get(bits)


def grouped(found: Stored, size: int | None) -> Stored:
    """Put the group size in: one scale of 16 bits for so many weights, or for a channel."""
    if found.weights != "int4":
        return found
    if size in _GROUPED:
        found.weights = _GROUPED[size]
        return found
    whole = size is None or size < 1
    words = "one a channel" if whole else f"one per {size} weights"
    bits = 4.0 if size is None or whole else 4 + 16 / size
    found.notes.append(
        f"scales are {words} ({bits:g} bits a weight); int4 is counted with one per {GROUP} "
        f"({4 + 16 / GROUP:g} bits)"
    )
    return found


@METHODS.register("awq")
def awq(config: Config) -> Stored:
    """AWQ: int4 weights with a zero point a group, 16-bit activations; layers of the text model."""
    size = config.maybe(config.first("group_size", "q_group_size"), GROUP)
    for key in ("version", "backend"):
        config.get(key)
    kept = config.texts("modules_to_not_convert")
    found = Stored(bits_of(config, "bits", "w_bit"), kept=kept, text_only=True)
    if size == GROUP and found.weights == "int4" and config.flag("zero_point", default=True):
        found.weights = "awq"
    return grouped(found, size)


@METHODS.register("fp8")
def fp8(config: Config) -> Stored:
    """FP8 weights and activations, scaled per tensor or per block of `weight_block_size`."""
    config.get("fmt")
    static = config.text("activation_scheme") == "static"
    kept = config.texts(config.first("modules_to_not_convert", "ignored_layers"))
    found = Stored("fp8", "fp8", scales="tensor" if static else None, kept=kept)
    block = config.get("weight_block_size")
    if block is not None:
        _block(config, block, found)
    return found


def _block(config: Config, block: object, found: Stored) -> None:
    sides = block if isinstance(block, list) and len(block) == len(_BLOCK) else []
    if not sides or not all(type(side) is int and side > 0 for side in sides):
        config.refuse("weight_block_size", "expected two whole numbers")
        return
    found.weights = "fp8_block"
    if tuple(sides) != _BLOCK:
        found.notes.append(
            f"scales are one per block of {sides[0]} × {sides[1]} weights; fp8_block is counted "
            f"with one per {_BLOCK[0]} × {_BLOCK[1]}"
        )


_BLOCK = (128, 128)


@METHODS.register("fbgemm_fp8")
def fbgemm_fp8(config: Config) -> Stored:
    """FP8 weights with a scale a row, activations scaled per token."""
    config.get("activation_scale_ub")
    return Stored("fp8", "fp8", kept=config.texts("modules_to_not_convert"))


@METHODS.register("mxfp4")
def mxfp4(config: Config) -> Stored:
    """MXFP4 weights, as OpenAI ships its experts; activations stay in 16 bit."""
    kept = config.texts("modules_to_not_convert")
    return Stored("mxfp4", kept=kept, text_only=True)


@METHODS.register("bitsandbytes")
def bitsandbytes(config: Config) -> Stored:
    """LLM.int8() or 4-bit NF4 and FP4, with one FP32 scale per 64 weights."""
    kept = config.texts("llm_int8_skip_modules")
    for key in [key for key in config.data if key.startswith(("bnb_", "llm_int8_", "_load_in"))]:
        config.get(key)
    if config.flag("load_in_8bit", default=False):
        return Stored("int8", "int8", kept=kept)
    if not config.flag("load_in_4bit", default=True):
        config.refuse("load_in_4bit", "neither 4 nor 8 bits are asked for")
    found = Stored("nf4", kept=kept)
    if not config.get("bnb_4bit_use_double_quant"):
        # QLoRA (arXiv:2305.14314), section 3: 32 / 64 bits, which double quantisation cuts down
        note = f"scales take {32 / 64:g} bits a weight; nf4 is counted with scales quantised too"
        found.notes.append(note)
    return found
