"""Tiles of two products one behind the other, and of products whose rows ranks sum up: by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cost.annotate import annotate
from planner.cost.fitting import best_tile
from planner.cost.flow import flow_of
from planner.cost.tile import Tile
from planner.graph.window import Window
from planner.ops.types import Formats, Load, SequenceGroup
from tests.cost.test_around import rank
from tests.cost.test_fitting import KIB, MIB, MLP, gpu

LLAMA = "llama-3.1-70b-instruct"
SUMMED = ("o_proj", "o_proj.all_reduce", "attention_residual", "post_attention_norm")
LATENT = ("q_a_proj", "kv_a_proj_with_mqa", "q_a_norm", "q_b_proj")


def tile(names, rows: float, on: str, model: str = LLAMA, ranks: int = 8, **formats):
    block = rank(model, ranks, **formats)
    window, chip = Window(block), gpu(on)
    keys = sorted(((0, name) for name in names), key=window.position.__getitem__)
    costs = (annotate(block, Load((SequenceGroup(rows, 1, 1024),)), chip),)
    return best_tile(flow_of(window, keys), costs, chip)


def test_slices_are_narrow_where_wide_ones_leave_clusters_idle():
    """Llama-3.1-70B on 8 ranks, one token: 28672 / 8 = 3584 columns between.

    16 rows × 8192 × 4 B / 8 = 64 KiB. 56 slices of 64 keep 14 of 16 clusters at work, 112 of 32
    all, 128 of 132 multiprocessors. Each cluster writes and reads a row: 2 · 16 · 8192 · 4 B. Sums
    are whole when the last slice is added, so nothing travels before.
    """
    found = tile((*MLP, "down_proj.all_reduce", "mlp_residual"), 1, "h100-sxm")
    assert (found.level, found.rows, found.columns, found.blocks) == ("cluster", 16, 8192, 8)
    assert found.kept_bytes == 64 * KIB
    assert found.share == pytest.approx(128 / 132)
    assert found.extra_bytes == 1 * MIB
    assert found.pieces == 1


def test_few_rows_that_ranks_sum_up_lie_over_the_grid():
    """16 × 8192 × 4 B over 132 multiprocessors; 512 tiles of 16 columns are four for each, which
    travel one by one before the statistic is known.
    """
    found = tile(SUMMED, 1, "h100-sxm")
    assert (found.level, found.barriers, found.pieces) == ("grid", 1, 4)
    assert found.kept_bytes == pytest.approx(16 * 8192 * 4 / 132)


def test_many_rows_that_ranks_sum_up_lie_in_clusters():
    """32 rows × 8192 × 4 B / 8 = 128 KiB, all there is. 256 heights of 512 narrow tiles."""
    found = tile(SUMMED, 8192, "h100-sxm")
    assert (found.level, found.rows, found.blocks) == ("cluster", 32, 8)
    assert found.kept_bytes == 128 * KIB
    assert found.pieces == 993  # 131,072 / 132


def test_rows_of_the_first_product_stay_where_they_are_narrow():
    """DeepSeek-V3 on 8 ranks, 4096 tokens: latent queries of 1536 become 16 · 192 = 3072 columns.

    64 rows × 1536 × 2 B / 2 = 96 KiB in shared memory, and sums of 64 × 256, 64 KiB. 64 tiles of
    two multiprocessors: 128 of 132, in one wave. Nothing is read or written beside: the weights of
    both products, 38 MiB, lie in the L2.
    """
    found = tile(LATENT, 4096, "h200-sxm", "deepseek-v3")
    assert (found.level, found.rows, found.columns, found.blocks) == ("cluster", 64, 1536, 2)
    assert found.kept_bytes == (96 + 64) * KIB
    assert found.share == pytest.approx(128 / 132)
    assert found.extra_bytes == 0


def test_a_rounding_between_two_products_leaves_most_of_the_chip_idle_for_few_rows():
    """Dynamic FP8 needs the 3584 columns whole: 16 rows × 3584 × 2 B = 112 KiB in one
    multiprocessor, beside 40 KiB of operands. That one does it all.
    """
    fp8 = Formats("fp8", "fp8", "bf16", "bf16")
    names = (*MLP[:4], "product.quant", "down_proj")
    found = tile(names, 1, "h100-sxm", formats=fp8)
    assert (found.level, found.rows, found.columns, found.blocks) == ("block", 16, 3584, 1)
    assert found.share == pytest.approx(1 / 132)
    assert tile(names, 1, "rtx-4090", formats=fp8) is None  # 99 KiB


def test_experts_columns_travel_one_after_another():
    """DeepSeek-V3 on 8 ranks, whose experts are all on each. A row is whole when the last of its
    experts is done; in a second pass over all experts, a third of the work, columns are.
    """
    found = experts(4096)
    assert found.last == pytest.approx(1 / 3)
    assert found.pieces > 100


def experts(tokens: float) -> Tile:
    """Of all experts with the sum over ranks."""
    block = rank("deepseek-v3", 8, kind=2)
    window, chip = Window(block), gpu("h200-sxm")
    names = ("experts", "experts_add", "experts_sum.all_reduce")
    keys = sorted(((0, name) for name in names), key=window.position.__getitem__)
    costs = (annotate(block, Load((SequenceGroup(1, tokens, tokens),)), chip),)
    return best_tile(flow_of(window, keys), costs, chip)


@settings(max_examples=many(15, 200), deadline=None)
@given(st.integers(1, 20_000), st.sampled_from(["h100-sxm", "a100-80gb-sxm", "b200-sxm"]))
def test_what_hides_is_never_more_than_either_side(rows, name):
    """And a tile keeps no more than its chip has."""
    chip = gpu(name).chip
    for names in ((*MLP, "down_proj.all_reduce"), SUMMED, ("o_proj", "o_proj.all_reduce")):
        found = tile(names, rows, name)
        if found is not None:
            assert found.kept_bytes <= chip.accumulator_bytes + chip.shared_bytes
            assert found.pieces >= 1
            assert 0 < found.share <= 1
            assert 0 <= found.hidden_s(3.0, 5.0) <= 3.0
            assert found.hidden_s(5.0, 3.0) <= 3.0 / found.share
