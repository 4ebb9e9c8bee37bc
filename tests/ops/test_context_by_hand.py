"""Ranks that share a context: who attends to what, what passes between them, worked by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.ops.context import (
    GatherPrefix,
    GatherQueries,
    GatherSums,
    MergeSpans,
    ScaleParts,
    ScatterHeads,
)
from planner.ops.context_prompts import GatherPrompts, shared_prompts
from planner.ops.heads import Heads
from planner.ops.latent_attention import LatentHeads, LatentScores
from planner.ops.pointwise import EXP_FLOPS
from planner.ops.types import Dim, Formats, Load, SequenceGroup, Site, Tensor, as_dim

FORMATS = Formats("bf16", "bf16", "bf16", "bf16")
COUNTS = st.integers(1, 9)
LENGTHS = st.integers(1, 300)


def tensor(name: str, rows: str, width: int, dtype: str = "bf16") -> Tensor:
    return Tensor(name, (Dim(symbols=(rows,)), as_dim(width)), dtype)


def site(op, load: Load, *inputs: Tensor) -> Site:
    shapes = op.shapes(tuple(each.shape for each in inputs))
    dtype = op.output_dtype(inputs, FORMATS)
    outputs = tuple(Tensor(f"out{i}", shape, dtype) for i, shape in enumerate(shapes))
    return Site(inputs, outputs, load, (), FORMATS)


@given(COUNTS, LENGTHS, LENGTHS, st.sampled_from([2, 4, 8]), st.sampled_from([1, 2, 8]))
def test_ranks_of_a_group_do_the_work_of_one_between_them(count, new, past, ranks, own):
    """Each of r ranks: its own h heads on new keys, r·h heads on one r-th of the rest.

    Pairs times heads over all r ranks: r·h·n(n+1)/2 + r·(r·h)·n·p/r = r·h·(n(n+1)/2 + n·p), what
    r·h heads have on all keys.
    """
    load = Load((SequenceGroup(count, new, past + new),))
    one = Heads(ranks * own, 1, 128)
    fresh = Heads(own, 1, 128, span="new")
    shared = Heads(ranks * own, 1, 128, causal=False, span="past", ranks=ranks)
    done = ranks * (own * fresh.useful_pairs(load) + ranks * own * shared.useful_pairs(load))
    assert done == pytest.approx(ranks * own * one.useful_pairs(load))


@given(COUNTS, LENGTHS, st.integers(0, 300), st.sampled_from([2, 4, 8]))
def test_each_rank_reads_its_part_of_the_keys_once(count, new, past, ranks):
    """The r ranks together read the p earlier keys once, and each the n new ones."""
    load = Load((SequenceGroup(count, new, past + new),))
    fresh = Heads(1, 1, 128, span="new").cache_tokens(load)
    shared = Heads(1, 1, 128, causal=False, span="past", ranks=ranks).cache_tokens(load)
    assert fresh == count * new
    assert ranks * shared == pytest.approx(count * past)


@given(COUNTS, st.integers(1, 4), LENGTHS, st.sampled_from([2, 4, 8]))
def test_ranks_of_a_group_share_latent_attention_of_decoding(count, new, past, ranks):
    """r ranks of r·h heads over 1/r of the pairs: r·(r·h)/r = r·h heads over all of them."""
    load = Load((SequenceGroup(count, new, past + new, verified=True),))
    queries = tensor("q", "decode_tokens", 8 * ranks * 512), tensor("r", "decode_tokens", 8 * 64)
    whole = LatentHeads(8 * ranks, 576, 512, 64, "decode")
    shared = LatentHeads(8 * ranks, 576, 512, 64, "decode", ranks=ranks)
    at = Site((*queries, tensor("c", "tokens", 576)), (), load, (), FORMATS)
    alone = LatentScores(whole).work(at).matmul_flops
    assert ranks * LatentScores(shared).work(at).matmul_flops == pytest.approx(alone)
    assert ranks * shared.keys(at) == pytest.approx(whole.keys(at))


def test_what_a_decode_step_of_deepseek_sends_on_eight_ranks():
    """64 sequences, 16 of 128 heads a rank, latents of 512 + 64 elements, BF16.

    Queries: 64·128·576·2 B = 9,437,184 B after the gather; a rank sends 7/8 of it, 8,257,536.
    Sums: 64 rows·128 heads·8 ranks·4 B = 262,144 B; 229,376 sent.
    Outputs: 64·128·512·2 B = 8,388,608 B before the scatter; 7,340,032 sent.
    """
    load = Load((SequenceGroup(64, 1, 8192),))
    absorbed, rotated = tensor("q", "decode_tokens", 16 * 512), tensor("r", "tokens", 16 * 64)
    queries = GatherQueries(8, "decode_tokens")
    at = site(queries, load, absorbed, rotated)
    assert at.outputs[0].shape == (Dim(symbols=("decode_tokens",)), as_dim(128 * 576))
    assert queries.message_bytes(at) == 9_437_184
    assert queries.work(at).link_bytes == 8_257_536
    assert queries.input_bytes(at) == (64 * 16 * 512 * 2, 64 * 16 * 64 * 2)

    partial = tensor("o", "decode_tokens", 128 * 512)
    sums = GatherSums(8, 128)
    at = site(sums, load, partial)
    assert sums.message_bytes(at) == 262_144
    assert sums.work(at).link_bytes == 229_376
    assert sums.input_bytes(at) == (64 * 128 * 4,)

    scatter = ScatterHeads(8)
    at = site(scatter, load, partial)
    assert at.outputs[0].shape == (Dim(symbols=("decode_tokens",)), as_dim(16 * 512))
    assert scatter.message_bytes(at) == 8_388_608
    assert scatter.work(at).link_bytes == 7_340_032


def test_heads_become_rows_by_a_copy_around_the_library():
    """A copy reads and writes what was gathered, and what is to be scattered: 2 B · 2 a element."""
    load = Load((SequenceGroup(3, 1, 100),))
    gather, scatter = GatherQueries(2, "context_tokens"), ScatterHeads(2)
    assert gather.work(site(gather, load, tensor("q", "tokens", 256))).scratch_bytes == 3 * 512 * 4
    assert scatter.work(site(scatter, load, tensor("o", "tokens", 512))).scratch_bytes == (
        3 * 512 * 4
    )


def test_a_step_of_fresh_prompts_exchanges_nothing():
    """Nobody has earlier keys: the queries' rows are nought. One that has brings all rows."""
    fresh = Load((SequenceGroup(2, 100, 100),))
    mixed = Load((SequenceGroup(2, 100, 100), SequenceGroup(1, 1, 50)))
    assert fresh.size("context_tokens") == 0
    assert mixed.size("context_tokens") == 201


def test_prompts_gather_the_latents_before_them():
    """1,000 tokens after 3,000: 3,000·576·2 B = 3,456,000 B over 8 ranks, each reading an eighth
    of them from its FP8 cache: 375·576 B.
    """
    load = Load((SequenceGroup(1, 1000, 4000),))
    gather = GatherPrefix(8)
    cache = Tensor("cache", (as_dim(576),), "bf16", handle=True)
    found = site(gather, load, cache)
    fp8 = Site(found.inputs, found.outputs, load, (), Formats("bf16", "bf16", "bf16", "fp8"))
    assert gather.message_bytes(fp8) == 3_456_000
    assert gather.work(fp8).link_bytes == 3_024_000
    assert gather.input_bytes(fp8) == (375 * 576,)


def test_scaling_and_merging_cost_a_pass():
    """2 rows of 4 elements; 1 FLOP an element, and a subtraction and an exponential for each
    of 2 sums; a merge takes 3 an element."""
    load = Load((SequenceGroup(2, 1, 9),))
    out, sums = tensor("o", "tokens", 4), tensor("s", "tokens", 2, "fp32")
    scaled = ScaleParts().work(site(ScaleParts(), load, out, sums)).vector_flops
    assert scaled == 8 + 4 * (1 + EXP_FLOPS)
    merge = MergeSpans()
    at = site(merge, load, out, out)
    assert merge.work(at).vector_flops == 24
    assert merge.input_bytes(at) == (16, 16)


def chunks(new: int, groups: int, rank: int) -> list[range]:
    """Positions of a prompt's new tokens on a rank: the i-th chunk from the front and the back."""
    size = new // (2 * groups)
    return [range(i * size, (i + 1) * size) for i in (rank, 2 * groups - 1 - rank)]


@given(st.sampled_from([2, 4]), st.integers(2, 6), st.integers(0, 40))
def test_every_group_of_ranks_has_as_many_pairs_of_a_prompt(groups, each, past):
    """Counted out: a query at position i of the new tokens sees past + i + 1 keys."""
    new = 2 * groups * each
    whole = Load((SequenceGroup(1, new, past + new),))
    part = shared_prompts(whole, groups)
    heads = Heads(1, 1, 1)
    counted = [
        sum(past + i + 1 for chunk in chunks(new, groups, rank) for i in chunk)
        for rank in range(groups)
    ]
    assert {heads.useful_pairs(part)} == set(counted)
    assert groups * heads.useful_pairs(part) == heads.useful_pairs(whole)
    assert groups * part.tokens == whole.tokens
    assert part.size("sequences") == whole.size("sequences") == 1


def test_decoding_is_repeated_and_short_prompts_stay_whole():
    load = Load((SequenceGroup(5, 1, 90), SequenceGroup(1, 4, 4)))
    assert shared_prompts(load, 2).groups == load.groups
    assert shared_prompts(load, 1) is load


def test_groups_gather_what_prompts_leave_in_the_cache():
    """A group's 4,096 of 8,192 latents of 512: 8,192·512·2 B = 8 MiB, half of it sent; the ranks
    of equal place are 4 GPUs apart, so the two lie among 8.
    """
    load = shared_prompts(Load((SequenceGroup(1, 8192, 8192),)), 2)
    gather = GatherPrompts(2, stride=4)
    at = site(gather, load, tensor("latent", "tokens", 512))
    assert at.outputs[0].shape[0] == Dim(Fraction(2), ("prefill_tokens",))
    assert gather.message_bytes(at) == 8 * 2**20
    assert gather.work(at).link_bytes == 4 * 2**20
    assert gather.span() == 8
