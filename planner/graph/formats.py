"""Which number formats a deployment really runs in, given what the checkpoint and the GPU have."""

from __future__ import annotations

from collections.abc import Collection

from planner.dtypes import is_quantized
from planner.errors import SpecError
from planner.ops.types import Formats
from planner.spec.types import DeploymentSpec, GpuSpec, ModelSpec

_CACHE_FORMATS = ("fp32", "bf16", "fp16", "fp8", "int8")


def formats(
    deployment: DeploymentSpec, model: ModelSpec, gpu: GpuSpec
) -> tuple[Formats, tuple[str, ...]]:
    """The formats in force, and a note for each place where they are not what was asked for.

    A format that the GPU's matrix units lack is kept in memory and widened before the product
    (weight-only), as engines do. Raises SpecError for a request nothing can run.
    """
    asked = deployment.precision
    weights = asked.weights or model.weights
    wide = _wide(weights, model.weights, gpu.matrix.keys())
    matmul = asked.activations or wide
    notes = []
    if is_quantized(matmul) and matmul not in gpu.matrix:
        notes.append(
            f"{gpu.title} has no {matmul} matrix rate: weights stay {weights} in memory and are "
            f"widened to {wide} before each product"
        )
        matmul = wide
    if not is_quantized(matmul):
        wide = matmul
    cache = asked.kv_cache or ("fp32" if wide == "tf32" else wide)
    origin = deployment.origin.at("precision")
    if is_quantized(matmul) and not is_quantized(weights):
        raise SpecError(
            [
                origin.at("activations").fault(
                    f"activations in {matmul} need weights in {matmul}, not in {weights}",
                    f"set precision.weights: {matmul}",
                )
            ]
        )
    if cache not in _CACHE_FORMATS:
        hint = f"one of {', '.join(_CACHE_FORMATS)}"
        raise SpecError([origin.at("kv_cache").fault(f"no engine caches in {cache}", hint)])
    if matmul not in gpu.matrix and matmul != "fp32":
        hint = f"it has {', '.join(gpu.matrix)}"
        raise SpecError([origin.fault(f"{gpu.title} has no matrix rate for {matmul}", hint)])
    return Formats(weights, matmul, wide, cache), tuple(notes)


def _wide(weights: str, checkpoint: str, rates: Collection[str]) -> str:
    """The 16-bit (or wider) format activations are kept in."""
    for candidate in (weights, checkpoint):
        if not is_quantized(candidate):
            return candidate
    return "bf16" if "bf16" in rates else "fp16"
