"""Time of kernels that stream tensors through: norms, activations, adds, rotary embedding, casts.

    t = t0 + u·row_bytes + (memory^p + blocks^p)^(1/p)
    memory = bytes/(η·BW), less what the L2 holds when warm;   blocks = rows·c/SMs

A row is what one thread block works on: its passes one after another cost u per byte, and short
rows cost the start of a block each, c, on one of the multiprocessors. Bandwidth therefore grows
with size, as measured; a bare bytes/BW is several times too quick below a megabyte. Left out:
arithmetic (a norm stays far below the vector units' rate) and strided access.
"""

from __future__ import annotations

from planner.cost.kernels.types import Constant, Constants, KernelModel, Variant
from planner.cost.types import Device
from planner.num import Number
from planner.records import dataclass

STREAM = Variant(
    "stream",
    (
        Constant("t0_s", "launch and drain of a graph node", "s", 5e-7, 2e-5, 1.9e-6),
        Constant("eta", "share of memory bandwidth", "ratio", 0.1, 1.1, 0.87, 1.0),
        Constant("block_s", "start of a thread block", "s", 1e-9, 2e-6, 8e-8),
        Constant("serial_s_per_byte", "passes over one row", "s/byte", 1e-13, 1e-9, 2e-11),
        Constant("p", "overlap of memory and blocks", "1", 1.0, 8.0, 1.6),
        Constant("l2_speed", "L2 over memory bandwidth, warm only", "1", 1.0, 10.0, 2.0),
        Constant("l2_share", "share of the L2 that holds data, warm only", "1", 0.1, 2.0, 0.75),
    ),
)
_SMS_UNKNOWN = 100
_L2_EDGE = 6
"""How sharply hits fall once the data outgrow the L2."""


@dataclass(frozen=True)
class ElementwiseShape:
    """What a kernel reads and writes, each byte once; arrays or numbers."""

    read_bytes: Number
    write_bytes: Number
    rows: Number
    """Rows worked on one by one: tokens, for a norm."""


def time_s(
    variant: str,  # noqa: ARG001 – there is one
    shape: ElementwiseShape,
    device: Device,
    values: Constants,
    *,
    warm: bool = False,
) -> Number:
    """Seconds of one pass through memory, launch included."""
    size = shape.read_bytes + shape.write_bytes
    memory_s = size / (values["eta"] * device.bandwidth_bytes_per_s)
    if warm and device.l2_bytes:
        held = 1 / (1 + (size / (values["l2_share"] * device.l2_bytes)) ** _L2_EDGE)
        memory_s = memory_s * (1 - held * (1 - 1 / values["l2_speed"]))
    blocks_s = shape.rows * values["block_s"] / (device.multiprocessors or _SMS_UNKNOWN)
    p = values["p"]
    moved_s = (memory_s**p + blocks_s**p) ** (1 / p)
    return values["t0_s"] + values["serial_s_per_byte"] * size / shape.rows + moved_s


MODEL = KernelModel("elementwise", {STREAM.name: STREAM}, time_s)
