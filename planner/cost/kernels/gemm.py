"""Time of a matrix product: tiles on multiprocessors against bytes from memory and L2.

    t = floor + min(overlap(memory, tiles), overlap(memory, split tiles) + split) + quantisation

*Tiles.* A tile of a × b outputs walks the depth k in steps; it goes at the matrix units' share of
one multiprocessor or at the latency of a step, whichever is slower, and pays once to fill its
pipeline and to write its outputs. Tiles come in waves over the multiprocessors. The library's
choice among tile shapes is modelled as the best one.

*Split-K.* Where tiles are fewer than multiprocessors, the depth is cut in s parts whose FP32
partial sums are written and read again; s is the best that multiprocessors and depth allow.

*Memory.* Weights, inputs and outputs at the achieved share of bandwidth. What a benchmark loop
leaves in the L2 comes faster; with ``warm=False`` weights come from memory, as in serving, and
only inputs that the kernel before has just written may lie in the L2.

*Quantisation.* Where operands are narrower than 16 bits the engine's linear layer first quantises
its input: rows in waves, bytes, and a serial reduction along each row.

For fixed tile and s every term grows with rows, features and depth, and the set of s to choose
from shrinks with rows and features, so the best of them never falls either.

Left out: a kernel's own choice of tile where it is not the best one, operands read again beyond
the L2, clocks that fall under sustained load.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.cost.kernels.types import Constant, Constants, Variant
from planner.cost.types import Device
from planner.dtypes import bytes_per_element
from planner.num import Number, maximum, minimum, where

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
_STEP = 64
"""Depth of one step of a tile's main loop."""
_LEAST_DEPTH = 128
"""Depth below which a library does not split any further."""
_SPLIT_BYTES = 8
"""An FP32 partial sum, written once and read once."""
_EDGE = 12
"""How sharply reuse ends where the working set passes the L2."""
_WRITE = 1.1
"""What a byte written costs against one read (DRAM turns its bus around)."""


@dataclass(frozen=True)
class GemmShape:
    """``rows`` × ``depth`` inputs by ``depth`` × ``features`` weights: M, K and N."""

    rows: Number
    depth: Number
    features: Number
    weight_copies: Number = 1
    """Distinct weights a benchmark cycles through; read only with ``warm=True``."""
    input_copies: Number = 1
    """Distinct inputs it cycles through."""


@dataclass(frozen=True)
class Kind:
    """What a variant's kernel is made of: facts of the code, no constants."""

    operand: str
    """Format the matrix units multiply in."""
    weight: str
    quantises: bool
    """Whether a kernel of its own turns 16-bit inputs into operands first."""
    split_rows: float
    """Rows up to which the library may split the depth."""
    split_free: bool = False
    """Whether a split costs no extra launch."""


KINDS: dict[str, Kind] = {
    "bf16": Kind("bf16", "bf16", False, math.inf),
    "fp8": Kind("fp8", "fp8", True, math.inf),
    "fp8_cutlass": Kind("fp8", "fp8", True, 64, True),
    "fp8_block": Kind("fp8", "fp8", True, 0),
    "nvfp4": Kind("nvfp4", "nvfp4", True, 0),
}

_COMMON = (
    Constant("floor_s", "Launch and drain of a graph node", "s", 5e-7, 4e-5, 2.2e-6),
    Constant("matrix_share", "Achieved share of the matrix peak", "ratio", 0.15, 1.2, 0.85, 1.0),
    Constant("dram_share", "Achieved share of memory bandwidth", "ratio", 0.2, 1.1, 0.82, 1.0),
    Constant("step_s", "Latency of one 64-deep step of a tile", "s", 0.0, 2e-6, 1e-7),
    Constant("fill_s", "Filling and draining one 128 × 128 tile", "s", 0.0, 6e-6, 1e-6),
    Constant("overlap", "How well bytes hide behind FLOPs (1 = not at all)", "1", 1.2, 6.0, 1.9),
    Constant("smoothing", "Share of the last wave that is not lost", "ratio", 0.0, 1.0, 0.6),
    Constant("l2_speed", "L2 bandwidth over achieved memory bandwidth", "ratio", 1.0, 8.0, 2.0),
    Constant("l2_share", "Share of the L2 that a loop can fill", "ratio", 0.2, 1.5, 0.65, 1.0),
)
_SPLIT = Constant("split_s", "Cost of a split: its reduction kernel", "s", 0.0, 2e-5, 2.6e-6)
_QUANTISE = (
    Constant("quant_wave_s", "Quantising one row on each half multiprocessor", "s", 0, 4e-6, 3e-7),
    Constant("quant_depth_s", "Reducing 1024 elements of a row", "s", 0.0, 2e-6, 2e-7),
    Constant("quant_share", "Bandwidth share of the quantiser", "ratio", 0.05, 1.5, 0.4, 1.0),
)


def _variant(name: str, kind: Kind) -> Variant:
    split = (_SPLIT,) if kind.split_rows and not kind.split_free else ()
    return Variant(name, (*_COMMON, *split, *(_QUANTISE if kind.quantises else ())))


VARIANTS = {name: _variant(name, kind) for name, kind in KINDS.items()}


@dataclass(frozen=True)
class Gemm:
    """The kernel model of the family ``gemm``."""

    family: str = "gemm"

    def variant(self, name: str) -> Variant:
        """The variant of that name. Raises KeyError."""
        return VARIANTS[name]

    def time_s(
        self,
        variant: str,
        shape: GemmShape,
        device: Device,
        values: Constants,
        *,
        warm: bool = False,
    ) -> Number:
        """Seconds, quantisation of the input included where the variant has it."""
        kind = KINDS[variant]
        memory_s = _memory_s(kind, shape, device, values, warm)
        whole_s, split_s = _tiles_s(kind, shape, device, values)
        time_s = _overlapped(memory_s, whole_s, values)
        if split_s is not None:
            extra = values.get("split_s", 0.0)
            time_s = minimum(time_s, _overlapped(memory_s, split_s, values) + extra)
        if kind.quantises:
            time_s = time_s + _quantise_s(kind, shape, device, values)
        return values["floor_s"] + time_s


MODEL = Gemm()


def _memory_s(
    kind: Kind, shape: GemmShape, device: Device, values: Constants, warm: bool
) -> Number:
    weight = shape.features * shape.depth * bytes_per_element(kind.weight)
    read = shape.rows * shape.depth * bytes_per_element(kind.operand)
    written = 2.0 * shape.rows * shape.features
    room = values["l2_share"] * device.l2_bytes
    saved = 1 - 1 / values["l2_speed"]
    once = weight + read + written
    if warm:
        cycle = shape.weight_copies * weight + shape.input_copies * read + written
        weight = weight * (1 - saved * _hit(cycle, room))
        once = where(shape.input_copies > 1, cycle, once)
    moved = weight + (read + _WRITE * written) * (1 - saved * _hit(once, room))
    return moved / (values["dram_share"] * device.bandwidth_bytes_per_s)


def _hit(footprint: Number, room: float) -> Number:
    """Share of reads that find the L2 still holding what was read a cycle ago."""
    if not room:
        return 0.0
    fill = footprint / room
    fourth = (fill * fill) * (fill * fill)
    return 1 / (1 + fourth * fourth * fourth)


def _tiles_s(
    kind: Kind, shape: GemmShape, device: Device, values: Constants
) -> tuple[Number, Number | None]:
    """Compute time of the best tile, whole and with the depth split (None where never)."""
    units = device.multiprocessors or 1
    per_unit = values["matrix_share"] * device.peak(kind.operand) / units
    reduce = _SPLIT_BYTES / (
        values["l2_speed"] * values["dram_share"] * device.bandwidth_bytes_per_s
    )
    sums = shape.rows * shape.features * reduce
    down = {a: _ceil(shape.rows / a) for a in {a for a, _ in TILES}}
    across = {b: _ceil(shape.features / b) / units for b in {b for _, b in TILES}}
    most = maximum(shape.depth / _LEAST_DEPTH, 1.0)
    whole: Number = None
    split: Number = None
    for a, b in TILES:
        waves = down[a] * across[b]
        walk = shape.depth * max(2.0 * a * b / per_unit, values["step_s"] / _STEP)
        ends = values["fill_s"] * math.sqrt(a * b / 16384)
        smooth = values["smoothing"]
        lost = maximum(smooth * waves + (1 - smooth) * _ceil(waves), 1.0)
        here = lost * (walk + ends)
        whole = here if whole is None else minimum(whole, here)
        if kind.split_rows:
            parts = maximum(minimum(1 / waves, most, (walk / sums) ** 0.5), 1.0)
            here = walk / parts + sums * parts + ends + where(waves > 1, math.inf, 0.0)
            split = here if split is None else minimum(split, here)
    if split is not None and kind.split_rows < math.inf:
        split = where(shape.rows <= kind.split_rows, split, math.inf)
    return whole, split


def _ceil(value: Number) -> Number:
    return value.__ceil__() if isinstance(value, float) else -((-value) // 1)


def _overlapped(memory_s: Number, compute_s: Number, values: Constants) -> Number:
    power = values["overlap"]
    longer, shorter = maximum(memory_s, compute_s), minimum(memory_s, compute_s)
    return longer * (1 + (shorter / longer) ** power) ** (1 / power)


def _quantise_s(kind: Kind, shape: GemmShape, device: Device, values: Constants) -> Number:
    units = device.multiprocessors or 1
    moved = shape.rows * shape.depth * (2 + bytes_per_element(kind.operand))
    return (
        maximum(
            values["quant_wave_s"] * shape.rows / (2 * units),
            moved / (values["quant_share"] * device.bandwidth_bytes_per_s),
        )
        + values["quant_depth_s"] * shape.depth / 1024
    )
