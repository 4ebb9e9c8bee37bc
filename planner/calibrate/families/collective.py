"""Collectives: each engine's all-reduce, and NCCL's (oneCCL's) four operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.calibrate import aiconfigurator, lint
from planner.calibrate.aiconfigurator import Table
from planner.calibrate.registry import register
from planner.calibrate.types import Family, Mask, Pick, Rows
from planner.cost.kernels.all_reduce import CROSS_DEVICE, NAMES, SYMMETRIC
from planner.cost.kernels.collective import ENGINE_ALL_REDUCE, MODEL, CollectiveShape
from planner.cost.kernels.types import Constants
from planner.cost.types import Device

if TYPE_CHECKING:
    import numpy.typing as npt

    Columns = dict[str, npt.NDArray[Any]]

FILES = ("custom_allreduce_perf", "nccl_perf", "oneccl_perf")
BYTES = {"bfloat16": 2, "half": 2, "int8": 1}
"""Of a message's element; sizes are in elements."""
VARIANTS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
NODE_RANKS = {"gb200": 4, "gb300": 4}
"""GPUs of one node, 8 where not named: beyond it a message goes through other switches."""
SWITCHES_BYTES = {"vllm": (8e6,), "sglang": (1.6e7, 3.2e7), "tensorrt-llm": (1.9e9,)}
"""Where engines hand over to NCCL: vLLM from 8 MiB, SGLang from 16 or 32 MiB by version, and
TensorRT-LLM by cost, with no size of its own. Seen as jumps in the measured times."""
REWRITTEN = ("sglang", "0.5.12")
"""Whose tables of older versions are of vLLM's kernel and nothing else: later ones are of its
rewrite, and vLLM's own of multimem as well. https://github.com/sgl-project/sglang/pull/24363"""
RAN_IT = ("sglang", "vllm")
"""Engines that ran that kernel by itself, so that both are priced by those tables."""
MULTICAST = ("h100-sxm", "h200-sxm", "b200-sxm", "b300-sxm", "gb300")
"""GPUs whose newest tables of vLLM have its symmetric memory. That of GB200 has none: its own
kernel ran to 8 MiB there and NCCL from then on, with half the rate of GB200's other tables."""
NO_NVLINK = ("l40s", "rtx-pro-6000-server")
"""GPUs whose ranks meet over PCI Express: there the kernel stayed, and sizes do not decide."""


def tables(root: Path, pick: Pick) -> Iterator[Rows]:
    """The newest table of each GPU, library and engine, split by operator; of a rewritten
    all-reduce the newest from before as well, and first, since it lends constants.
    """
    for table in _cross_device(root, pick):
        yield from _split(table, CROSS_DEVICE)
    for name in FILES:
        for table in aiconfigurator.newest(root, "comm", name, pick):
            if name == "nccl_perf" and table.engine != "nccl":
                continue
            yield from _split(table, _newest(table) if name == FILES[0] else "")


def _newest(table: Table) -> str:
    symmetric = table.engine == "vllm" and table.gpu in MULTICAST
    return SYMMETRIC if symmetric else ENGINE_ALL_REDUCE


def _cross_device(root: Path, pick: Pick) -> Iterator[Table]:
    """Of each GPU with NVLink the last table of vLLM's kernel, for each engine that ran it."""
    engine, first = REWRITTEN
    every = aiconfigurator.tables(root, "comm", FILES[0], Pick(pick.gpus, frozenset({engine})))
    key = aiconfigurator.version_key
    older = {t.gpu: t for t in every if key(t.version) < key(first)}
    for gpu, table in older.items():
        if gpu not in NO_NVLINK:
            yield from (replace(table, engine=e) for e in RAN_IT if pick.wants(gpu, e))


def _split(table: Table, kernel: str) -> Iterator[Rows]:
    """``kernel`` is the engine's all-reduce that was measured, nothing for a library's."""
    engine = bool(kernel)
    dtype = "allreduce_dtype" if engine else "nccl_dtype"
    names = ["op_name", "kernel_source", dtype, "num_gpus", "message_size"]
    columns = aiconfigurator.read(table, names)
    columns["bytes"] = columns["message_size"] * np.array([BYTES[word] for word in columns[dtype]])
    columns["eager"] = np.array(["eager" in source for source in columns["kernel_source"]])
    columns["int8"] = columns[dtype] == "int8"
    for operator in sorted(set(columns["op_name"].tolist())):
        mine = columns["op_name"] == operator
        variant = kernel or VARIANTS[operator]
        yield _rows(table, variant, {name: column[mine] for name, column in columns.items()})


def _rows(table: Table, variant: str, columns: Columns) -> Rows:
    keys = [columns[name] for name in ("num_gpus", "eager", "int8", "bytes")]
    merged = lint.merge(keys, columns["time_s"])
    ranks, eager, _int8, size = (key[merged.first].astype(np.float64) for key in keys)
    flags = _flags(table, variant, {n: c[merged.first] for n, c in columns.items()}, merged.time_s)
    return Rows(
        family="collective",
        gpu=table.gpu,
        engine=table.engine,
        version=table.version,
        variant=variant,
        source=table.source,
        shape=CollectiveShape(size, ranks, eager, eager),
        time_s=merged.time_s,
        lint=flags,
        kept=lint.kept(flags, len(size)),
        merged=merged.repeats,
        evenly=variant in NAMES,
    )


def _flags(
    table: Table, variant: str, columns: Columns, time_s: npt.NDArray[np.float64]
) -> dict[str, Mask]:
    """Reductions of INT8 are no serving traffic and miss NVLink SHARP, so they stand outside."""
    outside = columns["num_gpus"] > NODE_RANKS.get(table.gpu, 8)
    if variant == "all_reduce":
        outside = outside | columns["int8"]
    runs = lint.runs([columns[name] for name in ("num_gpus", "eager", "int8")], columns["bytes"])
    return {
        "non-positive": lint.non_positive(time_s),
        "foreign": columns["foreign"],
        "outside": outside,
        **lint.neighbours(time_s, runs),
    }


def starts(rows: Rows, device: Device) -> Iterable[Constants]:  # noqa: ARG001 – a Starter
    """One start per size at which the engine may hand over: a step has no slope to follow."""
    if rows.variant != ENGINE_ALL_REDUCE:
        return ()
    return [{"switch_bytes": size} for size in SWITCHES_BYTES.get(rows.engine, ())]


register(Family("collective", MODEL, tables, starts))
