"""All-reduce over the devices of this machine, a process each: NCCL on GPUs, gloo on a CPU."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from planner.lab.bench import Bench
from planner.lab.journal import Point

SIZES = tuple(2**power for power in range(12, 27, 2))
"""Bytes of the tensor that is reduced: 4 KiB to 64 MiB."""
_ROUNDS = 20
_PORT = 0


def measure(bench: Bench, budget_s: float) -> Iterator[Point]:
    """A point for each size over all GPUs; none where there is only one device.

    Only in the first lap: starting the processes takes longer than the measurements.
    """
    if bench.machine.count > 1 and not bench.journal.lap:
        yield from over(bench, bench.machine.count, SIZES, budget_s)


def over(bench: Bench, ranks: int, sizes: tuple[int, ...], budget_s: float) -> Iterator[Point]:
    """A point for each size, measured by so many processes at once."""
    wanted = [{"bytes": size, "ranks": ranks} for size in sizes]
    if all(bench.journal.known("collective", each) for each in wanted):
        yield from bench.journal.of("collective")
        return
    with bench.torch.multiprocessing.Manager() as manager:
        times: Any = manager.dict()
        bench.torch.multiprocessing.spawn(
            _rank,
            (_Group(ranks, bench.job.device, _free_port(), sizes, budget_s / len(sizes)), times),
            nprocs=ranks,
        )
        for each in wanted:
            yield bench.journal.add("collective", each, {"median_s": times[each["bytes"]]})


@dataclass(frozen=True)
class _Group:
    """What every process must know."""

    ranks: int
    device: str
    port: int
    sizes: tuple[int, ...]
    each_s: float


def _rank(rank: int, group: _Group, times: Any) -> None:
    """One process: all of them time, the first one tells."""
    import torch
    from torch import distributed

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(group.port)}
    backend = "nccl" if group.device == "cuda" else "gloo"
    distributed.init_process_group(backend, rank=rank, world_size=group.ranks)
    place = f"cuda:{rank}" if group.device == "cuda" else "cpu"
    for size in group.sizes:
        tensor = torch.ones(size // 2, dtype=torch.bfloat16, device=place)
        found = median(_rounds(torch, group, tensor))
        if rank == 0:
            times[size] = found
    distributed.destroy_process_group()


def _rounds(torch: Any, group: _Group, tensor: Any) -> Iterator[float]:
    """Times of one process, until any of them has spent its time: the rest would wait for ever."""
    distributed = torch.distributed
    end = time.perf_counter() + group.each_s
    for number in range(_ROUNDS):
        _wait(torch, group.device)
        distributed.barrier()
        began = time.perf_counter()
        distributed.all_reduce(tensor)
        _wait(torch, group.device)
        yield time.perf_counter() - began
        late = torch.tensor([float(time.perf_counter() > end)], device=tensor.device)
        distributed.all_reduce(late)
        if number >= 2 and late.item() > 0:  # noqa: PLR2004 - a median needs three
            return


def _wait(torch: Any, device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", _PORT))
        return int(probe.getsockname()[1])
