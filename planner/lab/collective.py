"""All-reduce over the devices of this machine, a process each: NCCL on GPUs, gloo on a CPU."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from planner.lab.bench import Bench
from planner.lab.journal import Point

SIZES = tuple(2**power for power in range(12, 27, 2))
"""Bytes of the tensor that is reduced: 4 KiB to 64 MiB."""
_ROUNDS = 20
_PORT = 0


def measure(bench: Bench, budget_s: float) -> Iterator[Point]:
    """A point for each size over all GPUs; none where there is only one device."""
    if bench.machine.count > 1:
        yield from over(bench, bench.machine.count, SIZES, budget_s)


def over(
    bench: Bench, ranks: int, sizes: tuple[int, ...], budget_s: float
) -> Iterator[Point]:
    """A point for each size, measured by so many processes at once."""
    wanted = [{"bytes": size, "ranks": ranks} for size in sizes]
    if all(bench.journal.known("collective", each) for each in wanted):
        yield from bench.journal.of("collective")
        return
    with bench.torch.multiprocessing.Manager() as manager:
        times: Any = manager.dict()
        bench.torch.multiprocessing.spawn(
            _rank,
            (ranks, bench.job.device, _free_port(), sizes, budget_s / len(sizes), times),
            nprocs=ranks,
        )
        for each in wanted:
            yield bench.journal.add(Point("collective", each, {"median_s": times[each["bytes"]]}))


def _rank(
    rank: int, ranks: int, device: str, port: int, sizes: tuple[int, ...], each_s: float, times: Any
) -> None:
    """One process: all of them time, the first one tells."""
    import torch
    from torch import distributed

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    backend = "nccl" if device == "cuda" else "gloo"
    distributed.init_process_group(backend, rank=rank, world_size=ranks)
    place = f"cuda:{rank}" if device == "cuda" else "cpu"
    for size in sizes:
        tensor = torch.ones(size // 2, dtype=torch.bfloat16, device=place)
        rounds = []
        end = time.perf_counter() + each_s
        for number in range(_ROUNDS):
            _wait(torch, device)
            distributed.barrier()
            began = time.perf_counter()
            distributed.all_reduce(tensor)
            _wait(torch, device)
            rounds.append(time.perf_counter() - began)
            late = torch.tensor([float(time.perf_counter() > end)], device=place)
            distributed.all_reduce(late)  # all stop at once, or the rest would wait for ever
            if number >= 2 and late.item() > 0:  # noqa: PLR2004 - a median needs three
                break
        if rank == 0:
            times[size] = median(rounds)
    distributed.destroy_process_group()


def _wait(torch: Any, device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", _PORT))
        return int(probe.getsockname()[1])
