"""Which names of a trace may be which kernels of a plan, by the engine's rules."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.plan.types import KernelRow

_LATE = re.compile(
    r"(?i)split_?k_?reduce|reduce_1block|combine|reduce_segments|merge_?states|_stage2"
)
"""Kernels that finish another's work: cuBLAS's split-K and GEMV reductions, FlashAttention's
combine, vLLM's segments, FlashInfer's merge, the second stage of Triton's decode attention."""


class FittingNames:
    """The names of a trace, numbered, against the distinct sets of patterns of a plan."""

    def __init__(self, names: Sequence[str], kernels: Sequence[KernelRow]) -> None:
        known = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self.numbers = [known[name] for name in names]
        """For each given name its number."""
        patterns = list(dict.fromkeys(kernel.profile_patterns for kernel in kernels))
        self._columns = [patterns.index(kernel.profile_patterns) for kernel in kernels]
        searches = [[re.compile(text).search for text in each] for each in patterns]
        self.table = [[any(search(name) for search in each) for each in searches] for name in known]
        """By number and column, whether a name may be of a kernel."""
        self.late = [bool(_LATE.search(name)) for name in known]

    def column(self, kernel: int) -> int:
        """The column of the plan's kernel at a position."""
        return self._columns[kernel]

    def kernels(self, at: int) -> tuple[int, ...]:
        """The plan's kernels that the name given at a position may be of."""
        row = self.table[self.numbers[at]]
        return tuple(kernel for kernel, column in enumerate(self._columns) if row[column])
