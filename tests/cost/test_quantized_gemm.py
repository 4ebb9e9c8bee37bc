"""Which constants price a GEMM of quantised weights, and what narrow weights save."""

import pytest
from test_estimate import DEVICE, calibration

from planner.cost.constants import Candidate, Constants, gemm_pair
from planner.cost.kernels.gemm import KINDS, MODEL, GemmShape
from planner.dtypes import bytes_per_element

VLLM = Candidate(
    calibration("own", "h100-sxm", "vllm", "gemm.bf16", "gemm.fp8_cutlass"), "calibrated"
)
SGLANG = Candidate(
    calibration("other", "h100-sxm", "sglang", "gemm.bf16", "gemm.fp8_block", "gemm.fp8_cutlass"),
    "class",
)
PLUGINS = Candidate(
    calibration("trt", "h100-sxm", "tensorrt-llm", "gemm.bf16", "gemm.w4a16", "gemm.int8"), "class"
)


@pytest.mark.parametrize(
    ("matmul", "weights", "pair"),
    [
        ("bf16", "bf16", ("bf16", "bf16")),
        ("fp16", "fp16", ("bf16", "bf16")),
        ("bf16", "awq", ("bf16", "int4")),
        ("bf16", "int4_g32", ("bf16", "int4")),
        ("fp16", "nvfp4", ("bf16", "int4")),
        ("bf16", "fp8", ("bf16", "int8")),
        ("bf16", "fp8_block", ("bf16", "int8")),
        ("fp8", "fp8", ("fp8", "fp8")),
        ("fp8", "fp8_block", ("fp8", "fp8_block")),
        ("int8", "int8", ("int8", "int8")),
        ("fp8", "int4", ("fp8", "int4")),
        ("nvfp4", "nvfp4", ("nvfp4", "nvfp4")),
        ("mxfp4", "mxfp4", ("nvfp4", "mxfp4")),
    ],
)
def test_kernels_differ_by_what_is_multiplied_and_how_weights_are_kept(matmul, weights, pair):
    assert gemm_pair(matmul, weights) == pair


def test_blocks_are_priced_by_a_kernel_for_blocks_wherever_one_was_measured():
    """vLLM and SGLang call the same DeepGEMM; vLLM's own per-tensor kernel is another."""
    constants = Constants((VLLM, SGLANG))
    assert constants.gemm("fp8", "fp8_block").source == "other: gemm.fp8_block"
    assert constants.gemm("fp8", "fp8").source == "own: gemm.fp8_cutlass"


def test_without_a_kernel_for_blocks_per_tensor_constants_are_a_guess():
    found = Constants((VLLM,)).gemm("fp8", "fp8_block")
    assert (found.source, found.evidence) == ("own: gemm.fp8_cutlass", "datasheet")


def test_weight_only_products_take_the_engines_own_bf16_before_anothers_plugin():
    found = Constants((VLLM, PLUGINS)).gemm("bf16", "awq")
    assert (found.source, found.evidence) == ("own: gemm.bf16", "datasheet")


def test_a_measured_weight_only_kernel_is_evidence():
    found = Constants((Candidate(PLUGINS.calibration, "calibrated"),)).gemm("bf16", "awq")
    assert (found.source, found.evidence) == ("trt: gemm.w4a16", "calibrated")


def test_int8_takes_fp8_constants_where_nobody_measured_it():
    assert Constants((VLLM, PLUGINS)).gemm("int8").source == "trt: gemm.int8"
    found = Constants((VLLM,)).gemm("int8")
    assert (found.source, found.evidence) == ("own: gemm.fp8_cutlass", "datasheet")


def test_a_kernel_reaches_no_more_of_the_peak_than_its_instructions():
    constants = Constants((VLLM,))
    assert constants.gemm("bf16", "awq", 0.629).values["matrix_share"] == 0.629
    whole = constants.gemm("bf16", "awq").values["matrix_share"]
    assert constants.gemm("bf16", "awq", 0.99).values["matrix_share"] == min(whole, 0.99)


def test_narrow_weights_save_time_where_memory_binds_and_none_where_compute_does():
    """One row by 8192 × 8192: 134 MB at 16 bit, 35 MB in AWQ. 8,192 rows: as long as BF16."""
    values = Constants((VLLM,)).gemm("bf16").values
    width = bytes_per_element("awq")
    for rows, least, most in ((1, 0.2, 0.5), (8192, 0.97, 1.0)):
        times = [
            MODEL.time_s("bf16", GemmShape(rows, 8192, 8192, weight_bytes=each), DEVICE, values)
            for each in (width, 2)
        ]
        assert least < times[0] / times[1] <= most


def test_a_kind_says_how_its_weights_are_kept():
    assert KINDS["w4a16"].weights == "int4"
    assert KINDS["fp8_block"].weights == "fp8_block"
    assert KINDS["bf16"].weights == "bf16"
