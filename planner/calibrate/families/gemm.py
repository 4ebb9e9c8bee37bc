"""GEMM tables: the engine's linear layer, timed inside a CUDA graph from a 16-bit input.

The benchmark loops over a few distinct weights, so that small ones lie in the L2. How many is
protocol, read in the collector's source, and told to the model with each shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.calibrate import aiconfigurator, lint
from planner.calibrate.aiconfigurator import Table
from planner.calibrate.devices import gpu_device
from planner.calibrate.registry import register
from planner.calibrate.types import Axes, Family, Floats, Mask, Pick, Rows
from planner.cost.kernels.gemm import KINDS, MODEL, GemmShape, peak_flops_per_s
from planner.cost.types import Device
from planner.dtypes import bytes_per_element

Columns = Mapping[str, npt.NDArray[Any]]

VARIANTS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int4_wo": "w4a16",
    "int8_wo": "w8a16",
    "sq": "int8",
}
"""Our variant by the table's `gemm_dtype`. The last three are layers of a TensorRT engine."""
_COPIES = 6
"""Distinct weights in the loops of vLLM (16-bit and FP8) and SGLang."""
_MOST_COPIES = 5
"""TensorRT-LLM's loop fills the L2 with weights, up to this many."""
_HOST_S = 40e-6
"""No kernel needs this long for a tiny product; a host that launches several does."""
_TINY = 2**20
_UNSOUND = {
    ("tensorrt-llm", "nvfp4"): (
        "measured outside the engine's autotuner, which serving runs at its start: one fallback "
        "kernel, whose times follow the depth alone up to 128 rows"
    )
}
"""Tables of an engine and variant that say nothing of what it runs, and why.

`collect_gemm.py` of collector/trtllm (github.com/ai-dynamo/aiconfigurator, commit 0009590) calls
the linear layer outside ``autotune()``; `collect_moe.py` beside it tunes its experts first.
TensorRT-LLM picks NVFP4's kernel by tuning alone (`_torch/custom_ops/torch_custom_ops.py`,
enable_autotuner by default); its other formats need none. On B200 8,192 features take 22 us at a
depth of 8,192, and 1,024 features as long; under vLLM 13 us.
"""
_ODD_ROW = 1.3
"""A single row that takes this much longer than two rows runs a kernel of its own."""


def tables(root: Path, pick: Pick) -> Iterator[Rows]:
    """Every variant of the newest table of each GPU and engine."""
    for table in aiconfigurator.newest(root, "gemm", "gemm_perf", pick):
        columns = aiconfigurator.read(table, ["gemm_dtype", "m", "n", "k"])
        for dtype, variant in VARIANTS.items():
            mine = columns["gemm_dtype"] == dtype
            if mine.any():
                yield _rows(
                    table, variant, {name: column[mine] for name, column in columns.items()}
                )


def _rows(table: Table, variant: str, columns: Columns) -> Rows:
    if variant == "fp8":
        variant = _fp8(table.engine, gpu_device(table.gpu))
    keys = [columns[name] for name in "mnk"]
    merged = lint.merge(keys, columns["time_s"])
    rows, features, depth = (key[merged.first].astype(np.float64) for key in keys)
    gpu = gpu_device(table.gpu)
    shape = _looped(table.engine, variant, GemmShape(rows, depth, features), gpu)
    flags = _flags(variant, shape, merged.time_s, gpu)
    flags["foreign"] = columns["foreign"][merged.first]
    return Rows(
        "gemm",
        table.gpu,
        table.engine,
        table.version,
        variant,
        table.source,
        shape,
        merged.time_s,
        flags,
        lint.kept(flags, len(rows)),
        merged.repeats,
        _UNSOUND.get((table.engine, variant), "") or _rejection(shape, merged.time_s),
    )


def _fp8(engine: str, gpu: Device) -> str:
    """The FP8 kernel an engine runs: cuBLAS's under TensorRT-LLM, else one of CUTLASS's."""
    if engine == "tensorrt-llm" or "fp8" not in gpu.matrix_flops_per_s:
        return "fp8"
    small = engine == "vllm" and gpu.architecture in {"ada", "blackwell-consumer"}
    return "fp8_cutlass_sm89" if small else "fp8_cutlass"


def _looped(engine: str, variant: str, shape: GemmShape, gpu: Device) -> GemmShape:
    """The shape with what the engine's benchmark cycles through."""
    one = np.ones_like(shape.rows)
    weights, inputs = one, one
    if engine == "tensorrt-llm":
        size = shape.features * shape.depth * bytes_per_element(KINDS[variant].weights)
        weights = np.clip(np.ceil(gpu.l2_bytes / size), 1, _MOST_COPIES)
    elif engine == "sglang":
        weights, inputs = _COPIES * one, _COPIES * one
    elif variant == "bf16" or variant.startswith("fp8_cutlass"):
        weights = _COPIES * one
    return GemmShape(shape.rows, shape.depth, shape.features, weights, inputs)


def _flags(variant: str, shape: GemmShape, time_s: Floats, gpu: Device) -> dict[str, Mask]:
    kind = KINDS[variant]
    weight = shape.features * shape.depth * bytes_per_element(kind.weights)
    read = shape.rows * shape.depth * bytes_per_element(kind.operand)
    written = 2 * shape.rows * shape.features
    flops = 2 * shape.rows * shape.features * shape.depth
    cycle = shape.weight_copies * weight + shape.input_copies * read + written
    moved_s = (weight + read + written) / gpu.bandwidth_bytes_per_s
    flags = lint.neighbours(time_s, lint.runs([shape.features, shape.depth], shape.rows))
    return flags | {
        "non-positive": lint.non_positive(time_s),
        "impossible": lint.faster_than(time_s, flops / peak_flops_per_s(variant, gpu)),
        "faster-than-dram": lint.faster_than(time_s, moved_s),
        "l2-hot": cycle < gpu.l2_bytes,
        "another-kernel": _odd_row(shape, time_s),
    }


def _odd_row(shape: GemmShape, time_s: Floats) -> Mask:
    """Products of one row, where the table's take far longer than its products of two."""
    order = np.lexsort((shape.rows, shape.depth, shape.features))
    rows, here = shape.rows[order], time_s[order]
    pairs = (rows[:-1] == 1) & (rows[1:] == 2)  # noqa: PLR2004 - one row and two
    ratio = here[:-1][pairs] / here[1:][pairs]
    odd = len(ratio) > 0 and float(np.median(ratio)) > _ODD_ROW
    mask: Mask = (shape.rows == 1) & odd
    return mask


def _rejection(shape: GemmShape, time_s: Floats) -> str:
    tiny = (shape.features * shape.depth < _TINY) & (shape.rows <= 16)  # noqa: PLR2004
    if not tiny.any() or (least_s := float(np.median(time_s[tiny]))) < _HOST_S:
        return ""
    return (
        f"tiny products take {least_s * 1e6:.0f} us, which is host time: "
        "the table was measured without a CUDA graph"
    )


def axes(rows: Rows) -> Axes:
    """Bytes, FLOPs, and the pairs of features and depth that are a model's weights."""
    shape, kind = rows.shape, KINDS[rows.variant]
    weight = shape.features * shape.depth
    moved = weight * bytes_per_element(kind.weights)
    moved += shape.rows * shape.depth * bytes_per_element(kind.operand)
    moved += 2 * shape.rows * shape.features
    pair = shape.features * (1 + shape.depth.max()) + shape.depth
    sizes = {"bytes": moved, "flops": 2 * shape.rows * weight}
    return Axes(sizes, {"shape": pair}, kind.operand)


FAMILY = register(Family("gemm", MODEL, tables, axes=axes))
