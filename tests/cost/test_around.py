"""Tiles of a kernel around attention: by hand, from the sides of two models and two GPUs."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cost.annotate import annotate
from planner.cost.around import fitting_tile
from planner.cost.attended import attended_flow, composites
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.types import Formats, Load, SequenceGroup
from planner.spec.question import blocks_of
from tests.cost.test_fitting import BF16, CATALOG, KIB, gpu, layer

LLAMA = "llama-3.1-8b-instruct"
MIB = 1024 * KIB
FRONT = ("input_norm", "q_proj", "k_proj", "v_proj", "rope", "kv_cache_write")
BEHIND = ("o_proj", "attention_residual")


@cache
def rank(name: str, ranks: int, formats: Formats = BF16, kind: int = 1):
    model = CATALOG.find("model", name)
    return model_graph(model, blocks_of(model, CATALOG), formats, ranks).kinds[kind]


def tile(names, sequences: float, on: str, block=None, *, new: int = 1, keys: int = 4096):
    block = block or layer(LLAMA)
    window, chip = Window(block), gpu(on)
    parts = list(composites(window))[-1]
    nodes = sorted([*parts, *((0, name) for name in names)], key=window.position.__getitem__)
    costs = (annotate(block, Load((SequenceGroup(sequences, new, keys),)), chip),)
    return fitting_tile(attended_flow(window, nodes), costs, chip)


def test_one_sequence_spreads_over_clusters_of_half_a_kv_head():
    """Llama-3.1-8B: 8 KV heads with 4 queries each, of 128; o_proj has 4096 columns.

    Whole KV heads are 8 clusters of 8, 64 of 132 multiprocessors; halves are 16, all that run at
    once: 128. 16 rows × 4096 / 8 columns × 4 B = 32 KiB of sums, and attention's of 2 queries,
    padded to 16 rows of 128: 8 KiB. Each cluster writes and reads the sums of one row:
    2 · 16 · 4096 · 4 B = 512 KiB. The L2 hands on o_proj's 32 MiB once and K and V, 16 MiB, twice.
    """
    found = tile(BEHIND, 1, "h100-sxm")
    assert (found.level, found.rows, found.columns, found.blocks) == ("cluster", 1, 4096, 8)
    assert found.kept_bytes == 40 * KIB
    assert found.share == pytest.approx(128 / 132)
    assert found.extra_bytes == 512 * KIB
    filled = (32 + 2 * 16) * MIB / (64 * 132 * 1.83e9)
    assert found.fill_s == pytest.approx(filled * 132 / 128, rel=1e-3)
    assert found.extra_flops == 0


def test_the_norm_in_front_is_computed_by_every_tile_of_a_row():
    """8 KV heads in halves: 16 tiles, 15 times more than once; 4 FLOPs an element of 4096."""
    found = tile((*FRONT, *BEHIND), 1, "h100-sxm")
    assert found.extra_flops == 15 * 4 * 4096


def test_rows_of_4096_sums_fit_no_gpu_without_clusters():
    """16 × 4096 × 4 B = 256 KiB in one multiprocessor with 128 KiB for sums."""
    assert tile(BEHIND, 1, "a100-80gb-sxm") is None
    assert tile(BEHIND, 1, "rtx-4090") is None


def test_weights_of_a_head_are_read_for_every_tile_of_sequences():
    """64 sequences: 512 tiles of a whole KV head, 32 for each of 16 clusters. The L2 hands on
    o_proj's 32 MiB 64 times and K and V of 16 MiB each once; memory takes longer for those, 1 GiB.
    Sums stay in the clusters: one row of each is written and read.
    """
    found = tile(BEHIND, 64, "h100-sxm")
    assert (found.rows, found.blocks) == (1, 8)
    assert found.extra_bytes == 2 * 16 * 4096 * 4
    filled = 64 * (32 + 16) * MIB / (64 * 132 * 1.83e9)
    assert found.fill_s == pytest.approx(filled * 132 / 128, rel=1e-3)
    assert found.fill_s < 64 * 16 * MIB / 3.35e12


def test_absorbed_heads_of_latent_attention():
    """DeepSeek-V3 on 8 ranks: 16 heads share latents of 576, of which 512 are summed.

    64 sequences, a tile each: clusters of 4 run 33 at once, two waves of 32: 128 of 132. Queries
    become 16 · 512 columns: 16 rows × 8192 / 4 × 4 B = 128 KiB, all that a multiprocessor has;
    two would need twice that.
    """
    found = tile(("q_absorb", "v_absorb"), 64, "h100-sxm", rank("deepseek-v3", 8))
    assert (found.level, found.rows, found.columns, found.blocks) == ("cluster", 1, 8192, 4)
    assert found.kept_bytes == 128 * KIB
    assert found.share == pytest.approx(128 / 132)
    assert found.extra_bytes == 0


def test_a_statistic_of_all_heads_takes_a_tile_for_each_row():
    """Dynamic FP8 behind attention: 64 tiles of all 32 heads. Pairs of multiprocessors are 66 at
    once: one wave, 128 of 132.
    """
    fp8 = rank(LLAMA, 1, Formats("fp8", "fp8", "bf16", "bf16"))
    found = tile(("attended.quant",), 64, "h100-sxm", fp8)
    assert (found.rows, found.columns, found.blocks) == (1, 4096, 2)
    assert found.share == pytest.approx(128 / 132)


def test_prompts_take_no_projections_in_front():
    """Each tile of queries would compute the keys of every token before it."""
    assert tile(FRONT, 1, "h100-sxm", new=512, keys=512) is None
    assert tile((*FRONT, *BEHIND), 1, "h100-sxm", new=512, keys=512) is None


def test_rows_travel_while_the_next_sequences_are_attended_to():
    """Llama-3.1-70B on 8 ranks, 64 sequences: 8 heads share one KV head. Two sequences a tile, 32
    tiles for 16 clusters: two parts. 16 rows × 8192 / 8 columns × 4 B = 64 KiB of sums, and 8 of
    attention's 16 rows × 128; no cluster adds to another's sums.
    """
    names = ("o_proj", "o_proj.all_reduce", "attention_residual")
    found = tile(names, 64, "h100-sxm", rank("llama-3.1-70b-instruct", 8))
    assert (found.rows, found.columns, found.blocks) == (2, 8192, 8)
    assert (found.kept_bytes, found.extra_bytes, found.pieces) == (72 * KIB, 0, 2)


def test_prompts_rotate_new_keys_for_each_tile_of_queries_that_sees_them():
    """512 tokens are 4 tiles of 128: half of the other three times once more on average, 3 FLOPs an
    element of 32 + 8 heads of 128.
    """
    found = tile(("rope", "kv_cache_write"), 1, "h100-sxm", new=512)
    assert found.extra_flops == 3 / 2 * 3 * 512 * 40 * 128
    assert tile(("rope", "kv_cache_write"), 64, "h100-sxm").extra_flops == 0


def test_of_a_gpu_that_nobody_described_nothing_is_asked():
    assert tile(FRONT, 1, "tpu-v5e").level == "unknown"


@settings(max_examples=many(20, 200), deadline=None)
@given(
    st.integers(1, 512), st.integers(64, 65536), st.sampled_from(["h100-sxm", "b200-sxm", "l40s"])
)
def test_no_tile_keeps_more_than_its_chip_has(sequences, keys, name):
    chip = gpu(name).chip
    for names in ((*FRONT, *BEHIND), BEHIND, FRONT):
        found = tile(names, sequences, name, keys=keys)
        if found is not None:
            assert found.kept_bytes <= chip.accumulator_bytes
            assert 0 < found.share <= 1
            assert found.blocks <= chip.cluster
            assert found.rows < 2 * sequences
