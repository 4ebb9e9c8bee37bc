"""Time of a collective among the GPUs of one node, from message size and ranks.

Each rank moves f·S bytes over its links, f = 2(N−1)/N for an all-reduce and (N−1)/N for the others;
w = f·S/(η_N·link) is the time that takes. Algorithms differ in what they pay to start and per byte,
and the library takes the quickest:

    latency    a1 + h1·(N−1) + r1·w         NCCL's LL protocol; for an engine's one-shot all-reduce
                                            w counts N/2 times, as every rank reads all the others
    two-shot   a2 + h2·(N−1) + r2·w         an engine's own reduce-scatter and all-gather
    bulk       a3 + h3·(N−1) + w            NCCL's rings, trees and NVLink SHARP

Engines keep their own kernels for messages below a size of theirs, the switch, and hand larger ones
to NCCL. Those that choose their kernel by size alone are in `planner.cost.kernels.all_reduce`.

Left out: more than one node, congestion from other traffic, and the gap between ranks that reach
the collective at different times.
"""

from __future__ import annotations

from planner.cost.kernels import all_reduce
from planner.cost.kernels.links import (
    LINK,
    ONE_SHOT,
    SHARP,
    US,
    bulk_s,
    hop,
    soft,
    start,
    wire_s,
)
from planner.cost.kernels.types import Constant, Constants, KernelModel, Variant
from planner.cost.types import Device
from planner.num import Number, maximum, minimum, where
from planner.records import dataclass

ENGINE_ALL_REDUCE = "all_reduce_engine"
"""What the engine calls: its own kernels and what it falls back to."""


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


_NCCL = (
    start("a1_s", "the latency protocol", 5),
    hop("h1_s", "latency protocol", 1),
    Constant("r1", "latency protocol's time per byte over bulk's", "1", 0.1, 60.0, 2.0),
    start("a3_s", "the bulk protocol", 10),
    hop("h3_s", "bulk protocol", 2),
    *LINK,
)
_ENGINE = (
    *ONE_SHOT,
    start("a2_s", "the two-shot kernel", 7),
    hop("h2_s", "two-shot kernel", 0.5),
    Constant("r2", "two-shot kernel's time per byte over bulk's", "1", 0.2, 4.0, 1.0),
    start("a3_s", "the bulk protocol", 15),
    hop("h3_s", "bulk protocol", 1),
    *LINK,
    Constant("switch_bytes", "from here on messages go to NCCL", "bytes", 1e6, 2e9, 8e6),
    Constant("call_s", "one eager call on the host", "s", 1 * US, 200 * US, 25 * US),
    Constant("eta_copy", "share of memory bandwidth in the copy", "ratio", 0.1, 1.2, 0.8, 1.0),
)

VARIANTS = (
    Variant(ENGINE_ALL_REDUCE, _ENGINE),
    *all_reduce.VARIANTS,
    Variant("all_reduce", _NCCL),
    Variant("all_gather", _NCCL),
    Variant("reduce_scatter", _NCCL),
    Variant("all_to_all", _NCCL),
)
"""All but the first three are NCCL's operators (oneCCL's on Intel)."""


def time_s(
    variant: str,
    shape: CollectiveShape,
    device: Device,
    values: Constants,
    *,
    warm: bool = False,  # noqa: ARG001 – a message was just written: it lies where it lies
) -> Number:
    """Seconds within one node, launch included, as in a CUDA graph unless the shape says eager.

    Time grows with bytes, but for where `all_reduce.SYMMETRIC` hands over; more ranks may be
    quicker (NVLink SHARP). A device without a link moves bytes through its memory.
    """
    link = device.link_bytes_per_s or device.bandwidth_bytes_per_s
    if variant in all_reduce.NAMES:
        return all_reduce.time_s(variant, shape, device, link, values)
    if variant == ENGINE_ALL_REDUCE:
        return _engine_s(shape, device, link, values)
    passes = 2.0 if variant == "all_reduce" else 1.0
    moved_s = passes * wire_s(shape.bytes, shape.ranks, link, values)
    return soft(_latency_s(moved_s, shape.ranks, values), bulk_s(moved_s, shape.ranks, values))


MODEL = KernelModel("collective", {variant.name: variant for variant in VARIANTS}, time_s)


def _latency_s(moved_s: Number, ranks: Number, values: Constants) -> Number:
    return values["a1_s"] + values["h1_s"] * (ranks - 1) + values["r1"] * moved_s


def _engine_s(shape: CollectiveShape, device: Device, link: float, values: Constants) -> Number:
    """As measured: after a copy of its own, and never quicker than the host calls."""
    time_s = _switched_s(shape, link, values)
    copy_s = 2 * shape.bytes / (values["eta_copy"] * device.bandwidth_bytes_per_s)
    time_s = time_s + copy_s * shape.copied
    return time_s + (soft(time_s, values["call_s"], SHARP) - time_s) * shape.eager


def _switched_s(shape: CollectiveShape, link: float, values: Constants) -> Number:
    """Below the switch the quickest kernel; from it on bulk, and no less than just below."""
    switch, ranks = values["switch_bytes"], shape.ranks
    large_s = bulk_s(2 * wire_s(shape.bytes, ranks, link, values), ranks, values)
    small_s = _quickest_s(minimum(shape.bytes, switch), ranks, link, values)
    return where(shape.bytes < switch, small_s, maximum(large_s, small_s))


def _quickest_s(size: Number, ranks: Number, link: float, values: Constants) -> Number:
    moved_s = 2 * wire_s(size, ranks, link, values)
    one_shot_s = _latency_s(moved_s * ranks / 2, ranks, values)
    two_shot_s = values["a2_s"] + values["h2_s"] * (ranks - 1) + values["r2"] * moved_s
    return soft(soft(one_shot_s, two_shot_s), bulk_s(moved_s, ranks, values))
