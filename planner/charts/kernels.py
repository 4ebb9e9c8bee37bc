"""What kernels are called in pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from planner.plan.types import KernelRow

_LONGEST = 28


def kernel_labels(kernels: Sequence[KernelRow]) -> dict[KernelRow, str]:
    """A short name for each: its own, or its nodes' where several kernels are called the same."""
    count = Counter(kernel.name for kernel in kernels)
    return {
        kernel: kernel.name if count[kernel.name] == 1 else shortened(kernel.nodes)
        for kernel in kernels
    }


def shortened(nodes: Sequence[str]) -> str:
    """Names of nodes joined, cut where that is long."""
    text = " + ".join(nodes)
    if len(text) <= _LONGEST:
        return text
    first = nodes[0] if len(nodes[0]) <= _LONGEST else f"{nodes[0][: _LONGEST - 1]}…"
    return f"{first} + {len(nodes) - 1} more" if len(nodes) > 1 else first
