"""Tables of multi-head latent attention, at kernel level.

Newer vLLM tables time whole modules, projections included, so vLLM has no kernel rows here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from planner.calibrate import aiconfigurator, lint
from planner.calibrate.aiconfigurator import Table
from planner.calibrate.devices import gpu_device
from planner.calibrate.families.attention import DATACENTRE_BLACKWELL, FORMATS, Columns, rows
from planner.calibrate.registry import register
from planner.calibrate.types import Family, Floats, Mask, Pick, Reader, Rows
from planner.cost.kernels import mla
from planner.cost.kernels.attention import ELEMENT_BYTES
from planner.cost.kernels.attention_prefill import causal_flops
from planner.cost.types import Device

_BACKENDS = {"flash_attention": "fa3", "triton": "triton", "trtllm_mla": "trtllm-gen"}
_NATIVE = "default"
"""TensorRT-LLM's own kernels: which, is decided inside."""
_PREFILL_TABLE = "context_mla_perf"
_DECODE_TABLE = "generation_mla_perf"
_SURELY_COLD = 2.0
"""KV of this many L2s cannot lie there."""


def kernel(gpu: Device, source: str, *, prefill: bool) -> str:
    """The kernel that a row ran."""
    if source != _NATIVE:
        return _BACKENDS[source]
    if gpu.architecture in DATACENTRE_BLACKWELL:
        return "trtllm-gen"
    if gpu.architecture == "hopper":
        return "fmha-hopper" if prefill else "flashmla"
    return "fmha-v2" if prefill else "mmha"


def tables(family: str, name: str) -> Reader:
    """The reader of a phase: every format of the newest table of each GPU and engine."""

    def read(root: Path, pick: Pick) -> Iterator[Rows]:
        for table in aiconfigurator.newest(root, "mla", name, pick):
            yield from _kernels(family, table)

    return read


def _kernels(family: str, table: Table) -> Iterator[Rows]:
    wanted = ["kernel_source", "kv_cache_dtype", "batch_size", "isl", "step", "num_heads"]
    columns = aiconfigurator.read(table, wanted)
    gpu = gpu_device(table.gpu)
    prefill = family == mla.PREFILL.family
    pairs = zip(columns["kernel_source"], columns["kv_cache_dtype"], strict=True)
    names = np.array([f"{kernel(gpu, one, prefill=prefill)}.{FORMATS[kv]}" for one, kv in pairs])
    for name in sorted(set(names.tolist())):
        mine = names == name
        yield _rows(family, table, name, {key: of[mine] for key, of in columns.items()})


def _rows(family: str, table: Table, name: str, columns: Columns) -> Rows:
    keys = [columns[key] for key in ("batch_size", "isl", "step", "num_heads")]
    merged = lint.merge(keys, columns["time_s"])
    batch, new, before, heads = (key[merged.first].astype(np.float64) for key in keys)
    shape = mla.MlaShape(batch, new, before + new, heads)
    found = _flags(family, name, shape, merged.time_s, gpu_device(table.gpu))
    found["foreign"] = columns["foreign"][merged.first]
    made = rows((family, name), table, shape, merged.time_s, found)
    return dataclasses.replace(made, merged=merged.repeats)


def _flags(
    family: str, variant: str, shape: mla.MlaShape, time_s: Floats, gpu: Device
) -> dict[str, Mask]:
    found = lint.neighbours(time_s, lint.runs([shape.batch, shape.heads], shape.kv_tokens))
    found["non-positive"] = lint.non_positive(time_s)
    if family == mla.PREFILL.family:
        least_s = causal_flops(mla.expanded(shape)) / gpu.peak("bf16")
        found["impossible"] = lint.faster_than(time_s, least_s)
        found["another-kernel"] = shape.new_tokens == 1
        return found
    element = ELEMENT_BYTES[variant.rpartition(".")[2]]
    kv = shape.batch * shape.kv_tokens * (shape.latent_dim + shape.rope_dim) * element
    faster = lint.faster_than(time_s, kv / gpu.bandwidth_bytes_per_s, 1.0)
    found["impossible"] = faster & (kv > _SURELY_COLD * gpu.l2_bytes)
    found["faster-than-dram"] = faster
    found["l2-hot"] = kv < gpu.l2_bytes
    return found


register(Family("mla_prefill", mla.PREFILL, tables("mla_prefill", _PREFILL_TABLE)))
register(Family("mla_decode", mla.DECODE, tables("mla_decode", _DECODE_TABLE)))
