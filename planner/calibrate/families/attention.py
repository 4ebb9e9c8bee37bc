"""Attention tables: prefill and decode kernels of the engines, timed in CUDA graphs.

A table names the engine's backend; which kernel that runs follows from GPU, format and head counts,
by the engines' own dispatch. KV repeats from call to call, so that small KV is warm in the L2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.calibrate import aiconfigurator, lint
from planner.calibrate.aiconfigurator import Table
from planner.calibrate.devices import gpu_device
from planner.calibrate.registry import register
from planner.calibrate.types import Axes, Family, Floats, Mask, Pick, Reader, Rows, take
from planner.cost.kernels import attention_decode, attention_prefill
from planner.cost.kernels.attention import (
    ACTIVATION_BYTES,
    AttentionShape,
    dims,
    split_name,
    visible_tokens,
)
from planner.cost.types import Device
from planner.errors import UsageError

Columns = Mapping[str, npt.NDArray[Any]]

FORMATS = {"bfloat16": "bf16", "fp8": "fp8"}
"""Our word for a format of the tables."""
_BACKENDS = {
    "fa3": "fa3",
    "flash_attention": "flashinfer",
    "flashinfer": "flashinfer",
    "torch_flow_flashinfer": "flashinfer",
    "triton": "triton",
    "trtllm_mha": "trtllm-gen",
    "vllm_flash_attn": "fa2",
    "vllm_flash_attn_fa2": "fa2",
    "vllm_flash_attn_fa3": "fa3",
    "vllm_flash_attn_fa4": "fa4",
    "vllm_flashinfer_fidecode": "flashinfer",
    "vllm_flashinfer_fiprefill": "flashinfer",
    "vllm_flashinfer_trtllmdecode": "trtllm-gen",
    "vllm_flashinfer_trtllmprefill": "trtllm-gen",
    "vllm_triton_attn": "triton",
}
"""Kernel by the table's `kernel_source`. SGLang's default on Ampere is FlashInfer."""
_NATIVE = "torch_flow"
"""TensorRT-LLM's own kernels: which, is decided inside."""
DATACENTRE_BLACKWELL = {"blackwell", "blackwell-ultra"}
"""Architectures that TensorRT-LLM's generated kernels are for."""
_INTEL = {"alchemist", "battlemage"}
_MOST_GROUPED = 32
"""Query heads per KV head beyond which TensorRT-LLM falls back to unpacked attention."""
_UNSPLIT_FP8 = {"ada", "blackwell-consumer"}
"""Architectures whose FP8 kernel does not split the context."""
_UNSOUND = {
    ("attention_decode", "fa4"): (
        "times of FlashAttention 4 fall from 2.4 ms at a batch of 512 to 0.2 ms at 1,024: "
        "no one kernel does that"
    )
}
"""Kernels whose rows are no use, and why."""
_SURELY_COLD = 2.0
"""KV of this many L2s cannot lie there."""


@dataclasses.dataclass(frozen=True)
class Phase:
    """One of the two kinds of table."""

    family: str
    table: str
    kernel: Callable[[Device, str, str, str], str]
    """By GPU, `kernel_source`, format of the attention and of the KV."""
    split: Callable[[str, str, AttentionShape], Mapping[str, Mask]]
    """An engine's rows of a kernel, by the kernel that their head counts make it."""


def prefill_kernel(gpu: Device, source: str, attention: str, _kv: str) -> str:
    """The kernel that a prefill row ran."""
    kernel = _BACKENDS.get(source, source)
    if gpu.architecture in _INTEL:
        kernel = "xe"
    if source == _NATIVE:
        kernel = "fmha-hopper" if gpu.architecture == "hopper" else "fmha-v2"
        kernel = "trtllm-gen" if gpu.architecture in DATACENTRE_BLACKWELL else kernel
    return f"{kernel}-fp8" if attention == "fp8" else kernel


def decode_kernel(gpu: Device, source: str, _attention: str, kv: str) -> str:
    """The kernel that a decode row ran, where heads are grouped."""
    if gpu.architecture in _INTEL:
        return "xe"
    if source != _NATIVE:
        return _BACKENDS.get(source, source)
    if gpu.architecture in DATACENTRE_BLACKWELL:
        return "trtllm-gen"
    return "xqa-unsplit" if kv == "fp8" and gpu.architecture in _UNSPLIT_FP8 else "xqa"


def _whole(_engine: str, kernel: str, shape: AttentionShape) -> Mapping[str, Mask]:
    return {kernel: np.ones(len(shape.batch), bool)}


def _by_group(engine: str, kernel: str, shape: AttentionShape) -> Mapping[str, Mask]:
    """TensorRT-LLM's fallback for many query heads per KV head, and XQA's for one."""
    group = shape.heads / shape.kv_heads
    if engine != "tensorrt-llm" or kernel == "flashinfer":
        return {kernel: np.ones(len(group), bool)}
    packed = group <= _MOST_GROUPED
    if kernel.startswith("xqa"):
        packed &= group > 1
    return {kernel: packed, "mmha": ~packed}


PREFILL = Phase("attention_prefill", "context_attention_perf", prefill_kernel, _whole)
DECODE = Phase("attention_decode", "generation_attention_perf", decode_kernel, _by_group)


def tables(phase: Phase) -> Reader:
    """The reader of a phase: every kernel of the newest table of each GPU and engine."""

    def read(root: Path, pick: Pick) -> Iterator[Rows]:
        for table in aiconfigurator.newest(root, "attention", phase.table, pick):
            yield from _kernels(phase, table)

    return read


def _kernels(phase: Phase, table: Table) -> Iterator[Rows]:
    columns = _columns(table)
    gpu = gpu_device(table.gpu)
    words = [columns[name] for name in ("kernel_source", "attn_dtype", "kv_cache_dtype")]
    names = np.array([_name(phase, gpu, *each) for each in zip(*words, strict=True)])
    for name in sorted(set(names.tolist())):
        mine = names == name
        yield from _variants(phase, table, name, {key: of[mine] for key, of in columns.items()})


def _name(phase: Phase, gpu: Device, source: str, attention: str, kv: str) -> str:
    return f"{phase.kernel(gpu, source, attention, kv)}.{FORMATS[kv]}"


def _columns(table: Table) -> Columns:
    wanted = ["kernel_source", "attn_dtype", "kv_cache_dtype", "batch_size", "isl", "step"]
    wanted += ["num_heads", "num_key_value_heads", "head_dim"]
    try:
        return aiconfigurator.read(table, [*wanted, "window_size"])
    except UsageError:  # older tables have no windows
        columns = aiconfigurator.read(table, wanted)
        return columns | {"window_size": np.zeros_like(columns["isl"])}


def _variants(phase: Phase, table: Table, name: str, columns: Columns) -> Iterator[Rows]:
    keys = [columns[key] for key in ("batch_size", "isl", "step", "num_heads")]
    keys += [columns[key] for key in ("num_key_value_heads", "head_dim", "window_size")]
    merged = lint.merge(keys, columns["time_s"])
    batch, new, before, heads, kv_heads, dim, window = (
        key[merged.first].astype(np.float64) for key in keys
    )
    kv_heads = np.where(kv_heads > 0, kv_heads, heads)
    shape = AttentionShape(batch, new, before + new, heads, kv_heads, dim, window=window)
    kernel, _, dtype = name.rpartition(".")
    foreign = columns["foreign"][merged.first]
    for part, mask in phase.split(table.engine, kernel, shape).items():
        if mask.any():
            variant, cut, time_s = f"{part}.{dtype}", take(shape, mask), merged.time_s[mask]
            found = flags(phase, variant, cut, time_s, gpu_device(table.gpu))
            found["foreign"] = foreign[mask]
            made = rows((phase.family, variant), table, cut, time_s, found)
            yield dataclasses.replace(
                made,
                merged=merged.repeats if part == kernel else 0,
                rejected=_UNSOUND.get((phase.family, part), ""),
            )


def rows(
    named: tuple[str, str], table: Table, shape: Any, time_s: Floats, found: Mapping[str, Mask]
) -> Rows:
    """Rows of one family and variant of a table, those that lint excludes marked."""
    family, variant = named
    kept = lint.kept(found, len(time_s))
    return Rows(
        family,
        table.gpu,
        table.engine,
        table.version,
        variant,
        table.source,
        shape,
        time_s,
        found,
        kept,
    )


def flags(
    phase: Phase, variant: str, shape: AttentionShape, time_s: Floats, gpu: Device
) -> dict[str, Mask]:
    """What is odd about rows, by flag."""
    keys = [shape.batch, shape.heads, shape.kv_heads, shape.head_dim, shape.window]
    found = lint.neighbours(time_s, lint.runs(keys, shape.kv_tokens))
    found["non-positive"] = lint.non_positive(time_s)
    kernel, kv_bytes = split_name(variant)
    per_token = shape.batch * shape.kv_heads * dims(shape) * kv_bytes
    kv = per_token * visible_tokens(shape)
    if phase is PREFILL:
        peak = gpu.peak(attention_prefill.KERNELS[kernel].operand)
        found["impossible"] = lint.faster_than(time_s, attention_prefill.causal_flops(shape) / peak)
        found["another-kernel"] = shape.new_tokens == 1
        return found
    faster = lint.faster_than(time_s, kv / gpu.bandwidth_bytes_per_s, 1.0)
    found["impossible"] = faster & (kv > _SURELY_COLD * gpu.l2_bytes)
    found["faster-than-dram"] = faster
    found["l2-hot"] = kv < gpu.l2_bytes
    return found


def axes(rows: Rows) -> Axes:
    """Bytes and FLOPs at the least, and the heads that make one model's attention.

    Keys and values are read once per KV head, queries and outputs once; FLOPs are the causal ones.
    """
    shape = rows.shape
    kernel, kv_bytes = split_name(rows.variant)
    tokens, width = shape.batch * shape.new_tokens, dims(shape)
    kv = shape.batch * shape.kv_heads * width * visible_tokens(shape) * kv_bytes
    moved = kv + tokens * shape.heads * width * ACTIVATION_BYTES
    flops = attention_prefill.causal_flops(shape)
    heads = shape.heads * 1e8 + shape.kv_heads * 1e4 + shape.head_dim
    known = attention_prefill.KERNELS.get(kernel)
    operand = known.operand if known and rows.family == "attention_prefill" else "bf16"
    return Axes({"bytes": moved, "flops": flops}, {"heads": heads}, operand)


register(Family("attention_prefill", attention_prefill.MODEL, tables(PREFILL), axes=axes))
register(Family("attention_decode", attention_decode.MODEL, tables(DECODE), axes=axes))
