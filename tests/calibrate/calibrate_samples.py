"""A small wheel of made-up tables, laid out as the real one is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from planner.calibrate.devices import gpu_device
from planner.cost.kernels.gemm import MODEL, GemmShape

TRUE = {
    "floor_s": 2.5e-6,
    "matrix_share": 0.85,
    "dram_share": 0.9,
    "step_s": 1e-7,
    "fill_s": 1e-6,
    "overlap": 2.0,
    "smoothing": 0.6,
    "throttle": 0.1,
    "l2_speed": 2.0,
    "l2_share": 0.7,
    "split_s": 2.5e-6,
    "feed": 0.0,
}
"""Constants that the made-up GEMMs obey, but for noise."""


def gemm_shapes(count: int = 600, seed: int = 0) -> GemmShape:
    """Shapes over the range of the real tables, each once."""
    rng = np.random.default_rng(seed)
    rows, depth, features = (
        np.round(2.0 ** rng.uniform(low, high, count)) for low, high in ((0, 13), (8, 14), (8, 14))
    )
    return GemmShape(rows, depth, features)


def gemm_times(
    shape: GemmShape, noise: float = 0.03, seed: int = 1, gpu: str = "h100-sxm"
) -> np.ndarray:
    """Times by the true constants, with log-normal noise. vLLM cycles through six weights."""
    looped = GemmShape(shape.rows, shape.depth, shape.features, weight_copies=6)
    time_s = MODEL.time_s("bf16", looped, gpu_device(gpu), TRUE, warm=True)
    return time_s * np.exp(np.random.default_rng(seed).normal(0, noise, len(time_s)))


def write_gemms(
    root: Path,
    shape: GemmShape,
    time_s: np.ndarray,
    *,
    version: str = "0.24.0",
    dtype: str = "bfloat16",
    device: str = "NVIDIA H100 80GB HBM3",
    folder: str = "h100_sxm",
    engine: str = "vllm",
) -> Path:
    """A GEMM table of vLLM, on an H100 unless said otherwise."""
    place = root / folder / "gemm" / engine / version
    place.mkdir(parents=True, exist_ok=True)
    count = len(time_s)
    table = pa.table(
        {
            "device": [device] * count,
            "gemm_dtype": [dtype] * count,
            "m": shape.rows.astype(int),
            "n": shape.features.astype(int),
            "k": shape.depth.astype(int),
            "latency": time_s * 1e3,
        }
    )
    parquet.write_table(table, place / "gemm_perf.parquet")
    return root
