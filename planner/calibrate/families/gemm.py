"""GEMM tables: the engine's linear layer, timed inside a CUDA graph from a BF16 input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.calibrate import aiconfigurator, lint
from planner.calibrate.aiconfigurator import Table
from planner.calibrate.registry import register
from planner.calibrate.types import Family, Floats, Mask, Pick, Rows
from planner.cost.kernels.gemm import KINDS, MODEL, GemmShape

DTYPES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}


def tables(root: Path, pick: Pick) -> Iterator[Rows]:
    for table in aiconfigurator.newest(root, "gemm", "gemm_perf", pick):
        columns = aiconfigurator.read(table, ["gemm_dtype", "m", "n", "k"])
        for dtype in sorted(set(columns["gemm_dtype"].tolist()) & set(DTYPES)):
            mine = columns["gemm_dtype"] == dtype
            yield _rows(table, DTYPES[dtype], {n: v[mine] for n, v in columns.items()})


def _rows(table, variant, columns):
    keys = [columns[n] for n in "mnk"]
    merged = lint.merge(keys, columns["time_s"])
    m, n, k = (key[merged.first].astype(np.float64) for key in keys)
    if variant == "fp8" and table.engine != "tensorrt-llm":
        variant = "fp8_cutlass"
    from planner.calibrate.run import gpu_device
    dev = gpu_device(table.gpu)
    kind = KINDS[variant]
    from planner.dtypes import bytes_per_element as bpe
    W = n * k * bpe(kind.weight)
    one = np.ones_like(m)
    cw, ci = one, one
    if table.engine == "vllm" and variant in ("bf16", "fp8", "fp8_cutlass"):
        cw = 6 * one
    if table.engine == "sglang":
        cw, ci = 6 * one, 6 * one
    if table.engine == "tensorrt-llm":
        cw = np.clip(np.ceil(dev.l2_bytes / W), 1, 5)
    shape = GemmShape(m, k, n, cw, ci)
    flags = {"non-positive": lint.non_positive(merged.time_s), "foreign": columns["foreign"][merged.first]}
    flags |= lint.neighbours(merged.time_s, lint.runs([n, k], m))
    flags["impossible"] = lint.faster_than(merged.time_s, 2 * m * n * k / dev.peak(kind.operand))
    bytes_ = W + m * k * bpe(kind.operand) + 2 * m * n
    flags["faster-than-dram"] = lint.faster_than(merged.time_s, bytes_ / dev.bandwidth_bytes_per_s)
    flags["l2-hot"] = cw * W + ci * m * k * bpe(kind.operand) + 2 * m * n < dev.l2_bytes
    return Rows("gemm", table.gpu, table.engine, table.version, variant, table.source, shape, merged.time_s, flags, lint.kept(flags, len(m)), merged.repeats)


register(Family("gemm", MODEL, tables))
