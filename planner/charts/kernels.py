"""What kernels are called in pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from planner.plan.types import KernelRow

_LONGEST = 28


def kernel_labels(kernels: Sequence[KernelRow]) -> dict[KernelRow, str]:
    """A short name for each: its own, its nodes' where several kernels are called the same, with
    the block where that does not tell them apart either.
    """
    count = Counter(kernel.name for kernel in kernels)
    first = {
        kernel: kernel.name if count[kernel.name] == 1 else shortened(kernel.nodes)
        for kernel in kernels
    }
    again = Counter(first.values())
    return {
        kernel: name if again[name] == 1 else f"{name} ({kernel.block})"
        for kernel, name in first.items()
    }


def shortened(nodes: Sequence[str]) -> str:
    """Names of nodes joined, cut where that is long; parts of one composite are that."""
    whole = {node.rpartition(".")[0] for node in nodes}
    if len(nodes) > 1 and len(whole) == 1 and "" not in whole:
        return whole.pop()
    text = " + ".join(nodes)
    if len(text) <= _LONGEST:
        return text
    first = nodes[0] if len(nodes[0]) <= _LONGEST else f"{nodes[0][: _LONGEST - 1]}…"
    return f"{first} + {len(nodes) - 1} more" if len(nodes) > 1 else first
