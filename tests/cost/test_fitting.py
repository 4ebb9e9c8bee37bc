"""Which tiles fit a chip, and what they cost beside a group's own bytes: by hand."""

from __future__ import annotations

import math
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cost.annotate import annotate
from planner.cost.fitting import best_tile
from planner.cost.flow import flow_of
from planner.cost.types import device
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.types import Formats, Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

CATALOG = Catalog.standard()
BF16 = Formats("bf16", "bf16", "bf16", "bf16")
KIB, MIB = 1024, 1024**2
MLP = ("gate_proj", "up_proj", "act", "act_mul", "down_proj")
NORMED = ("o_proj", "attention_residual", "post_attention_norm")


@cache
def gpu(name: str):
    return device(CATALOG.find("gpu", name))


@cache
def layer(name: str):
    model = CATALOG.find("model", name)
    return model_graph(model, blocks_of(model, CATALOG), BF16, 1).kinds[1]


def tile(names, rows: float, on: str, model: str = "llama-3.1-8b-instruct"):
    block = layer(model)
    window, chip = Window(block), gpu(on)
    keys = sorted(((0, name) for name in names), key=window.position.__getitem__)
    costs = (annotate(block, Load((SequenceGroup(rows, 1, 1024),)), chip),)
    return best_tile(flow_of(window, keys), costs, chip)


def test_chips_by_capability():
    """H100: 64 Ki registers of 4 bytes; 228 KiB of shared memory less 1; half for sums."""
    h100, a100, b200 = (gpu(name).chip for name in ("h100-sxm", "a100-80gb-sxm", "b200-sxm"))
    assert (h100.registers_bytes, h100.accumulator_bytes) == (256 * KIB, 128 * KIB)
    assert (h100.shared_bytes, h100.cluster, h100.multiprocessors) == (227 * KIB, 8, 132)
    assert (a100.shared_bytes, a100.cluster) == (163 * KIB, 1)
    assert b200.accumulator_bytes == 256 * KIB  # tensor memory
    assert gpu("mi300x").chip.registers_bytes == 512 * KIB
    assert gpu("tpu-v5e").chip is None


def test_whole_rows_of_a_long_prompt_need_a_cluster():
    """64 rows × 4096 columns × 4 B = 1 MiB: four times a block's registers, 128 KiB each of 8.

    128 rows would be 256 KiB each, more than the half that is for sums. 8192 rows are 128 tiles on
    16 clusters at once: 8 waves, and 8 · 16 = 128 of 132 multiprocessors at work. o_proj is 32 MiB,
    which the L2 of 50 MiB holds.
    """
    found = tile(NORMED, 8192, "h100-sxm")
    assert (found.level, found.rows, found.columns, found.blocks) == ("cluster", 64, 4096, 8)
    assert found.kept_bytes == 1 * MIB / 8
    assert found.share == pytest.approx(128 / 132)
    assert found.extra_bytes == 0
    assert found.fill_s == pytest.approx(128 * 4096 * 4096 * 2 / (64 * 132 * 1.83e9), rel=1e-3)


def test_whole_rows_fit_no_gpu_without_clusters():
    """16 rows × 4096 × 4 B = 256 KiB in one block; over the grid 8192 rows are 128 MiB of 108
    multiprocessors with 128 KiB each.
    """
    assert tile(NORMED, 8192, "a100-80gb-sxm") is None


def test_few_rows_lie_over_the_whole_grid():
    """16 rows × 4096 × 4 B = 256 KiB over 108; statistics of 32 tiles: 16 · 32 · 8 B."""
    found = tile(NORMED, 16, "a100-80gb-sxm")
    assert (found.level, found.barriers) == ("grid", 1)
    assert found.kept_bytes == pytest.approx(256 * KIB / 108)
    assert found.extra_bytes == 16 * 32 * 8


def test_a_chain_sums_up_in_clusters():
    """Llama-3.2-1B, one token: hidden 2048, intermediate 8192, so 128 slices of 64.

    16 rows × 2048 × 4 B = 128 KiB, and two slices 8 KiB: not one block. Over 8 blocks 16 clusters
    run at once, each takes 8 slices, 128 of 132 multiprocessors work, and 16 partial sums of one
    row are written and read: 2 · 16 · 2048 · 4 B.
    """
    found = tile(MLP, 1, "h100-sxm", "llama-3.2-1b-instruct")
    assert (found.level, found.rows, found.columns, found.blocks) == ("cluster", 16, 2048, 8)
    assert found.kept_bytes == 16 * 2048 * 4 / 8
    assert found.share == pytest.approx(128 / 132)
    assert found.extra_bytes == 2 * 16 * 2048 * 4


def test_a_chain_of_wide_rows_fits_no_gpu_without_clusters():
    """Hidden 4096: 256 KiB of sums in a block with 128 KiB for them."""
    assert tile(MLP, 1, "rtx-4090") is None


def test_a_small_expert_is_one_kernel_where_its_rows_fit():
    """Granite 3.1 3B-A800M: hidden 1536, 40 experts of 512, 8 a token, on a GPU without clusters.

    16 rows × 1536 × 4 B = 96 KiB and two slices of 64 columns 8 KiB: 104 of 128 KiB. Qwen3-30B-A3B
    has rows of 2048, 128 KiB and two slices: too many. One token has 8 experts with 8 slices each:
    64 parts, one for each of 64 of 128 multiprocessors, which write and read a row each.
    """
    found = tile(("experts",), 1, "rtx-4090", "granite-3.1-3b-a800m")
    assert (found.level, found.rows, found.columns, found.blocks) == ("block", 16, 1536, 1)
    assert found.share == pytest.approx(64 / 128)
    assert found.extra_bytes == pytest.approx(2 * 64 * 1536 * 4)
    assert tile(("experts",), 1, "rtx-4090", "qwen3-30b-a3b") is None
    assert tile(("experts",), 1, "h100-sxm", "qwen3-30b-a3b").level == "cluster"


def test_what_stands_in_front_is_computed_for_each_tile_of_columns():
    """q, k and v of Llama-3.1-8B are 6144 columns; their results meet in the rotation, so a tile
    has 64 of each: 32 tiles. A norm is 4 FLOPs an element.
    """
    found = tile(("input_norm", "q_proj", "k_proj", "v_proj", "rope"), 16, "h100-sxm")
    assert (found.rows, found.columns) == (16, 64)
    assert found.kept_bytes == 16 * 64 * 3 * 4
    assert found.extra_flops == 31 * 4 * 16 * 4096
    assert found.extra_bytes == 0


def test_operands_that_miss_the_l2_are_read_again_by_each_wave():
    """65,536 rows of 8 KiB are 512 MiB; two operands of the sum in front. 512 × 224 tiles of 128
    rows and 64 + 64 columns are 869 waves of 132.
    """
    names = ("attention_residual", "post_attention_norm", *MLP[:4])
    found = tile(names, 65_536, "h100-sxm")
    tiles = 512 * math.ceil(14336 / found.columns)
    assert found.extra_bytes == 2 * 512 * MIB * (math.ceil(tiles / 132) - 1)


@settings(max_examples=many(20, 200), deadline=None)
@given(
    st.integers(1, 20_000), st.sampled_from(["h100-sxm", "a100-80gb-sxm", "rtx-4090", "b200-sxm"])
)
def test_no_tile_keeps_more_than_its_chip_has(rows, name):
    chip = gpu(name).chip
    for names in (NORMED, MLP, MLP[:4], ("input_norm", "q_proj", "k_proj", "v_proj")):
        found = tile(names, rows, name)
        if found is not None:
            assert found.kept_bytes <= chip.accumulator_bytes + chip.shared_bytes
            assert 0 < found.share <= 1
            assert found.blocks <= chip.cluster
