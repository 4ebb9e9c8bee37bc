"""Time of a collective among the GPUs of one node, from message size and ranks.

Each rank moves f·S bytes over its links, f = 2(N−1)/N for an all-reduce and (N−1)/N for the others;
w = f·S/(η_N·link) is the time that takes. Algorithms differ in what they pay to start and per byte,
and the library takes the quickest:

    latency    a1 + h1·(N−1) + r1·w         NCCL's LL protocol; for an engine's one-shot all-reduce
                                            w counts N/2 times, as every rank reads all the others
    two-shot   a2 + h2·(N−1) + r2·w         an engine's own reduce-scatter and all-gather
    bulk       a3 + h3·(N−1) + w            NCCL's rings, trees and NVLink SHARP

Engines keep their own kernels for messages below a size of theirs, the switch, and hand larger ones
to NCCL. The kernel that vLLM wrote and SGLang took over does not choose by time: among more than
two ranks it goes in two shots from 512 KiB on, among more than four from 256 KiB, where these take
a multiple of the time (26 us after 9 at eight B200).

Left out: more than one node, congestion from other traffic, and the gap between ranks that reach
the collective at different times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.cost.kernels.types import Constant, Constants, KernelModel, Variant
from planner.cost.types import Device
from planner.num import Number, maximum, minimum, where

ENGINE_ALL_REDUCE = "all_reduce_engine"
"""What the engine calls: its own kernels and what it falls back to."""
CROSS_DEVICE = "all_reduce_cross_device"
"""The same where these are ``cross_device_reduce_1stage`` and ``_2stage`` alone, by message size:
vLLM csrc/custom_all_reduce.cuh, SGLang until 0.5.11."""
_ONE_STAGE_BYTES = (512 * 1024, 256 * 1024)
"""Below it one stage: of up to four ranks, and of more (custom_all_reduce.cuh ``allreduce``)."""

_SHARP = 8.0
"""Order of the soft minimum and maximum: within 9 % of the hard one at the corner."""
_US = 1e-6


@dataclass(frozen=True)
class CollectiveShape:
    """A message among the ranks of one node; arrays or numbers."""

    bytes: Number
    """S: the whole tensor. What every rank holds after an all-gather and before a reduce-scatter;
    what one rank sends in an all-to-all, its own share included."""
    ranks: Number
    eager: Number = False
    """Called from the host one by one, so never quicker than the host calls."""
    copied: Number = False
    """The caller copies the tensor first, as benchmarks of an in-place operator do."""


_Below = Callable[[Number, CollectiveShape, float, Constants], Number]
"""Time of an engine's own kernels by message size."""


def _start(name: str, what: str, typical_us: float) -> Constant:
    return Constant(name, f"start of {what}", "s", 1 * _US, 120 * _US, typical_us * _US)


def _hop(name: str, what: str, typical_us: float) -> Constant:
    return Constant(
        name, f"{what}, each rank beyond the first", "s", 0.01 * _US, 30 * _US, typical_us * _US
    )


_LINK = (
    Constant("eta_2", "share of the link's rate, 2 ranks", "ratio", 0.1, 1.1, 0.7, 1.0),
    Constant("step_4", "share of 4 ranks over that of 2", "1", 0.1, 2.0, 1.1),
    Constant("step_8", "share of 8 ranks over that of 4", "1", 0.2, 2.0, 1.0),
)
_NCCL = (
    _start("a1_s", "the latency protocol", 5),
    _hop("h1_s", "latency protocol", 1),
    Constant("r1", "latency protocol's time per byte over bulk's", "1", 0.1, 60.0, 2.0),
    _start("a3_s", "the bulk protocol", 10),
    _hop("h3_s", "bulk protocol", 2),
    *_LINK,
)
_ENGINE = (
    _start("a1_s", "the one-shot kernel", 4),
    _hop("h1_s", "one-shot kernel", 0.2),
    Constant("r1", "one-shot kernel's time per byte over bulk's", "1", 0.3, 8.0, 1.2),
    _start("a2_s", "the two-shot kernel", 7),
    _hop("h2_s", "two-shot kernel", 0.5),
    Constant("r2", "two-shot kernel's time per byte over bulk's", "1", 0.2, 4.0, 1.0),
    _start("a3_s", "the bulk protocol", 15),
    _hop("h3_s", "bulk protocol", 1),
    *_LINK,
    Constant("switch_bytes", "from here on messages go to NCCL", "bytes", 1e6, 2e9, 8e6),
    Constant("call_s", "one eager call on the host", "s", 1 * _US, 200 * _US, 25 * _US),
    Constant("eta_copy", "share of memory bandwidth in the copy", "ratio", 0.1, 1.2, 0.8, 1.0),
)

VARIANTS = (
    Variant(ENGINE_ALL_REDUCE, _ENGINE),
    Variant(CROSS_DEVICE, _ENGINE),
    Variant("all_reduce", _NCCL),
    Variant("all_gather", _NCCL),
    Variant("reduce_scatter", _NCCL),
    Variant("all_to_all", _NCCL),
)
"""All but the first two are NCCL's operators (oneCCL's on Intel)."""


def time_s(
    variant: str,
    shape: CollectiveShape,
    device: Device,
    values: Constants,
    *,
    warm: bool = False,  # noqa: ARG001 – a message was just written: it lies where it lies
) -> Number:
    """Seconds within one node, launch included, as in a CUDA graph unless the shape says eager.

    Time grows with bytes; more ranks may be quicker (NVLink SHARP). A device
    without a link moves bytes through its memory.
    """
    link = device.link_bytes_per_s or device.bandwidth_bytes_per_s
    passes = 2.0 if variant.startswith("all_reduce") else 1.0
    if variant not in {ENGINE_ALL_REDUCE, CROSS_DEVICE}:
        wire_s = passes * _wire_s(shape.bytes, shape.ranks, link, values)
        return _soft(_latency_s(wire_s, shape.ranks, values), _bulk_s(wire_s, shape, values))
    below_s = _quickest_s if variant == ENGINE_ALL_REDUCE else _staged_s
    time_s = _engine_s(shape, link, values, below_s)
    copy_s = 2 * shape.bytes / (values["eta_copy"] * device.bandwidth_bytes_per_s)
    time_s = time_s + copy_s * shape.copied
    return time_s + (_soft(time_s, values["call_s"], _SHARP) - time_s) * shape.eager


MODEL = KernelModel("collective", {variant.name: variant for variant in VARIANTS}, time_s)


def share_of_link(values: Constants, ranks: Number) -> Number:
    """η_N. Fitted at 2, 4 and 8 ranks; between them steps count pro rata, beyond 8 it stays."""
    to_four = minimum(maximum((ranks - 2) / 2, 0.0), 1.0)
    to_eight = minimum(maximum((ranks - 4) / 4, 0.0), 1.0)
    return values["eta_2"] * values["step_4"] ** to_four * values["step_8"] ** to_eight


def _wire_s(size: Number, ranks: Number, link: float, values: Constants) -> Number:
    """Time of f·S bytes over the link for f = (N−1)/N."""
    return (ranks - 1) / ranks * size / (share_of_link(values, ranks) * link)


def _latency_s(wire_s: Number, ranks: Number, values: Constants) -> Number:
    return values["a1_s"] + values["h1_s"] * (ranks - 1) + values["r1"] * wire_s


def _bulk_s(wire_s: Number, shape: CollectiveShape, values: Constants) -> Number:
    return values["a3_s"] + values["h3_s"] * (shape.ranks - 1) + wire_s


def _engine_s(shape: CollectiveShape, link: float, values: Constants, below_s: _Below) -> Number:
    """Below the switch the engine's kernels; from it on bulk, and no less than just below."""
    switch = values["switch_bytes"]
    bulk_s = _bulk_s(2 * _wire_s(shape.bytes, shape.ranks, link, values), shape, values)
    small_s = below_s(minimum(shape.bytes, switch), shape, link, values)
    return where(shape.bytes < switch, small_s, maximum(bulk_s, small_s))


def _quickest_s(size: Number, shape: CollectiveShape, link: float, values: Constants) -> Number:
    wire_s = 2 * _wire_s(size, shape.ranks, link, values)
    one_shot_s, two_shot_s = _shots_s(wire_s, shape, values)
    return _soft(_soft(one_shot_s, two_shot_s), _bulk_s(wire_s, shape, values))


def _staged_s(size: Number, shape: CollectiveShape, link: float, values: Constants) -> Number:
    """One stage below a size, two from it on and no less than just below; two ranks take one."""
    few, many = _ONE_STAGE_BYTES
    limit = where(shape.ranks <= 4, float(few), float(many))  # noqa: PLR2004 – as the kernel has it
    limit = where(shape.ranks <= 2, size + 1.0, limit)  # noqa: PLR2004
    below, _ = _shots_s(2 * _wire_s(minimum(size, limit), shape.ranks, link, values), shape, values)
    _, above = _shots_s(2 * _wire_s(size, shape.ranks, link, values), shape, values)
    return where(size < limit, below, maximum(above, below))


def _shots_s(wire_s: Number, shape: CollectiveShape, values: Constants) -> tuple[Number, Number]:
    """In one shot and in two."""
    two_shot_s = values["a2_s"] + values["h2_s"] * (shape.ranks - 1) + values["r2"] * wire_s
    return _latency_s(wire_s * shape.ranks / 2, shape.ranks, values), two_shot_s


def _soft(first: Number, second: Number, order: float = -_SHARP) -> Number:
    """(aᵖ + bᵖ)^(1/p): near the smaller for a negative order, near the larger for a positive."""
    high, low = maximum(first, second), minimum(first, second)
    kept = high if order > 0 else low
    return kept * (1 + (low / high) ** abs(order)) ** (1 / order)
