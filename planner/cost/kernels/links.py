"""What times of collectives are made of: shares of a link, bulk transfers, soft minima."""

from __future__ import annotations

from planner.cost.kernels.types import Constant, Constants
from planner.num import Number, maximum, minimum

SHARP = 8.0
"""Order of the soft minimum and maximum: within 9 % of the hard one at the corner."""
US = 1e-6
LINK = (
    Constant("eta_2", "share of the link's rate, 2 ranks", "ratio", 0.1, 1.1, 0.7, 1.0),
    Constant("step_4", "share of 4 ranks over that of 2", "1", 0.1, 2.0, 1.1),
    Constant("step_8", "share of 8 ranks over that of 4", "1", 0.2, 2.0, 1.0),
)


def start(name: str, what: str, typical_us: float) -> Constant:
    """The constant of a kernel's start."""
    return Constant(name, f"start of {what}", "s", 1 * US, 120 * US, typical_us * US)


def hop(name: str, what: str, typical_us: float) -> Constant:
    """The constant of what each rank beyond the first adds to it."""
    return Constant(
        name, f"{what}, each rank beyond the first", "s", 0.01 * US, 30 * US, typical_us * US
    )


ONE_SHOT = (
    start("a1_s", "the one-shot kernel", 4),
    hop("h1_s", "one-shot kernel", 0.2),
    Constant("r1", "one-shot kernel's time per byte over bulk's", "1", 0.3, 8.0, 1.2),
)
"""Of an engine's own all-reduce in which each rank reads all others."""


def share_of_link(values: Constants, ranks: Number) -> Number:
    """η_N. Fitted at 2, 4 and 8 ranks; between them steps count pro rata, beyond 8 it stays."""
    to_four = minimum(maximum((ranks - 2) / 2, 0.0), 1.0)
    to_eight = minimum(maximum((ranks - 4) / 4, 0.0), 1.0)
    return values["eta_2"] * values["step_4"] ** to_four * values["step_8"] ** to_eight


def wire_s(size: Number, ranks: Number, link: float, values: Constants) -> Number:
    """Time of f·S bytes over the link for f = (N−1)/N, in seconds."""
    return (ranks - 1) / ranks * size / (share_of_link(values, ranks) * link)


def bulk_s(wire_s: Number, ranks: Number, values: Constants) -> Number:
    """NCCL's bulk protocol, for the time that its bytes take on the link."""
    return values["a3_s"] + values["h3_s"] * (ranks - 1) + wire_s


def soft(first: Number, second: Number, order: float = -SHARP) -> Number:
    """(aᵖ + bᵖ)^(1/p): near the smaller for a negative order, near the larger for a positive."""
    high, low = maximum(first, second), minimum(first, second)
    kept = high if order > 0 else low
    return kept * (1 + (low / high) ** abs(order)) ** (1 / order)
