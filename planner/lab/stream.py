"""Memory bandwidth: copy (read a, write b) and triad (read a and b, write c), small to large.

Repeated on the same tensors: small ones stay in the cache, as activations do between two kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from planner.lab.bench import Bench, shares
from planner.lab.journal import Point

ROWS = (1, 2, 4, 16, 64, 256, 1024)
_WIDTHS = (1, 4, 16)
"""Row lengths, in hidden sizes."""
LARGE_BYTES = 2**28
"""Size of the tensors whose rate counts as the machine's bandwidth."""
_LARGE_ROWS = 256


def measure(bench: Bench, budget_s: float) -> Iterator[Point]:
    """A point for each operation, number of rows and row length, then the large ones."""
    hidden, width = bench.job.hidden, bench.element_bytes
    shapes = [(rows, hidden * wide) for rows in ROWS for wide in _WIDTHS]
    large = min(LARGE_BYTES, bench.machine.memory_bytes // 16)
    shapes.append((_LARGE_ROWS, large // width // _LARGE_ROWS))
    each_s = shares(budget_s, 2 * len(shapes))
    for rows, columns in shapes:
        for operation in ("copy", "triad"):
            sizes = {
                "operation": operation,
                "rows": rows,
                "columns": columns,
                "dtype": bench.job.dtype,
            }
            make = partial(_calls, bench, operation, (rows, columns))
            yield bench.measure("stream", sizes, make, each_s)


def _calls(bench: Bench, operation: str, shape: tuple[int, int]) -> list[Any]:
    ((a, b, c),) = bench.pool.cut(1, shape, shape, shape)
    if operation == "copy":
        return [partial(c.copy_, a)]
    return [partial(bench.torch.add, a, b, alpha=0.5, out=c)]
