"""Time of a block of routed experts: from router scores to the combined output of one rank.

    t = t0 + c_n·log2 n + c_T·T + passes + Σ_j { [memory_j^p + compute_j^p]^(1/p) + τ·K_j }
    memory_j  = T·w_j·b·h / (η_m·BW)        compute_j = 2·P·w_j / (η_c·peak)
    w_1 = g·I·H, K_1 = H;   w_2 = I·H, K_2 = I

P pairs and T touched experts come from `planner.ops.moe_load`; b is bytes per weight with
scales; g is 2 for gated experts. Kernels pass activations through memory between the two grouped
GEMMs: Triton's and Intel's once per routed token whether its expert is local or not, the others
per local pair plus a gather and a scatter of the hidden rows. h < 1 only where a benchmark repeats
the same experts and they fit the L2. Left out: router GEMM, shared experts, dispatch between ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.kernels.types import Constant, Constants, KernelModel, Variant
from planner.cost.types import Device
from planner.num import Number, maximum, minimum

_US = 1e-6
_L2_EDGE = 8
"""How sharply hits fall once the touched experts outgrow the L2."""
_LEAST_WIDTH = 64
"""Narrower expert shards cost as much: the smallest tile."""


@dataclass(frozen=True)
class MoeShape:
    """One rank's block of routed experts; arrays or numbers."""

    tokens: Number
    hidden: Number
    intermediate: Number
    """Of one rank, so divided by the tensor parallel size already."""
    top_k: Number
    pairs: Number
    touched: Number
    gated: Number = True


@dataclass(frozen=True)
class Kind:
    """What a format of experts means to memory and matrix units."""

    bytes_per_weight: float
    """Scales included."""
    operand: str


KINDS = {
    "bf16": Kind(2.0, "bf16"),
    "fp8": Kind(1.0, "fp8"),
    "fp8_block": Kind(1 + 4 / 128**2, "fp8"),
    "int4": Kind(0.5 + 2 / 128, "bf16"),
    "nvfp4": Kind(0.5 + 1 / 16, "nvfp4"),
    "mxfp4": Kind(0.5 + 1 / 32, "bf16"),
    "mxfp4_fp8": Kind(0.5 + 1 / 32, "fp8"),
}
"""By the variant's second part. ``int4`` and ``mxfp4`` multiply in BF16."""

_BASE = (
    Constant("t0_s", "the chain of kernels on no work", "s", 1 * _US, 300 * _US, 15 * _US),
    Constant("doubling_s", "routing, each doubling of tokens", "s", 1e-9, 20 * _US, 1 * _US),
    Constant("expert_s", "each expert touched", "s", 1e-10, 3 * _US, 0.1 * _US),
    Constant("eta_memory", "share of memory bandwidth", "ratio", 0.05, 1.1, 0.85, 1.0),
    Constant("eta_compute", "share of the matrix units' peak", "ratio", 0.01, 1.1, 0.5, 1.0),
    Constant("p", "overlap of memory and compute", "1", 1.0, 8.0, 1.6),
    Constant("fill_s", "filling the pipeline, each element of K", "s", 1e-11, 3e-8, 2e-9),
)
_L2 = (
    Constant("l2_share", "share of the L2 that holds experts, warm only", "1", 0.05, 2.0, 0.8),
    Constant("l2_speed", "L2 over memory bandwidth, warm only", "1", 1.0, 10.0, 1.5),
)
_TILE = (Constant("tile_rows", "rows of a tile, padded for each expert", "1", 1.0, 400.0, 20.0),)
_ALL = (Constant("passes_all", "passes over all routed tokens", "1", 1e-3, 60.0, 1.5),)
_LOCAL = (
    Constant("passes_local", "passes over local pairs", "1", 1e-3, 60.0, 2.5),
    Constant("passes_hidden", "passes over routed hidden rows", "1", 1e-3, 60.0, 1.2),
)

KERNELS = {
    "triton": _BASE + _L2 + _TILE + _ALL,
    "triton-tuned": _BASE + _L2 + _TILE + _ALL,
    "xpu": _BASE + _L2 + _TILE + _ALL,
    "cutlass": _BASE + _L2 + _TILE + _LOCAL,
    "trtllm": _BASE + _L2 + _TILE + _LOCAL,
    "deepgemm": _BASE + _L2 + _TILE + _LOCAL,
    "marlin": _BASE + _L2 + _TILE + _LOCAL,
}
"""By the variant's first part. ``triton-tuned`` is Triton's with tiles that somebody searched for
just these experts on this GPU; any other shape runs with an engine's defaults. ``trtllm`` is the
generated kernels of TensorRT-LLM, which vLLM and SGLang call through FlashInfer."""


VARIANTS = {
    f"{kernel}_{kind}": Variant(f"{kernel}_{kind}", constants)
    for kernel, constants in KERNELS.items()
    for kind in KINDS
}
"""As ``<kernel>_<format>``: ``triton_bf16``, ``trtllm_nvfp4``."""


def as_wide(format_: str) -> list[str]:
    """Formats of experts that multiply in the same and keep a weight in as many bits."""
    own = KINDS[format_]
    return [
        name
        for name, kind in KINDS.items()
        if kind.operand == own.operand
        and int(8 * kind.bytes_per_weight) == int(8 * own.bytes_per_weight)
    ]


def time_s(
    variant: str,
    shape: MoeShape,
    device: Device,
    values: Constants,
    *,
    warm: bool = False,
) -> Number:
    """Seconds of all kernels of the block, in a CUDA graph."""
    kind = KINDS[variant.partition("_")[2]]
    gates = 1.0 + shape.gated
    width = maximum(shape.intermediate, _LEAST_WIDTH)
    byte_s = kind.bytes_per_weight / (values["eta_memory"] * device.bandwidth_bytes_per_s)
    if warm:
        weights = shape.touched * (gates + 1) * shape.intermediate * shape.hidden
        byte_s = byte_s * _missed(weights * kind.bytes_per_weight, device, values)
    flop_s = 2 * _pairs(shape, values) / (values["eta_compute"] * _peak(kind, device))
    p = values["p"]
    first = (shape.touched * byte_s * shape.intermediate) ** p + (flop_s * width) ** p
    each_s = shape.hidden * first ** (1 / p)
    return (
        values["t0_s"]
        + values["doubling_s"] * _log2(shape.tokens)
        + values["expert_s"] * shape.touched
        + _passes_s(shape, gates, width, device, values)
        + (gates + 1) * each_s
        + values["fill_s"] * (shape.hidden + shape.intermediate)
    )


MODEL = KernelModel("moe", VARIANTS, time_s)


def _pairs(shape: MoeShape, values: Constants) -> Number:
    """Pairs computed: half a tile of each expert is padding, though no more than half its rows."""
    return shape.pairs + 0.5 * minimum(shape.touched * values["tile_rows"], shape.pairs)


def _peak(kind: Kind, device: Device) -> float:
    """A GPU whose matrix units lack the format runs it at the 16-bit rate."""
    return device.matrix_flops_per_s.get(kind.operand, device.peak("bf16"))


def _missed(size: Number, device: Device, values: Constants) -> Number:
    """Time of warm weights over that of cold ones."""
    if not device.l2_bytes:
        return 1.0
    held = 1 / (1 + (size / (values["l2_share"] * device.l2_bytes)) ** _L2_EDGE)
    return 1 - held * (1 - 1 / values["l2_speed"])


def _passes_s(
    shape: MoeShape, gates: Number, width: Number, device: Device, values: Constants
) -> Number:
    """Activations through memory, in 16 bit."""
    row_bytes = 2 * (width * (2 * gates + 2) + 2 * shape.hidden)
    routed = shape.tokens * shape.top_k
    if "passes_all" in values:
        moved = values["passes_all"] * routed * row_bytes
    else:
        moved = values["passes_local"] * shape.pairs * row_bytes
        moved = moved + values["passes_hidden"] * routed * 2 * shape.hidden
    return moved / device.bandwidth_bytes_per_s


def _log2(value: Number) -> Number:
    if hasattr(value, "__array__"):
        import numpy as np

        return np.log2(np.maximum(value, 1))
    from math import log2

    return log2(max(value, 1))
