"""Time of a matrix product: tiles on multiprocessors against bytes from memory and L2.

    t = floor + min(overlap(memory, tiles), overlap(memory, split tiles) + split) · throttle
        + quantisation

*Tiles.* A tile of a × b outputs walks the depth k in steps; it goes at the matrix units' share of
one multiprocessor, slower where operands are fed from the L2, or at the latency of a step; and
pays once to fill its pipeline and to write its outputs. Tiles come in waves over the
multiprocessors. The library's choice among tile shapes is modelled as the best one that its
dispatch allows at that many rows.

*Split-K.* Where tiles are fewer than multiprocessors, the depth is cut in s parts whose FP32
partial sums are written and read again; s is the best that multiprocessors and depth allow.

*Memory.* Weights, inputs and outputs at the achieved share of bandwidth. What a benchmark loop
leaves in the L2 comes faster; with ``warm=False`` weights come from memory, as in serving, and
only inputs that the kernel before has just written may lie in the L2.

*Overlap.* A power mean of both times: long kernels hide the shorter one better than short ones.

*Throttle.* Long products run at falling clocks, as seen in benchmark loops of nothing else.

*Quantisation.* Where operands are narrower than 16 bits the engine's linear layer first quantises
its input: rows in waves, bytes, and a serial reduction along each row.

For fixed tile and s every term grows with rows, features and depth, and the sets of tiles and of
s to choose from shrink with rows and features, so the best of them never falls either.

Left out: a kernel's own choice of tile where it is not the best one, operands read again beyond
the L2, and kernels of their own for one row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import lru_cache

from planner.cost.kernels.gemm_kinds import INF, KINDS, VARIANTS, Kind
from planner.cost.kernels.types import Constants, KernelModel
from planner.cost.types import Device
from planner.dtypes import bytes_per_element
from planner.num import Number, maximum, minimum, where
from planner.records import dataclass

__all__ = ["KINDS", "MODEL", "GemmShape", "peak_flops_per_s"]

_STEP = 64
"""Depth of one step of a tile's main loop."""
_FILLED = 128 * 128
"""The tile that ``fill_s`` is of; others go by their edge."""
_LEAST_DEPTH = 128
"""Depth below which a library does not split any further."""
_SPLIT_BYTES = 8
"""An FP32 partial sum, written once and read once."""
_WRITE = 1.1
"""What a byte written costs against one read (DRAM turns its bus around)."""
_LONG_S = 30e-6
"""Kernels longer than this overlap well."""
_SUSTAINED_S = 700e-6
"""Matrix work longer than this, repeated as benchmarks do, brings clocks down."""
_NEVER_S = 1e9
_PIECE = 8192


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
    weight_bytes: Number = 0
    """Bytes of one weight, where they differ from the variant's; 0: as the variant's."""
    quantised: bool = False
    """Whether the inputs come in the operands' format, quantised by a kernel before."""


def time_s(
    variant: str,
    shape: GemmShape,
    device: Device,
    values: Constants,
    *,
    warm: bool = False,
) -> Number:
    """Seconds, quantisation of the input included where the variant has it."""
    parts = [_time_s(variant, part, device, values, warm=warm) for part in _pieces(shape, _PIECE)]
    if len(parts) == 1:
        return parts[0]
    import numpy as np

    return np.concatenate(parts)


MODEL = KernelModel("gemm", VARIANTS, time_s)


def _pieces(shape: GemmShape, size: int) -> Iterator[GemmShape]:
    """Long arrays in pieces whose intermediate results stay in the cache: three times as fast."""
    arrays = {
        item.name: value
        for item in fields(shape)
        if hasattr(value := getattr(shape, item.name), "__array__") and value.ndim
    }
    count = max((len(value) for value in arrays.values()), default=0)
    if count <= size:
        yield shape
        return
    for start in range(0, count, size):
        cut = slice(start, start + size)
        yield replace(
            shape, **{name: value[cut] for name, value in arrays.items() if len(value) == count}
        )


def _time_s(
    variant: str, shape: GemmShape, device: Device, values: Constants, *, warm: bool
) -> Number:
    kind = KINDS[variant]
    peak = values["matrix_share"] * peak_flops_per_s(variant, device)
    memory_s = _memory_s(kind, shape, device, values, warm)
    whole_s, split_s = _tiles_s(shape, device, values, _tiles_of(variant, device, values, peak))
    time_s = _overlapped(memory_s, whole_s, values)
    if kind.splits:
        split_s = _overlapped(memory_s, split_s, values) + values["split_s"]
        time_s = minimum(time_s, split_s)
    time_s = time_s * _throttled(shape, peak, values)
    if kind.quantises and not shape.quantised:
        time_s = time_s + _quantise_s(kind, shape, device, values)
    return values["floor_s"] + time_s


def _memory_s(
    kind: Kind, shape: GemmShape, device: Device, values: Constants, warm: bool
) -> Number:
    each = where(shape.weight_bytes > 0, shape.weight_bytes, bytes_per_element(kind.weights))
    weight = shape.features * shape.depth * each
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
    """Share of reads that find the L2 still holding what was read a cycle ago: a steep edge."""
    if not room:
        return 0.0
    fill = footprint / room
    fourth = (fill * fill) * (fill * fill)
    return 1 / (1 + fourth * fourth * fourth)


def peak_flops_per_s(variant: str, device: Device) -> float:
    """Matrix rate of the operands; of 16-bit ones where the units lack the narrow format."""
    rates, operand = device.matrix_flops_per_s, KINDS[variant].operand
    return rates.get(operand) or rates.get("bf16") or device.peak(operand)


@dataclass(frozen=True)
class _Tile:
    rows: int
    features: int
    limit: float
    """Most rows of a product that it is used for."""
    unit_depth_s: float
    ends_s: float


def _tiles_of(variant: str, device: Device, values: Constants, peak: float) -> tuple[_Tile, ...]:
    """What each tile costs on one multiprocessor: per unit of depth, and at both ends."""
    units = device.multiprocessors or 1
    feed_s = values.get("feed", 0.0) * bytes_per_element(KINDS[variant].operand)
    feed_s *= units / device.bandwidth_bytes_per_s
    step_s, fill_s = values["step_s"], values["fill_s"]
    return _tiles(variant, units, peak, feed_s=feed_s, step_s=step_s, fill_s=fill_s)


@lru_cache(maxsize=1024, typed=True)
def _tiles(
    variant: str, units: int, peak: float, *, feed_s: float, step_s: float, fill_s: float
) -> tuple[_Tile, ...]:
    return tuple(
        _Tile(
            a,
            b,
            limit,
            max(2.0 * a * b * units / peak + feed_s * (a + b), step_s / _STEP),
            fill_s * math.sqrt(a * b / _FILLED),
        )
        for (a, b), limit in KINDS[variant].tiles.items()
    )


def _tiles_s(
    shape: GemmShape, device: Device, values: Constants, tiles: tuple[_Tile, ...]
) -> tuple[Number, Number]:
    """Compute time of the best tile, whole and with the depth split."""
    units = device.multiprocessors or 1
    splits = "split_s" in values
    down = {a: _ceil(shape.rows / a) for a in {tile.rows for tile in tiles}}
    across = {b: _ceil(shape.features / b) / units for b in {tile.features for tile in tiles}}
    most = maximum(shape.depth / _LEAST_DEPTH, 1.0)
    sums_s = shape.rows * shape.features * _sum_s(device, values)
    best = (shape.depth / sums_s) ** 0.5
    whole: Number = _NEVER_S
    split: Number = _NEVER_S
    for tile in tiles:
        waves = down[tile.rows] * across[tile.features]
        walk_s = shape.depth * tile.unit_depth_s
        here = _waves(waves, values["smoothing"]) * (walk_s + tile.ends_s)
        if tile.limit < INF:
            here = where(shape.rows > tile.limit, _NEVER_S, here)
        whole = minimum(whole, here)
        if splits:
            parts = minimum(_floor(1 / waves), best * tile.unit_depth_s**0.5)
            parts = maximum(minimum(parts, most), 1.0)
            here = walk_s / parts + sums_s * parts + tile.ends_s
            split = minimum(split, where(waves > 1, _NEVER_S, here))
    return whole, split


def _sum_s(device: Device, values: Constants) -> float:
    """Seconds that one output's partial sum adds, written to the L2 and read."""
    speed = values["l2_speed"] * values["dram_share"] * device.bandwidth_bytes_per_s
    return _SPLIT_BYTES / speed


def _waves(waves: Number, smoothing: float) -> Number:
    """Waves that tiles take: whole ones, smoothed as tiles of uneven speed fill the gaps."""
    return maximum(smoothing * waves + (1 - smoothing) * _ceil(waves), 1.0)


def _ceil(value: Number) -> Number:
    if not hasattr(value, "__array__"):
        return math.ceil(value)
    import numpy as np

    return np.ceil(value)


def _floor(value: Number) -> Number:
    if not hasattr(value, "__array__"):
        return math.floor(value)
    import numpy as np

    return np.floor(value)


def _overlapped(memory_s: Number, compute_s: Number, values: Constants) -> Number:
    """Between the longer of both and their sum. The power doubles as kernels get long.

    It grows in both: what the longer time gains itself outweighs what its power takes away.
    """
    longer, shorter = maximum(memory_s, compute_s), minimum(memory_s, compute_s)
    power = values["overlap"] * (1 + longer / (longer + _LONG_S))
    return longer * (1 + (shorter / longer) ** power) ** (1 / power)


def _throttled(shape: GemmShape, peak: float, values: Constants) -> Number:
    """Slow-down of long products: it sets in steeply where matrix work lasts."""
    busy = 2.0 * shape.rows * shape.features * shape.depth / peak / _SUSTAINED_S
    fourth = (busy * busy) * (busy * busy)
    return 1 + values["throttle"] * fourth / (1 + fourth)


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
