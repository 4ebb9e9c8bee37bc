"""Time of a collective from message size and ranks: a latency algorithm and a bandwidth one.

Each rank moves f·S bytes over its links: f = 2(N−1)/N for an all-reduce, (N−1)/N for the others.
Low-latency kernels (one-shot all-reduce, NCCL's LL) pay little to start and more per byte; bulk
kernels (two-shot, ring, Simple) the other way round. The engine takes the quicker, so the time is
the smaller of the two, with a soft corner:

    latency   a1 + h1·(N−1) + r·w·k        k = N/2 for one-shot, where every rank reads all others
    bulk      A + w + κ·√(A·w)             A = a2 + h2·(N−1), w = f·S/(η_N·link)
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.kernels.types import Constant, Constants, Variant
from planner.cost.types import Device
from planner.num import Number, maximum, minimum

_SHARP = 8.0
"""Order of the soft minimum and maximum: within 9 % of the hard one at the corner."""

_US = 1e-6


@dataclass(frozen=True)
class CollectiveShape:
    """A message among the ranks of one node; arrays or numbers."""

    bytes: Number
    """S: the whole tensor. What all ranks hold together after an all-gather, before a
    reduce-scatter; what one rank sends and receives, its own share included, in an all-to-all."""
    ranks: Number
    eager: Number = False
    """Called from the host one by one, so no quicker than the host can call."""
    copied: Number = False
    """The caller copies the tensor first, as a benchmark of an in-place operator does."""


def _constant(
    name: str, meaning: str, unit: str, low: float, high: float, start: float
) -> Constant:
    return Constant(name, meaning, unit, low, high, start)


_SHARED = (
    _constant("a1_s", "start of the latency kernel", "s", 0.5 * _US, 200 * _US, 4 * _US),
    _constant("h1_s", "latency kernel, per further rank", "s", 0.001 * _US, 40 * _US, 0.2 * _US),
    _constant("r", "latency kernel: bytes over the link per byte of bulk", "1", 0.1, 60.0, 1.5),
    _constant("a2_s", "start of the bulk kernel", "s", 0.5 * _US, 200 * _US, 8 * _US),
    _constant("h2_s", "bulk kernel, per further rank", "s", 0.001 * _US, 40 * _US, 1.0 * _US),
)
_LINK = (
    Constant("eta_2", "share of the link's rate, 2 ranks", "ratio", 0.01, 1.8, 0.75, 1.0),
    _constant("step_4", "4 ranks' share over 2 ranks'", "ratio", 0.05, 2.5, 1.0),
    _constant("step_8", "8 ranks' share over 4 ranks'", "ratio", 0.05, 2.5, 1.0),
)
_ENGINE = (
    _constant("kappa", "pipeline not yet full between start and bulk", "1", 0.001, 4.0, 0.5),
    _constant("call_s", "one eager call on the host", "s", 1 * _US, 200 * _US, 25 * _US),
    Constant("eta_copy", "share of memory bandwidth in the copy", "ratio", 0.1, 1.2, 0.85, 1.0),
)

VARIANTS = (
    Variant("all_reduce_engine", _SHARED + _LINK + _ENGINE),
    Variant("all_reduce", _SHARED + _LINK),
    Variant("all_gather", _SHARED + _LINK),
    Variant("reduce_scatter", _SHARED + _LINK),
    Variant("all_to_all", _SHARED + _LINK),
)
"""``all_reduce_engine`` is what the engine calls, its own kernels and what it falls back to; the
others are NCCL's (oneCCL's on Intel)."""


def share_of_link(values: Constants, ranks: Number) -> Number:
    """η_N: 2, 4 and 8 ranks are measured; between them the steps are taken pro rata."""
    to_four = minimum(maximum((ranks - 2) / 2, 0.0), 1.0)
    to_eight = minimum(maximum((ranks - 4) / 4, 0.0), 1.0)
    return values["eta_2"] * values["step_4"] ** to_four * values["step_8"] ** to_eight


class CollectiveModel:
    """The collectives of one node, GPU to GPU."""

    family = "collective"

    def __init__(self) -> None:
        self._variants = {variant.name: variant for variant in VARIANTS}

    def variant(self, name: str) -> Variant:
        """The variant of that name. Raises KeyError."""
        return self._variants[name]

    def time_s(
        self,
        variant: str,
        shape: CollectiveShape,
        device: Device,
        values: Constants,
        *,
        warm: bool = False,  # noqa: ARG002 – messages are small beside weights, always L2-warm
    ) -> Number:
        """Seconds, launch included. A device without a link moves bytes through its memory."""
        engine = variant == "all_reduce_engine"
        peers = maximum(shape.ranks, 1) - 1
        passes = 2.0 if variant.startswith("all_reduce") else 1.0
        link = device.link_bytes_per_s or device.bandwidth_bytes_per_s
        share = passes * peers / maximum(shape.ranks, 1)
        bulk_s = share * shape.bytes / (share_of_link(values, shape.ranks) * link)
        fan = shape.ranks / 2 if engine else 1.0
        latency_s = values["a1_s"] + values["h1_s"] * peers + values["r"] * bulk_s * fan
        start_s = values["a2_s"] + values["h2_s"] * peers
        ramp_s = values["kappa"] * (start_s * bulk_s) ** 0.5 if engine else 0.0
        time_s = _soft(latency_s, start_s + bulk_s + ramp_s, -_SHARP)
        return self._called(time_s, shape, device, values) if engine else time_s

    def _called(
        self, time_s: Number, shape: CollectiveShape, device: Device, values: Constants
    ) -> Number:
        copy_s = 2 * shape.bytes / (values["eta_copy"] * device.bandwidth_bytes_per_s)
        time_s = time_s + copy_s * shape.copied
        called_s = _soft(time_s, values["call_s"], _SHARP)
        return time_s + (called_s - time_s) * shape.eager


def _soft(first: Number, second: Number, order: float) -> Number:
    """(aᵖ + bᵖ)^(1/p) of two times, scaled by the larger so that no power overflows."""
    high, low = maximum(first, second), minimum(first, second)
    ratio = low / high
    if order > 0:
        return high * (1 + ratio**order) ** (1 / order)
    return low * (1 + ratio**-order) ** (1 / order)
