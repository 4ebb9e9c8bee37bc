"""Plans of whole models against a small wheel of made-up tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from calibrate_samples import gemm_times, write_gemms
from pyarrow import parquet

from planner.calibrate.families import family
from planner.calibrate.types import Pick
from planner.calibrate.whole_model_cases import BLOCKS, CASES, NVFP4, Case
from planner.calibrate.whole_models import ComparedStep, Refused, compare
from planner.cost.kernels.gemm import GemmShape
from planner.resources import folder
from planner.spec.catalog import Catalog

H100 = Pick(frozenset({"h100-sxm"}), frozenset({"vllm"}))
STEP = {"decode": {"decode": {"batch": 16, "context": 4096}}}


LAYER = [(4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096)]
"""Depth and features of the products of a layer of Llama 3.1 8B: hidden 4,096; queries, keys and
values 4,096 + 2 · 1,024; gate and up 2 · 14,336."""


def llama_gemms(root: Path) -> None:
    """A table with the products of that layer at 8, 16 and 32 rows, and with others."""
    other = [(depth, features) for depth in (1024, 2048) for features in (1024, 2048, 3072)]
    sizes = [(rows, *pair) for pair in (*LAYER, *other) for rows in (8, 16, 32)]
    shape = GemmShape(*(np.array(column, np.float64) for column in zip(*sizes, strict=True)))
    write_gemms(root, shape, 1.2 * gemm_times(shape, noise=0))


def test_each_gemm_of_a_layer_meets_the_row_of_its_shape(tmp_path):
    """Rows drawn for a fit are not to be met, so that some of the four may be missing."""
    llama_gemms(tmp_path)
    (step,) = compare(
        folder("catalog") / "calibrations",
        Catalog.standard(),
        H100,
        cases=[Case("llama-3.1-8b-instruct")],
        loads=STEP,
        data=tmp_path,
    )
    assert isinstance(step, ComparedStep)
    met = [kernel for kernel in step.kernels if kernel.matched]
    layers = Counter[tuple[float, float]]()
    for kernel in met:
        asked = kernel.shape
        sizes = (asked.rows, asked.depth, asked.features)
        one = GemmShape(*(np.array([size]) for size in sizes))
        assert kernel.measured_s == pytest.approx(float(1.2 * gemm_times(one, noise=0)[0]))
        assert (asked.rows, kernel.variant, kernel.found) == (16, "bf16", "exact")
        layers[asked.depth, asked.features] += kernel.times
    assert layers.keys() <= set(LAYER)
    assert set(layers.values()) == {32}, "Llama 3.1 8B has 32 layers"
    assert all(k.found == "no row" for k in step.kernels if k.family != "gemm")


def test_what_an_engine_refuses_is_told_once_for_all_loads(tmp_path):
    llama_gemms(tmp_path)
    found = list(
        compare(
            folder("catalog") / "calibrations",
            Catalog.standard(),
            H100,
            cases=[Case("glm-4.5", BLOCKS, tensor=8)],
            loads={**STEP, "prefill": {"prefill": {"batch": 1, "tokens": 64}}},
            data=tmp_path,
        )
    )
    (refused,) = found
    assert isinstance(refused, Refused)
    assert "share of 192" in refused.reason, "blocks of 128 do not fit 1,536 / 8"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case("m"), "as shipped"),
        (Case("m", NVFP4, tensor=8, expert=8), "nvfp4 TP8 EP8"),
        (Case("m", {"kv_cache": "fp8"}, data=2), "as shipped KV fp8 DP2"),
    ],
)
def test_a_case_is_called_by_its_formats_and_split(case, words):
    assert case.words == words


def test_every_case_names_a_model_of_the_catalogue_and_none_twice():
    assert {case.model for case in CASES} <= {*Catalog.standard().names("model")}
    assert len({(case.model, case.words) for case in CASES}) == len(CASES)


def write_experts(root: Path, counts: dict[int, int]) -> None:
    """SGLang's Triton experts on H100, BF16: so many rows by the width of a rank of eight experts."""
    place = root / "h100_sxm" / "moe" / "sglang" / "0.5.14"
    place.mkdir(parents=True)
    widths = [width for width, count in counts.items() for _ in range(count)]
    same = {
        "device": "NVIDIA H100 80GB HBM3",
        "kernel_source": "sglang_fused_moe_triton",
        "moe_dtype": "bfloat16",
        "hidden_size": 4096,
        "topk": 2,
        "num_experts": 8,
        "moe_tp_size": 1,
        "moe_ep_size": 1,
        "distribution": "power_law_1.2",
        "latency": 0.5,
    }
    columns = {name: [value] * len(widths) for name, value in same.items()}
    tokens = [n for count in counts.values() for n in range(1, count + 1)]
    table = pa.table(columns | {"inter_size": widths, "num_tokens": tokens})
    parquet.write_table(table, place / "moe_perf.parquet")


@pytest.mark.parametrize(
    ("tuned", "expected"),
    [
        (300, {"triton_bf16": 40, "triton-tuned_bf16": 300}),
        (299, {"triton_bf16": 339}),
    ],
)
def test_rows_with_tuned_tiles_are_a_kernel_of_their_own_if_they_are_many(
    tmp_path, tuned, expected
):
    """SGLang 0.5.14 ships tiles for 8 experts of 7,168 columns on H100, and none for 6,000."""
    write_experts(tmp_path, {7168: tuned, 6000: 40})
    pick = Pick(frozenset({"h100-sxm"}), frozenset({"sglang"}))
    rows = {each.variant: len(each.time_s) for each in family("moe").tables(tmp_path, pick)}
    assert rows == expected
