"""Speed of pricing kernels, beside NVIDIA aiconfigurator's estimator on the same shapes.

Needs the ``calibrate`` extra. Run with ``make bench``.
"""

from __future__ import annotations

import logging
import time
import warnings

import numpy as np
import pytest

from planner.cost.kernels.gemm import MODEL, GemmShape
from planner.cost.types import device
from planner.spec.catalog import Catalog

COUNT = 100_000
CATALOG = Catalog.standard()
H100 = device(CATALOG.find("gpu", "h100-sxm"))
BF16 = CATALOG.find("calibration", "h100-sxm-vllm").kernels["gemm.bf16"].constants


def shapes(count: int = COUNT) -> GemmShape:
    """Distinct GEMMs of the sizes that decoders have."""
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 8192, count).astype(float)
    depth = 64.0 * rng.integers(1, 256, count)
    features = 64.0 * rng.integers(1, 512, count)
    return GemmShape(rows, depth, features)


@pytest.mark.benchmark(group="gemm")
def test_pricing_a_hundred_thousand_gemms(benchmark):
    """The target is 50 ms for all of them in one call."""
    made = shapes()
    benchmark(MODEL.time_s, "bf16", made, H100, BF16)


@pytest.mark.benchmark(group="gemm")
def test_against_the_estimator_of_aiconfigurator(benchmark):
    """The same shapes one by one through its compiled engine: a ratio of this run."""
    database = pytest.importorskip("aiconfigurator_core.sdk.perf_database")
    from aiconfigurator_core.sdk import common
    from aiconfigurator_core.sdk.operations.gemm import GEMM

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    few = 2_000
    made = shapes(few)
    theirs = database.get_database("h100_sxm", "vllm", "0.24.0")
    mode = common.GEMMQuantMode.bfloat16

    def peer() -> None:
        for m, k, n in zip(made.rows, made.depth, made.features, strict=True):
            GEMM("gemm", 1, int(n), int(k), mode)._engine_query(theirs, x=int(m))

    peer()
    start = time.process_time()
    peer()
    peer_s = time.process_time() - start
    MODEL.time_s("bf16", made, H100, BF16)
    start = time.process_time()
    MODEL.time_s("bf16", made, H100, BF16)
    ours_s = time.process_time() - start
    benchmark.extra_info["aiconfigurator_over_ours"] = peer_s / ours_s
    assert peer_s > ours_s
    benchmark(MODEL.time_s, "bf16", made, H100, BF16)
