"""vLLM's own all-reduce, which takes its kernel by message size and not by time.

S bytes among N ranks; w = 2·(N−1)/N·S/(η_N·link). Small messages go through the kernel that vLLM
wrote and SGLang took over until 0.5.11:

    one stage    t1 + r1·S·(N−1)^g1/(η_2·link)              with t1 = a1 + h1·(N−1)
    two stages   a2 + h2·(N−1) or t1 + r1·r21·w, softly the longer

In one stage each rank reads all the others, in part side by side (g1 below 1). Two stages meet half
way, and until all see what all wrote takes long, whatever the bytes: 26 us at eight B200, after 9
in one stage. They begin at 512 KiB, among more than four ranks at 256 KiB; two ranks have one.

vLLM from 0.11 on hands more to PyTorch's symmetric memory, which takes less for more (17 us of
1 MiB at eight B200): a copy in, a kernel of few blocks, a copy out, all three by S alone:

    symmetric    a4 in two shots, a5 by multimem, + r4·S/link

and yet more to NCCL, in bulk. Left out: lengths that are no multiple of 16 bytes go to NCCL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

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
from planner.cost.kernels.types import Constant, Constants, Variant
from planner.cost.types import Device
from planner.num import Number, maximum, minimum, where
from planner.records import dataclass

if TYPE_CHECKING:
    from planner.cost.kernels.collective import CollectiveShape

_MIB = 2**20
_ONE_STAGE_BYTES = (9e18, _MIB / 2, _MIB / 4, _MIB / 4)
"""Below it one stage, of 2, 4, 6 and 8 ranks (vLLM csrc/custom_all_reduce.cuh ``allreduce``)."""
_OWN_BYTES = (8.0 * _MIB,) * 4
"""Where its own kernel ends without symmetric memory: custom_all_reduce.py ``max_size``. SGLang's
tables have 8 MiB still in it, as its condition is; vLLM's has not."""


@dataclass(frozen=True)
class Sizes:
    """Up to where vLLM runs which kernel, of 2, 4, 6 and 8 ranks."""

    own: tuple[float, ...] = _OWN_BYTES
    """Below it the engine's own."""
    symmetric: tuple[float, ...] = (0.0,) * 4
    """Up to it, it included, symmetric memory."""
    multimem: int = 2
    """From so many ranks on that is multimem."""


def _sizes(own: tuple[float, ...], symmetric: tuple[float, ...], multimem: int) -> Sizes:
    return Sizes(tuple(n * _MIB for n in own), tuple(n * _MIB for n in symmetric), multimem)


SIZES: Mapping[str, Sizes] = {
    "hopper": _sizes((8, 8, 1 / 2, 1 / 4), (64, 32, 64, 64), 4),
    "blackwell": _sizes((2, 2, 1, 1), (8, 32, 128, 128), 6),
    "blackwell-ultra": _sizes((4, 4, 8, 4), (4, 32, 32, 64), 6),
}
"""By architecture: vLLM distributed/device_communicators/all_reduce_utils.py
``CUSTOM_ALL_REDUCE_MAX_SIZES`` (and at most 8 MiB), ``SYMM_MEM_ALL_REDUCE_MAX_SIZES``, and
symm_mem.py ``_WORLD_SIZES_MULTIMEM``, of 9.0, 10.0 and 10.3, the last since 0.19 (pull request
37756). In measured tables the upper end is NCCL's under 0.19 and symmetric memory's under 0.24."""
_NO_SIZES = Sizes()

CROSS_DEVICE = "all_reduce_cross_device"
"""Its own kernel alone: vLLM before 0.11, SGLang until 0.5.11."""
SYMMETRIC = "all_reduce_symmetric"
"""Its own kernel, symmetric memory and NCCL: vLLM from 0.11 on, where a GPU has multicast."""
_STAGES = (
    *ONE_SHOT,
    Constant("g1", "power of the ranks read in one stage", "1", 0.05, 1.5, 1.0),
    start("a2_s", "the two-shot kernel", 10),
    hop("h2_s", "two-shot kernel", 1),
    Constant("r21", "two-shot kernel's time per byte over one-shot's", "1", 0.3, 4.0, 1.1),
    start("a3_s", "the bulk protocol", 15),
    hop("h3_s", "bulk protocol", 1),
    *LINK,
)
_HOST = (
    Constant("call_s", "one eager call on the host", "s", 1 * US, 200 * US, 25 * US),
    Constant("copy_s", "start of the copy before an eager call", "s", 1 * US, 60 * US, 8 * US),
)
_SYMMETRIC = (
    start("a4_s", "symmetric memory's two-shot kernel", 15),
    start("a5_s", "multimem", 10),
    Constant("r4", "symmetric memory's time per byte over the link's", "1", 0.3, 12.0, 2.0),
    Constant("calls", "an eager call through symmetric memory over others", "1", 1.0, 4.0, 1.5),
)
VARIANTS = (
    Variant(CROSS_DEVICE, (*_STAGES, *_HOST)),
    Variant(
        SYMMETRIC,
        (*_STAGES, *_HOST, *_SYMMETRIC),
        lender=CROSS_DEVICE,
        lent=tuple(word.name for word in _STAGES if word.name not in {"a3_s", "h3_s"}),
    ),
)
NAMES = frozenset(variant.name for variant in VARIANTS)
_COPY_SHARE = 0.85
"""Of the memory bandwidth, in a copy of many bytes: 0.77 to 0.92 in tables of eager calls."""
_BLUNT = 4.0
"""Order of the soft maximum of two stages."""


def time_s(
    variant: str, shape: CollectiveShape, device: Device, link: float, values: Constants
) -> Number:
    """Seconds within one node, launch included; see `planner.cost.kernels.collective.time_s`.

    Time grows with bytes but for where symmetric memory takes over.
    """
    graph_s, own, symmetric = _captured(variant, shape, device, link, values)
    if shape.eager is False and shape.copied is False:
        return graph_s
    copy_s = 2 * shape.bytes / (_COPY_SHARE * device.bandwidth_bytes_per_s)
    ready_s = graph_s + (copy_s + where(own, values["copy_s"], 0.0)) * shape.copied
    call_s = values["call_s"] * where(symmetric, values.get("calls", 1.0), 1.0)
    return ready_s + (soft(ready_s, call_s, SHARP) - ready_s) * shape.eager


def _captured(
    variant: str, shape: CollectiveShape, device: Device, link: float, values: Constants
) -> tuple[Number, Number, Number]:
    """Seconds in a graph; whether the engine's own kernel runs; and whether symmetric memory."""
    size, ranks = shape.bytes, shape.ranks
    nccl_s = bulk_s(2 * wire_s(size, ranks, link, values), ranks, values)
    if variant == CROSS_DEVICE:
        last = _of(_OWN_BYTES, ranks)
        own_s = _staged_s(minimum(size, last), ranks, link, values)
        return where(size <= last, own_s, maximum(nccl_s, own_s)), size <= last, size < 0
    sizes = SIZES.get(device.architecture, _NO_SIZES)
    own = size < _of(sizes.own, ranks)
    symmetric = (size >= _of(sizes.own, ranks)) & (size <= _of(sizes.symmetric, ranks))
    above_s = where(symmetric, _symmetric_s(size, ranks, link, sizes, values), nccl_s)
    return where(own, _staged_s(size, ranks, link, values), above_s), own, symmetric


def _of(by_ranks: tuple[float, ...], ranks: Number) -> Number:
    two, four, six, eight = map(float, by_ranks)
    many = where(ranks <= 6, six, eight)  # noqa: PLR2004 – as the engine's tables are
    return where(ranks <= 2, two, where(ranks <= 4, four, many))  # noqa: PLR2004


def _staged_s(size: Number, ranks: Number, link: float, values: Constants) -> Number:
    """One stage below a size, two from it on and no less than just below."""
    limit = _of(_ONE_STAGE_BYTES, ranks)
    start_s = values["a1_s"] + values["h1_s"] * (ranks - 1)
    each_s = values["r1"] * (ranks - 1) ** values["g1"] / (values["eta_2"] * link)
    meeting_s = values["a2_s"] + values["h2_s"] * (ranks - 1)
    bytes_s = values["r1"] * values["r21"] * 2 * wire_s(size, ranks, link, values)
    below_s = start_s + each_s * minimum(size, limit)
    above_s = maximum(soft(meeting_s, start_s + bytes_s, _BLUNT), below_s)
    return where(size < limit, below_s, above_s)


def _symmetric_s(
    size: Number, ranks: Number, link: float, sizes: Sizes, values: Constants
) -> Number:
    start_s = where(ranks >= sizes.multimem, values["a5_s"], values["a4_s"])
    return start_s + values["r4"] * size / link
