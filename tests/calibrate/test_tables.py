"""Reading the wheel: where it lies, which file is newest, what a GEMM table becomes."""

from __future__ import annotations

import importlib.util

import numpy as np
import pyarrow as pa
import pytest
from calibrate_samples import gemm_shapes, gemm_times, write_gemms
from pyarrow import parquet

from planner.calibrate import aiconfigurator
from planner.calibrate.families import collective, family, moe, recurrent
from planner.calibrate.families.gemm import tables
from planner.calibrate.types import Pick
from planner.cost.kernels.gemm import GemmShape
from planner.errors import UsageError


def test_a_missing_wheel_says_how_to_install_it(monkeypatch):
    """The optional extra is named in the hint."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'inference-planner\[calibrate\]'"):
        aiconfigurator.root()


def test_versions_are_ordered_as_releases_are():
    """Numbers count as numbers, a candidate before its release, a post-release after it."""
    oldest_first = ("0.5.9", "0.5.10", "1.3.0rc9", "1.3.0rc20", "1.3.0", "1.3.0.post1")
    mixed = {"1.3.0", "0.5.10", "1.3.0.post1", "1.3.0rc20", "0.5.9", "1.3.0rc9"}
    assert tuple(sorted(mixed, key=aiconfigurator.version_key)) == oldest_first


def test_the_newest_file_of_a_cell_is_read(tmp_path):
    """0.24.0 is newer than 0.9.0, though not by the alphabet."""
    shape = gemm_shapes(30)
    write_gemms(tmp_path, shape, gemm_times(shape), version="0.9.0")
    write_gemms(tmp_path, shape, gemm_times(shape), version="0.24.0")
    (rows,) = tables(tmp_path, Pick())
    assert (rows.gpu, rows.engine, rows.version) == ("h100-sxm", "vllm", "0.24.0")
    assert rows.source == "h100_sxm/gemm/vllm/0.24.0/gemm_perf.parquet"


def test_cells_that_were_not_asked_for_are_not_read(tmp_path):
    """Picking another GPU or engine leaves nothing."""
    shape = gemm_shapes(30)
    write_gemms(tmp_path, shape, gemm_times(shape))
    assert not list(tables(tmp_path, Pick(gpus=frozenset({"l40s"}))))
    assert not list(tables(tmp_path, Pick(engines=frozenset({"sglang"}))))


def test_milliseconds_become_seconds_and_columns_a_shape(tmp_path):
    """m, n and k are rows, features and depth; vLLM's loop cycles through six weights."""
    shape = GemmShape(np.array([4.0]), np.array([512.0]), np.array([1024.0]))
    write_gemms(tmp_path, shape, np.array([5e-6]))
    (rows,) = tables(tmp_path, Pick())
    assert rows.time_s.tolist() == pytest.approx([5e-6])
    assert (rows.shape.rows[0], rows.shape.depth[0], rows.shape.features[0]) == (4, 512, 1024)
    assert rows.shape.weight_copies.tolist() == [6]


def test_rows_of_another_gpu_are_flagged_and_not_kept(tmp_path):
    """The folder says H100, the device column L40S."""
    shape = gemm_shapes(30)
    write_gemms(tmp_path, shape, gemm_times(shape), device="NVIDIA L40S")
    (rows,) = tables(tmp_path, Pick())
    assert rows.flags["foreign"] == len(rows.time_s)
    assert not rows.kept.any()


def test_a_table_timed_by_the_host_is_rejected_with_the_reason(tmp_path):
    """Tiny products of 60 us were not measured inside a CUDA graph."""
    rows, depth = np.arange(1.0, 17.0), np.full(16, 256.0)
    write_gemms(tmp_path, GemmShape(rows, depth, depth), np.full(16, 60e-6), dtype="fp8_block")
    (found,) = tables(tmp_path, Pick())
    assert "60 us" in found.rejected
    assert "without a CUDA graph" in found.rejected


@pytest.mark.parametrize(("engine", "rejected"), [("trtllm", True), ("vllm", False)])
def test_products_that_were_not_tuned_are_rejected(tmp_path, engine, rejected):
    """TensorRT-LLM's NVFP4 was measured outside its autotuner; vLLM's has none to run."""
    shape = gemm_shapes(30)
    b200 = {"folder": "b200_sxm", "device": "NVIDIA B200", "dtype": "nvfp4"}
    write_gemms(tmp_path, shape, gemm_times(shape), engine=engine, **b200)
    (found,) = tables(tmp_path, Pick())
    assert ("autotuner" in found.rejected) == rejected


@pytest.mark.parametrize(
    ("gpu", "dtype", "rejected"),
    [
        ("b200_sxm", "w4a16_mxfp4", True),
        ("b200_sxm", "w4a8_mxfp4_mxfp8", False),
        ("h100_sxm", "w4a16_mxfp4", False),
    ],
)
def test_experts_that_were_not_tuned_are_rejected(tmp_path, gpu, dtype, rejected):
    """The collector tunes every format but one; on Hopper that is Triton's, without a tuner."""
    place = tmp_path / gpu / "moe" / "trtllm" / "1.3.0"
    place.mkdir(parents=True)
    sides = (16, 2880, 2880, 4, 128, 1, 1)
    row = dict(zip(moe.KEYS, (*sides, "balanced"), strict=True)) | {
        "device": {"b200_sxm": "NVIDIA B200", "h100_sxm": "NVIDIA H100 80GB HBM3"}[gpu],
        "kernel_source": "moe_torch_flow",
        "moe_dtype": dtype,
        "latency": 0.4,
    }
    parquet.write_table(pa.Table.from_pylist([row]), place / "moe_perf.parquet")
    (found,) = moe.tables(tmp_path, Pick())
    assert ("autotuner" in found.rejected) == rejected


def test_an_impossible_rate_is_flagged_and_not_kept(tmp_path):
    """8,192 cubed are 1.1 PFLOP; in 0.5 ms that is twice an H100's peak."""
    edge = np.array([8192.0])
    write_gemms(tmp_path, GemmShape(edge, edge, edge), np.array([0.5e-3]))
    (rows,) = tables(tmp_path, Pick())
    assert rows.flags["impossible"] == 1
    assert not rows.kept.any()


def test_an_unknown_family_is_refused_with_a_suggestion():
    """gem is nearly gemm."""
    with pytest.raises(UsageError, match="did you mean 'gemm'"):
        family("gem")


def write_all_reduces(root, gpu, device, engine, version):
    """One message of a kibi element under a version."""
    place = root / gpu / "comm" / engine / version
    place.mkdir(parents=True)
    row = {
        "device": device,
        "op_name": "all_reduce",
        "kernel_source": "SGLang_CustomAllReduce_graph",
        "allreduce_dtype": "bfloat16",
        "num_gpus": 8,
        "message_size": 1024,
        "latency": 0.005,
    }
    parquet.write_table(pa.Table.from_pylist([row]), place / "custom_allreduce_perf.parquet")


def test_an_all_reduce_that_was_rewritten_is_read_from_before_as_well(tmp_path):
    """SGLang's of 0.5.12: the last table before is 0.5.10's, of the kernel that vLLM ran as well.
    On an L40S it stayed. vLLM's newest is of symmetric memory, but for GB200's.
    """
    for version in ("0.5.9", "0.5.10", "0.5.14"):
        write_all_reduces(tmp_path, "h200_sxm", "NVIDIA H200", "sglang", version)
    write_all_reduces(tmp_path, "l40s", "NVIDIA L40S", "sglang", "0.5.10")
    write_all_reduces(tmp_path, "h200_sxm", "NVIDIA H200", "vllm", "0.24.0")
    write_all_reduces(tmp_path, "gb200", "NVIDIA GB200", "vllm", "0.24.0")
    found = {
        (rows.gpu, rows.engine, rows.version, rows.variant)
        for rows in collective.tables(tmp_path, Pick())
    }
    assert found == {
        ("h200-sxm", "sglang", "0.5.14", "all_reduce_engine"),
        ("h200-sxm", "sglang", "0.5.10", "all_reduce_cross_device"),
        ("h200-sxm", "vllm", "0.5.10", "all_reduce_cross_device"),
        ("l40s", "sglang", "0.5.10", "all_reduce_engine"),
        ("h200-sxm", "vllm", "0.24.0", "all_reduce_symmetric"),
        ("gb200", "vllm", "0.24.0", "all_reduce_engine"),
    }
    of_vllm = list(collective.tables(tmp_path, Pick(engines=frozenset({"vllm"}))))
    assert of_vllm[0].variant == "all_reduce_cross_device", "it lends constants"
    assert [rows.evenly for rows in of_vllm] == [True, True, False]
    assert [rows.source for rows in of_vllm if rows.version == "0.5.10"] == [
        "h200_sxm/comm/sglang/0.5.10/custom_allreduce_perf.parquet"
    ]


def gdn_row(source: str, tokens: int, heads: int, latency: float) -> dict[str, object]:
    return {
        "device": "NVIDIA B200",
        "kernel_source": source,
        "batch_size": 1,
        "seq_len": tokens,
        "num_k_heads": heads // 4,
        "head_k_dim": 128,
        "num_v_heads": heads,
        "head_v_dim": 128,
        "d_conv": 4,
        "latency": latency,
    }


def test_kernels_with_a_state_are_read_by_what_they_walk_and_move(tmp_path):
    """16 heads, 4 of keys: prompts of 130 tokens are 3 chunks; decoded, the state is moved twice.
    Rows of one token as a prompt are kept out, and so are convolutions whose time does not depend
    on channels, and kernels that nobody described.
    """
    place = tmp_path / "b200_sxm" / "linear_attention" / "sglang" / "0.5.14"
    place.mkdir(parents=True)
    found = [
        gdn_row("chunk_gated_delta_rule", 130, 16, 0.05),
        gdn_row("chunk_gated_delta_rule", 1, 16, 0.02),
        gdn_row("fused_recurrent_gated_delta_rule_packed_decode", 1, 16, 0.004),
        gdn_row("a_kernel_of_tomorrow", 130, 16, 0.01),
        *(gdn_row("causal_conv1d_fn", 8192, heads, 0.03) for heads in (16, 64)),
    ]
    parquet.write_table(pa.Table.from_pylist(found), place / "gdn_perf.parquet")
    rows = {each.variant: each for each in recurrent.tables(tmp_path, Pick())}
    assert [*rows] == ["conv_prompts", "delta_chunks", "delta_steps"]
    chunks, steps = rows["delta_chunks"], rows["delta_steps"]
    assert sorted(chunks.shape.steps[chunks.kept]) == [3]
    assert chunks.flags["another-kernel"] == 1
    assert steps.shape.moved_bytes == pytest.approx([10_304 + 2 * 2**20])
    assert "number of channels" in rows["conv_prompts"].rejected
