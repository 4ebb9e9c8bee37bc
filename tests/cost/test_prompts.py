"""Tiles of attention of prompts with the projection behind it: by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cost.prompts import Queries
from planner.ops.types import Formats, SequenceGroup
from tests.cost.test_around import BEHIND, LLAMA, rank, tile
from tests.cost.test_fitting import KIB, MIB, gpu

REDUCED = ("o_proj", "o_proj.all_reduce", "attention_residual")


def test_all_heads_of_some_tokens_lie_in_a_cluster():
    """Llama-3.1-8B, 8192 tokens, H100: 32 heads of 128, 8 KV heads, o_proj 4096 columns.

    128 tokens, 4 heads to each of 8 blocks: 128 × 4 × 128 × 2 B = 128 KiB of attended rows. Beside
    them 32 KiB of queries and two of 64 keys and values, 64 KiB: 224 of 227. Sums of 128 × 256,
    128 KiB, all that there is for them. 64 tiles are four waves of 16 clusters: 128 of 132.
    """
    found = tile(BEHIND, 1, "h100-sxm", new=8192, keys=8192)
    assert (found.level, found.rows, found.columns, found.blocks) == ("cluster", 128, 4096, 8)
    assert found.kept_bytes == (128 + 128) * KIB
    assert found.share == pytest.approx(128 / 132)
    assert (found.extra_bytes, found.extra_flops, found.pieces) == (0, 0, 4)
    keys = 64 * 32 * 8193 / 2 * 2 * 128 * 2  # bytes: tiles, heads, keys seen, K and V of 128
    filled = (64 * 32 * MIB + keys) / (64 * 132 * 1.83e9)
    assert found.fill_s == pytest.approx(filled * 132 / 128, rel=1e-3)


def test_all_heads_fit_no_gpu_without_clusters():
    """16 rows × 4096 × 2 B are 128 KiB, and 96 KiB on their way: more than 163."""
    assert tile(BEHIND, 1, "a100-80gb-sxm", new=512, keys=512) is None
    assert tile(BEHIND, 1, "rtx-4090", new=512, keys=512) is None


def test_the_last_token_sees_twice_as_many_keys_as_the_mean_one():
    """512 new tokens see 1 to 512 keys; behind 512 cached ones 513 to 1024."""
    prompt, chunk = SequenceGroup(1, 512, 512), SequenceGroup(1, 512, 1024)
    alone = Queries(8, 1, 128, 128, 2, (prompt,), 512 * 513 / 2)
    behind = Queries(8, 1, 128, 128, 2, (chunk,), 512 * 512 + 512 * 513 / 2)
    assert alone.longest == pytest.approx(512 / 256.5)
    assert behind.longest == pytest.approx(1024 / 768.5)


def test_no_step_is_shorter_than_the_tile_of_the_last_tokens():
    """Llama-3.1-70B on 8 ranks, 2048 tokens: what fits at once would leave no multiprocessor idle,
    were all tiles alike.
    """
    found = tile(REDUCED, 1, "h100-sxm", rank("llama-3.1-70b-instruct", 8), new=2048, keys=2048)
    tiles = 2048 / found.rows
    longest = (1 - found.last) * 2048 / 1024.5 + found.last
    assert tiles <= 132 // found.blocks
    assert found.share == pytest.approx(tiles / longest * found.blocks / 132)


def test_more_and_smaller_tiles_hide_more_of_a_sum_over_ranks():
    """8192 tokens: 32 a tile are 256 of 16 clusters, so 16 parts; without the sum 128 a tile."""
    block = rank("llama-3.1-70b-instruct", 8)
    found = tile(REDUCED, 1, "h100-sxm", block, new=8192, keys=8192)
    assert (found.rows, found.blocks, found.pieces, found.last) == (32, 8, 16, 1)


def test_rows_without_a_projection_behind_them_are_complete_wave_by_wave():
    """Llama-3.1-8B on four ranks in dynamic FP8, prompts of 2,000 tokens on H200: rows are
    quantised and nothing is multiplied behind them. 64 tokens are 32 tiles a prompt; clusters of
    two are 66 at once, of four 33. Four prompts are two waves of 64, two of 32.
    """
    block = rank(LLAMA, 4, Formats("fp8", "fp8", "bf16", "bf16"))
    found = tile(("attended.quant",), 4, "h200-sxm", block, new=2000, keys=2000)
    assert (found.rows, found.columns, found.blocks) == (64, 8 * 128, 2)
    assert (found.pieces, found.last, found.share) == (2, 1, pytest.approx(64 / 66))
    fewer = tile(("attended.quant",), 2, "h200-sxm", block, new=2000, keys=2000)
    assert (fewer.rows, fewer.blocks, fewer.pieces) == (64, 4, 2)


@settings(max_examples=many(15, 200), deadline=None)
@given(
    st.integers(2, 20_000),
    st.integers(0, 30_000),
    st.sampled_from(["h100-sxm", "b200-sxm", "mi300x"]),
)
def test_no_tile_of_prompts_keeps_more_than_its_chip_has(new, past, name):
    chip = gpu(name).chip
    for names, block in ((BEHIND, None), (REDUCED, rank("llama-3.1-70b-instruct", 8))):
        found = tile(names, 3, name, block, new=new, keys=past + new)
        if found is not None:
            assert found.kept_bytes <= chip.accumulator_bytes + chip.shared_bytes
            assert 0 < found.share <= 1
            assert found.blocks <= chip.cluster
