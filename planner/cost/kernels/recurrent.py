"""Time of kernels that carry a state along each sequence: delta rule, short convolution.

    t = floor + (serial^p + pieces^p + memory^p)^(1/p)
    serial = steps·step_s;   pieces = (pieces·piece_s + states·state_s)/SMs
    memory = bytes/(η·BW), less what the L2 holds when warm

A prompt is walked in chunks, one after another, for a chunk begins with the state that the last
one left: however few heads there are, so many steps take their time. Chunks of all heads and
sequences are pieces that multiprocessors share, and each state is brought in and put back once. A
decode step is one chunk of one token. ``delta_chunks`` is a chain of Triton kernels, each of which
hands what it found of a chunk to the next through memory (flash-linear-attention);
``delta_chunks_flashinfer`` is one kernel that keeps all of it on the chip.

Left out: matrix FLOPs, which stay far below the peak, and that heads which share keys read them
once.
"""

from __future__ import annotations

from planner.cost.kernels.types import Constant, Constants, KernelModel, Variant
from planner.cost.types import Device
from planner.num import Number
from planner.records import dataclass

CHUNKS, FLASHINFER, STEPS = "delta_chunks", "delta_chunks_flashinfer", "delta_steps"
CONV_PROMPTS, CONV_STEPS = "conv_prompts", "conv_steps"

_FLOOR = Constant("floor_s", "launch and drain, of all kernels of a chain", "s", 5e-7, 2e-4, 5e-6)
_STEP = Constant("step_s", "one chunk of a sequence after another", "s", 1e-9, 5e-5, 1e-6)
_PIECE = Constant("piece_s", "one chunk of a head on one multiprocessor", "s", 1e-10, 1e-4, 1e-7)
_STATE = Constant("state_s", "one state on one multiprocessor", "s", 1e-10, 1e-4, 1e-7)
_MEMORY = (
    Constant("eta", "share of memory bandwidth", "ratio", 0.05, 1.1, 0.6, 1.0),
    Constant("p", "overlap of steps, pieces and memory", "1", 1.0, 8.0, 1.6),
    Constant("l2_speed", "L2 over memory bandwidth, warm only", "1", 1.0, 10.0, 2.0),
    Constant("l2_share", "share of the L2 that holds data, warm only", "1", 0.1, 2.0, 0.75),
)
_WALKED = (_FLOOR, _STEP, _PIECE, _STATE, *_MEMORY)
_AT_ONCE = (_FLOOR, _PIECE, *_MEMORY)
VARIANTS = {
    **{name: Variant(name, _WALKED) for name in (CHUNKS, FLASHINFER)},
    **{name: Variant(name, _AT_ONCE) for name in (STEPS, CONV_PROMPTS, CONV_STEPS)},
}
"""Of one token each state is one piece, and a convolution looks back a few rows: nothing waits."""
_SMS_UNKNOWN = 100
_L2_EDGE = 6
"""How sharply hits fall once the data outgrow the L2."""


@dataclass(frozen=True)
class RecurrentShape:
    """What a kernel walks and moves; arrays or numbers."""

    steps: Number
    """Chunks of the longest sequence; convolutions wait for none."""
    pieces: Number
    """Chunks of all heads and sequences; of a convolution rows."""
    states: Number
    """Heads of all sequences."""
    moved_bytes: Number
    """Inputs, outputs and states, each read or written once."""
    handed_bytes: Number = 0.0
    """What kernels of a chain hand on, written and read."""


def time_s(
    variant: str,
    shape: RecurrentShape,
    device: Device,
    values: Constants,
    *,
    warm: bool = False,
) -> Number:
    """Seconds of all sequences, launch included."""
    size = shape.moved_bytes + (0.0 if variant == FLASHINFER else shape.handed_bytes)
    memory_s = size / (values["eta"] * device.bandwidth_bytes_per_s)
    if warm and device.l2_bytes:
        held = 1 / (1 + (size / (values["l2_share"] * device.l2_bytes)) ** _L2_EDGE)
        memory_s = memory_s * (1 - held * (1 - 1 / values["l2_speed"]))
    pieces_s = shape.pieces * values["piece_s"] + shape.states * values.get("state_s", 0.0)
    pieces_s = pieces_s / (device.multiprocessors or _SMS_UNKNOWN)
    steps_s = shape.steps * values.get("step_s", 0.0)
    p = values["p"]
    return values["floor_s"] + (memory_s**p + pieces_s**p + steps_s**p) ** (1 / p)


MODEL = KernelModel("recurrent", VARIANTS, time_s)
