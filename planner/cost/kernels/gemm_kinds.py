"""Variants of the GEMM model: what each kernel is made of, and the constants it is fitted with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.cost.kernels.types import Constant, Variant

TILES = (
    (16, 64),
    (32, 64),
    (64, 64),
    (64, 128),
    (128, 64),
    (128, 128),
    (128, 256),
    (256, 128),
)
"""Output tiles that GEMM libraries choose from, rows × features."""
INF = math.inf


@dataclass(frozen=True)
class Kind:
    """What a variant's kernel is made of: facts of its code, no constants."""

    operand: str
    """Format the matrix units multiply in."""
    stored: str = ""
    """Format of the weights in memory, where they are widened to operands on the way."""
    quantises: bool = True
    """Whether a kernel of its own first turns 16-bit inputs into operands."""
    splits: bool = False
    """Whether the library may split the depth."""
    fed: bool = False
    """Whether feeding tiles from the L2 is fitted: it shows where operands are wide."""
    tiles: Mapping[tuple[int, int], float] = field(
        default_factory=lambda: dict.fromkeys(TILES, INF)
    )
    """Output tiles, rows × features, each with the most rows of a product that it is used for."""

    @property
    def weights(self) -> str:
        """Format of the weights in memory."""
        return self.stored or self.operand


_CUTLASS = dict.fromkeys(TILES, INF) | {(16, 64): 32, (32, 64): 64, (64, 64): 128, (64, 128): 128}
"""CUTLASS kernels are compiled per range of rows; tiles keep at least half the rows of a range."""
_CUTLASS_SM89 = {(16, 64): 16, (16, 128): 32, (32, 128): 64, (64, 64): 256, (128, 64): INF}
"""The ranges of vLLM's kernels for Ada and consumer Blackwell, found in the measured times."""

KINDS: dict[str, Kind] = {
    "bf16": Kind("bf16", quantises=False, splits=True, fed=True),
    "fp8": Kind("fp8", splits=True),
    "fp8_cutlass": Kind("fp8", tiles=_CUTLASS),
    "fp8_cutlass_sm89": Kind("fp8", tiles=_CUTLASS_SM89),
    "fp8_block": Kind("fp8", stored="fp8_block"),
    "nvfp4": Kind("nvfp4"),
    "int8": Kind("int8", quantises=False),
    "w4a16": Kind("bf16", stored="int4", quantises=False, fed=True),
    "w8a16": Kind("bf16", stored="int8", quantises=False, fed=True),
}
"""By variant. ``fp8`` is cuBLAS's kernel; the two of CUTLASS differ in their tiles. ``w4a16`` and
``w8a16`` are TensorRT-LLM's weight-only plugins, measured on A100 alone."""

_COMMON = (
    Constant("floor_s", "Launch and drain of a graph node", "s", 5e-7, 4e-5, 2.2e-6),
    Constant("matrix_share", "Achieved share of the matrix peak", "ratio", 0.15, 1.2, 0.85, 1.0),
    Constant("dram_share", "Achieved share of memory bandwidth", "ratio", 0.2, 1.1, 0.82, 1.0),
    Constant("step_s", "Latency of one 64-deep step of a tile", "s", 0.0, 2e-6, 1e-7),
    Constant("fill_s", "Filling and draining one 128 × 128 tile", "s", 0.0, 6e-6, 1e-6),
    Constant("overlap", "How well bytes hide behind FLOPs (1 = not at all)", "1", 1.2, 6.0, 1.9),
    Constant("smoothing", "Share of the last wave that is not lost", "ratio", 0.0, 1.0, 0.6),
    Constant("throttle", "Slow-down of very long products", "ratio", 0.0, 2.0, 0.1),
    Constant("l2_speed", "L2 bandwidth over achieved memory bandwidth", "ratio", 1.0, 8.0, 2.0),
    Constant("l2_share", "Share of the L2 that a loop can fill", "ratio", 0.2, 1.5, 0.65, 1.0),
)
_SPLIT = Constant("split_s", "Cost of a split: its reduction kernel", "s", 0.0, 2e-5, 2.6e-6)
_FEED = Constant("feed", "L2 traffic of a tile, in memory bandwidths", "ratio", 0.0, 1.0, 0.02)
_QUANTISE = (
    Constant("quant_wave_s", "Quantising one row on each half multiprocessor", "s", 0, 4e-6, 3e-7),
    Constant("quant_depth_s", "Reducing 1024 elements of a row", "s", 0.0, 2e-6, 2e-7),
    Constant("quant_share", "Bandwidth share of the quantiser", "ratio", 0.05, 1.5, 0.4, 1.0),
)


def _variant(name: str, kind: Kind) -> Variant:
    own = (*((_SPLIT,) if kind.splits else ()), *((_FEED,) if kind.fed else ()))
    return Variant(name, (*_COMMON, *own, *(_QUANTISE if kind.quantises else ())))


VARIANTS = {name: _variant(name, kind) for name, kind in KINDS.items()}
