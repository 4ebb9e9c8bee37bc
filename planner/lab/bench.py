"""What every measurement of the lab needs at hand: torch, the device, formats, cold operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from planner.lab.cold import Pool
from planner.lab.job import Job
from planner.lab.journal import Journal, Point
from planner.lab.machine import Machine
from planner.lab.timing import Call, Stopwatch, Timed

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_COLD = 4
"""Copies of an operand together are so many times the cache."""
_MOST_COPIES = 1024
_MOST_BYTES = 2**31
_UNKNOWN_CACHE = 64 * 2**20

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Bench:
    """One lab run's surroundings."""

    torch: Any
    job: Job
    machine: Machine
    stopwatch: Stopwatch
    journal: Journal
    progress: Progress
    pool: Pool
    """Operands that are read."""

    @property
    def dtype(self) -> Any:
        """The job's number format, as torch calls it."""
        return getattr(self.torch, DTYPES[self.job.dtype])

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of the job's format."""
        return int(self.dtype.itemsize)

    def random(self, *shape: int, dtype: Any = None) -> Any:
        """A tensor of small random numbers on the device."""
        made = self.torch.empty(*shape, dtype=dtype or self.dtype, device=self.job.device)
        return made.uniform_(-0.05, 0.05)

    def copies(self, size_bytes: float) -> int:
        """Copies of an operand that push each other out of the cache, as memory allows."""
        cache = self.machine.cache_bytes or _UNKNOWN_CACHE
        wanted = max(1, -(-_COLD * cache // max(1, int(size_bytes))))
        room = max(1, int(min(_MOST_BYTES, self.machine.memory_bytes / 8) // max(1, size_bytes)))
        return min(wanted, room, _MOST_COPIES)

    def measure(
        self,
        kind: str,
        sizes: Mapping[str, Any],
        make: Callable[[], Sequence[Call]],
        budget_s: float,
    ) -> Point:
        """Time calls and keep the point; one that an earlier run measured is not measured again."""
        known = self.journal.known(kind, sizes)
        if known:
            return known
        timed = self.stopwatch.time(make(), budget_s)
        return self.journal.add(kind, sizes, values(timed))


def values(timed: Timed) -> dict[str, Any]:
    """What a point keeps of times."""
    return asdict(timed)


def synchronise(bench: Bench) -> None:
    """Wait for the device; a CPU is done when a call returns."""
    if bench.job.device == "cuda":
        bench.torch.cuda.synchronize()


def shares(total_s: float, count: int) -> float:
    """A section's time, evenly over its points."""
    return total_s / max(1, count)


Section = Callable[[Bench, float], Iterator[Point]]
"""One kind of measurement: its points, within so many seconds."""
