"""The catalogue file of a machine that no datasheet describes, as a CPU: its ceilings measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.calibrate.scalars import number, quantity, quoted

_ARCHITECTURE = "cpu"
_GIB = 2**30
_MIB = 2**20


def gpu_text(name: str, machine: Mapping[str, Any], ceilings: Mapping[str, float], day: str) -> str:
    """YAML of the machine: the highest rates that the lab reached stand for a datasheet's.

    ``ceilings`` as `planner.calibrate.from_lab.ceilings` gives them. Raises KeyError where the lab
    measured no bandwidth or no product.
    """
    bandwidth = quantity(ceilings["bandwidth_bytes_per_s"], "bytes/s")
    matrix = _flops(ceilings["flops_per_s"])
    vector = _flops(ceilings.get("vector_flops_per_s", ceilings["flops_per_s"]))
    title = f"{machine['name']}, {machine['units']} cores"
    source = f"planner lab, torch {machine['torch']}, {day}: the best of its points"
    lines = [
        "kind: gpu",
        f"name: {name}",
        f"title: {quoted(title)}",
        "vendor: other",
        f"architecture: {_ARCHITECTURE}",
        "memory:",
        "  type: DRAM",
        f"  capacity: {{value: {number(machine['memory_bytes'] / _GIB)} GiB, source: system}}",
        f"  bandwidth: {{value: {bandwidth}, source: lab}}",
        *_cache(machine),
        f"multiprocessors: {{value: {machine['units']}, source: system, note: cores}}",
        "matrix:",
        f"  bf16: {{value: {matrix}, source: lab}}",
        f"  fp16: {{value: {matrix}, source: lab, note: as bf16}}",
        f"vector: {{value: {vector}, source: lab, note: an FP32 matrix product}}",
        "sources:",
        f"  lab: {quoted(source)}",
        "  system: the operating system",
    ]
    return "\n".join(lines) + "\n"


def _cache(machine: Mapping[str, Any]) -> list[str]:
    size = machine["cache_bytes"]
    return [f"l2: {{value: {number(size / _MIB)} MiB, source: system, note: L3}}"] if size else []


def _flops(rate: float) -> str:
    return f"{number(rate / 1e12)} TFLOP/s"
