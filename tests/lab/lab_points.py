"""Folders of the lab as it would leave them, with times made by known constants."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from planner.cost.kernels import attention_decode, elementwise, gemm
from planner.cost.kernels.attention import AttentionShape
from planner.cost.kernels.elementwise import ElementwiseShape
from planner.cost.kernels.gemm import GemmShape
from planner.cost.types import Device
from planner.lab.attention import BATCHES, CONTEXTS
from planner.lab.job import ROWS
from planner.lab.journal import NAME, Point
from planner.lab.machine import Machine
from planner.lab.stream import ROWS as STREAM_ROWS

MACHINE = Machine("cpu", "Made Up Chip 9000", 4, 32 * 2**30, 32 * 2**20, "2.13.0+cpu")
DEVICE = Device(
    "cpu-made-up-chip-9000-4-cores", "Made Up Chip 9000, 4 cores", 50e9, {"bf16": 1e12}, 4e11,
    None, 32 * 2**20, 32 * 2**30, 32 * 2**30, "cpu", 4,
)  # fmt: skip
PROJECTIONS = ((896, 896), (896, 128), (896, 4864), (4864, 896), (896, 151936))
GEMM = {
    "floor_s": 5e-6, "matrix_share": 0.9, "dram_share": 0.8, "step_s": 1e-7, "fill_s": 1e-6,
    "overlap": 2.0, "smoothing": 0.6, "throttle": 0.1, "l2_speed": 2.0, "l2_share": 0.65,
    "split_s": 2.6e-6, "feed": 0.02,
}  # fmt: skip
STREAM = {
    "t0_s": 2e-6, "eta": 0.9, "block_s": 5e-9, "serial_s_per_byte": 1e-12, "p": 1.6,
    "l2_speed": 2.0, "l2_share": 0.75,
}  # fmt: skip
ATTENTION = {c.name: c.start for c in attention_decode.CONSTANTS}
NOISE = 0.02


def times(exact, seed):
    """Times with 2 % of noise."""
    return exact * np.exp(np.random.default_rng(seed).normal(0, NOISE, np.shape(exact)))


def gemm_points():
    rows = [(m, k, n) for k, n in PROJECTIONS for m in ROWS if n < 1e5 or m <= 64]
    shape = GemmShape(*(np.array(column, float) for column in zip(*rows, strict=True)))
    found = times(gemm.MODEL.time_s("bf16", shape, DEVICE, GEMM), 1)
    for (m, k, n), time_s in zip(rows, found, strict=True):
        sizes = {"rows": m, "depth": k, "features": n, "bias": False}
        sizes |= {"copies": 8, "dtype": "bf16"}
        yield Point("gemm", sizes, {"median_s": float(time_s)})


def stream_points():
    shapes = [(rows, 896 * wide) for rows in STREAM_ROWS for wide in (1, 4, 16)]
    shapes.append((256, 2**19))
    for number, (rows, columns) in enumerate(shapes):
        for operation, reads in (("copy", 1), ("triad", 2)):
            size = rows * columns * 2
            shape = ElementwiseShape(reads * size, size, rows)
            exact = elementwise.MODEL.time_s("stream", shape, DEVICE, STREAM, warm=True)
            sizes = {"operation": operation, "rows": rows, "columns": columns, "dtype": "bf16"}
            yield Point("stream", sizes, {"median_s": float(times(exact, number))})


def attention_points():
    rows = [(batch, context) for batch in BATCHES for context in CONTEXTS]
    batch, context = (np.array(column, float) for column in zip(*rows, strict=True))
    shape = AttentionShape(batch, np.ones(len(rows)), context, 14, 2, 64)
    found = times(attention_decode.MODEL.time_s("fa2.bf16", shape, DEVICE, ATTENTION), 2)
    for (b, c), time_s in zip(rows, found, strict=True):
        sizes = {"batch": b, "context": c, "heads": 14, "kv_heads": 2, "head_dim": 64}
        sizes |= {"copies": 4, "dtype": "bf16"}
        yield Point("attention", sizes, {"median_s": float(time_s)})


def vector_point():
    sizes = {"rows": 1024, "depth": 1024, "features": 1024, "dtype": "fp32"}
    return Point("vector", sizes, {"median_s": 2 * 1024**3 / 4e11})


def points():
    """Everything but the step."""
    launch = Point("launch", {}, {"launch_s": 3e-6, "call_s": 5e-6})
    return (launch, *stream_points(), *gemm_points(), vector_point(), *attention_points())


def write(folder: Path, job: str = "made up", steps_s=(0.05,) * 9) -> Path:
    """A folder as the lab leaves it, without a trace."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {"planner_lab": 2, "job": job, "machine": asdict(MACHINE)}
    lines = [head, *(asdict(point) for point in points())]
    (folder / NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))
    context = {
        "model": "qwen2.5-0.5b-instruct",
        "precision.weights": "bf16",
        "backend.name": "pytorch-eager",
        "step.decode.batch": 4,
        "step.decode.context": 256,
        "gpu": DEVICE.name,
    }
    run = {"planner_lab_run": 1, "machine": asdict(MACHINE), "context": context, "notes": []}
    (folder / "run.json").write_text(json.dumps(run | {"step_s": list(steps_s)}))
    return folder
