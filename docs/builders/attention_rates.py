"""Forward rates of FlashAttention 3, as published and as the kernel model gives them, and where
attention as separate kernels ends on each GPU. Made by `make fusion-gains`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from builders.markup import table
from builders.planned import catalog
from planner.cost.kernels.attention import AttentionShape
from planner.cost.kernels.attention_prefill import time_s
from planner.cost.types import Device, device
from planner.plan.attention_ledger import attention_ledger
from planner.spec.question import blocks_of

PUBLISHED = ((512, 430.32), (1024, 517.099), (2048, 565.544), (4096, 590.233), (8192, 614.234))
PUBLISHED = (*PUBLISHED, (16384, 620.73))
"""Sequence length and TFLOP/s: 16,384 tokens in all, 16 heads of 128, without a causal mask, on an
H100 (https://github.com/pytorch/benchmark/pull/2391).
"""
_HEADS, _DIM, _TOKENS = 16, 128, 16_384
_KERNEL = "fa3.bf16"
_ALONE = {"token_s": 0.0, "write_passes": 0.0}
"""A benchmark writes no cache."""


def _flops(length: int) -> float:
    return 4.0 * _TOKENS * _HEADS * length * _DIM


def _shape(length: int) -> AttentionShape:
    # causal attention over 1.5 n keys has as many pairs as the square
    batch = _TOKENS // length
    return AttentionShape(batch, length, length * 3 // 2, _HEADS, _HEADS, _DIM)


def _target() -> Device:
    return device(catalog().find("gpu", "h100-sxm"))


def _engine() -> dict[str, float]:
    fitted = catalog().find("calibration", "h100-sxm-vllm").kernels
    return {**fitted[f"attention_prefill.{_KERNEL}"].constants, **_ALONE}


def _fitted(points: Sequence[tuple[int, float]]) -> dict[str, float]:
    """Start of a tile and share of the peak that bring the model nearest to the points.

    The time is linear in the one and in the other's inverse; memory overlaps the products.
    """
    bare = {**_engine(), "floor_s": 0.0, "dram_share": 1e9, "l2_share": 1e9, "longest": 0.0}
    measured = np.array([_flops(length) / (rate * 1e12) for length, rate in points])

    def part(tile_s: float, share: float) -> np.ndarray:
        values = {**bare, "tile_s": tile_s, "matrix_share": share}
        shapes = (_shape(length) for length, _ in points)
        return np.array([float(time_s(_KERNEL, s, _target(), values, warm=True)) for s in shapes])

    # below the peak no floor of FLOPs applies, so that two points give the slope
    products = 2 * (part(0.0, 0.25) - part(0.0, 0.5)) / 4
    starts = (part(1e-6, 0.25) - part(0.0, 0.25)) / 1e-6
    columns = np.stack([starts / measured, products / measured], axis=1)
    tile_s, inverse = np.linalg.lstsq(columns, np.ones(len(points)), rcond=None)[0]
    return {**bare, "tile_s": float(tile_s), "matrix_share": float(1 / inverse)}


def _rate(length: int, values: dict[str, float]) -> float:
    return _flops(length) / float(time_s(_KERNEL, _shape(length), _target(), values, warm=True))


def rates() -> str:
    """Published rates, those of vLLM's constants, and of two constants fitted without the row."""
    rows = []
    for length, rate in PUBLISHED:
        others = [point for point in PUBLISHED if point[0] != length]
        engine, left_out = (_rate(length, v) / 1e12 for v in (_engine(), _fitted(others)))
        rows.append(
            (
                f"{length:,}",
                f"{rate:.0f}",
                f"{left_out:.0f}",
                f"{left_out / rate - 1:+.1%}",
                f"{engine:.0f}",
                f"{engine / rate - 1:+.1%}",
            )
        )
    header = ("sequence", "published", "fitted, row left out", "error", "vLLM's constants", "error")
    return table(header, rows)


def constants() -> str:
    """The two constants, of all rows."""
    found = _fitted(PUBLISHED)
    return (
        f"Fitted to all rows: a tile starts in {found['tile_s'] * 1e6:.2f} us, and its products "
        f"run at {found['matrix_share']:.1%} of a multiprocessor's peak."
    )


def gpus() -> str:
    """From where on attention as separate kernels is out of reach, GPU by GPU."""
    spec = catalog().find("model", "llama-3.1-8b-instruct")
    names = catalog().names("gpu")
    found = attention_ledger(
        spec,
        blocks_of(spec, catalog()),
        [catalog().find("gpu", name) for name in names],
        lengths=(1024,),
        tiles=(128,),
        splits=8,
    )
    rows = (
        (
            each.gpu,
            f"{each.slower_than_layer:,}",
            f"{each.slower_than_fused:.1f}",
            f"{each.largest:,}{'' if each.weights_fit else ' *'}",
        )
        for each in found.gpus
    )
    return table(
        ("GPU", "tokens until it outlasts the layer", "over fused", "tokens that fit"), rows
    )


PARTS: dict[str, Callable[[], str]] = {"rates": rates, "constants": constants, "gpus": gpus}
