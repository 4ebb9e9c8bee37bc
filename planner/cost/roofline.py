"""The roofline: T = max(FLOPs / peak, bytes / bandwidth).

Source: Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Roofline:
    """Time of one operator on the roofline."""

    time_s: float
    bound: Literal["compute", "memory"]
    flops_per_byte: float
    ridge_flops_per_byte: float


def roofline(
    *, flops: float, hbm_bytes: float, peak_flops_per_s: float, bandwidth_bytes_per_s: float
) -> Roofline:
    """Time and bound of an operator that does ``flops`` and moves ``hbm_bytes``.

    All SI: FLOP, bytes, FLOP/s, bytes/s; the time is in seconds.
    Raises ValueError for a negative amount or a rate that is not above zero.
    """
    if min(flops, hbm_bytes) < 0 or min(peak_flops_per_s, bandwidth_bytes_per_s) <= 0:
        raise ValueError("amounts must not be negative and rates must be above zero")
    compute_s = flops / peak_flops_per_s
    memory_s = hbm_bytes / bandwidth_bytes_per_s
    ridge = peak_flops_per_s / bandwidth_bytes_per_s
    intensity = flops / hbm_bytes if hbm_bytes else (math.inf if flops else 0.0)
    bound: Literal["compute", "memory"] = "compute" if intensity >= ridge else "memory"
    return Roofline(max(compute_s, memory_s), bound, intensity, ridge)
