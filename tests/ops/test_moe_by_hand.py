"""Routers and routed experts: FLOPs, bytes and shares of ranks worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_examples import FORMATS, TOKENS, shape

from planner.ops.moe import ExpertShard, Moe, MoeRouter
from planner.ops.moe_exchange import Combine, Dispatch
from planner.ops.moe_load import Routing, reached
from planner.ops.types import ExpertLayout, Load, Operator, SequenceGroup, Site, Tensor

BF16 = replace(FORMATS, weights="bf16", matmul="bf16")
BALANCED = Routing("balanced")


def site(op: Operator, tokens, *shapes, formats=BF16, routing=BALANCED) -> Site:
    """An operator's site under so many decode tokens."""
    inputs = tuple(Tensor(f"in{i}", sides, "bf16") for i, sides in enumerate(shapes))
    outputs = tuple(Tensor(f"out{i}", sides, "bf16") for i, sides in enumerate(op.shapes(shapes)))
    load = Load((SequenceGroup(tokens, 1, 1),), routing=routing)
    return Site(inputs, outputs, load, op.parameters(shapes, formats), formats)


def routed(op: Moe, tokens, hidden=64, **given) -> Site:
    """Routed experts on ``tokens`` rows."""
    return site(op, tokens, shape(TOKENS, hidden), shape(TOKENS, op.experts), **given)


def test_a_router_is_a_linear_over_all_experts():
    """10 tokens, 64 inputs, 8 experts: 2·10·64·8 FLOPs; a softmax (7) and a comparison a score."""
    op = MoeRouter(8, 2)
    work = op.work(site(op, 10, shape(TOKENS, 64)))
    assert work.matmul_flops == 2 * 10 * 64 * 8
    assert work.vector_flops == 10 * 8 * (7 + 1)
    assert work.weight_bytes == 64 * 8 * 2


def test_a_router_in_fp32_has_four_bytes_a_weight_and_a_score():
    """With its bias 64·8 + 8 weights, whatever the format of the model."""
    op = MoeRouter(8, 2, bias=True, fp32=True, score="sigmoid")
    at = site(op, 10, shape(TOKENS, 64), formats=FORMATS)
    assert op.work(at).weight_bytes == (64 * 8 + 8) * 4
    assert op.output_dtype(at.inputs, FORMATS) == "fp32"


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (MoeRouter(8, 2, groups=3), "8 experts do not split into 3 groups"),
        (MoeRouter(8, 5, groups=4, top_groups=2), "cannot choose 5 of 4 experts"),
        (Moe(8, 9, 32), "cannot choose 9 of 8 experts"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(op, message):
    shapes = [shape(TOKENS, 64)]
    shapes += [shape(TOKENS, 8)] if isinstance(op, Moe) else []
    with pytest.raises(ValueError, match=message):
        op.shapes(tuple(shapes))


def test_scores_of_another_number_of_experts_are_refused():
    with pytest.raises(ValueError, match=r"its scores are \[tokens, 4\], but 8 experts need"):
        Moe(8, 2, 32).shapes((shape(TOKENS, 64), shape(TOKENS, 4)))


def test_routed_experts_compute_their_pairs():
    """10 tokens × 2 experts = 20 pairs through three matrices of 64 × 32."""
    op = Moe(8, 2, 32)
    assert op.work(routed(op, 10)).matmul_flops == 2 * 20 * (3 * 64 * 32)
    plain = Moe(8, 2, 32, gated=False)
    assert plain.work(routed(plain, 10)).matmul_flops == 2 * 20 * (2 * 64 * 32)


def test_only_touched_experts_are_read():
    """Balanced: 2 tokens × 2 = 4 of 8 experts; 10 tokens touch all. FP8 halves the bytes."""
    op = Moe(8, 2, 32)
    expert = 3 * 64 * 32
    assert op.work(routed(op, 2)).weight_bytes == 4 * expert * 2
    assert op.work(routed(op, 10)).weight_bytes == 8 * expert * 2
    assert op.work(routed(op, 10, formats=FORMATS)).weight_bytes == 8 * expert


def test_chance_leaves_some_experts_out():
    """16 tokens with 8 of 128: 128·(1 − (120/128)¹⁶) = 82.4 experts of 6,144 weights."""
    op = Moe(128, 8, 32)
    touched = 128 * (1 - (120 / 128) ** 16)
    assert touched == pytest.approx(82.42, abs=0.01)
    work = op.work(routed(op, 16, routing=Routing()))
    assert work.weight_bytes == pytest.approx(touched * 3 * 64 * 32 * 2)


def test_biases_are_an_experts_own_and_stay_in_16_bit():
    """Two of the inner width and one of the hidden width for each of 8 experts."""
    op = Moe(8, 2, 32, bias=True)
    weights, bias = op.parameters((shape(TOKENS, 64), shape(TOKENS, 8)), FORMATS)
    assert (weights.elements, weights.dtype) == (8 * 3 * 64 * 32, "fp8")
    assert (bias.elements, bias.dtype) == (8 * (2 * 32 + 64), "bf16")


def test_a_token_meets_its_own_experts_weights():
    """2 of 8 experts of 6,144 weights each."""
    op = Moe(8, 2, 32)
    parameters = op.parameters((shape(TOKENS, 64), shape(TOKENS, 8)), BF16)
    assert op.active(parameters) == 2 * 3 * 64 * 32
    shard = ExpertShard(8, 2, 32, ranks=4)
    local = shard.parameters((shape(TOKENS, 64), shape(TOKENS, 8)), BF16)
    assert shard.active(local) == 2 * 3 * 64 * 32


def test_tensor_parallelism_cuts_each_expert():
    """Width 32 over 4 ranks, and an all-reduce; 30 does not divide."""
    op, collective = Moe(8, 2, 32).sharded(4)
    assert (op, collective) == (Moe(8, 2, 8), "all_reduce")
    assert Moe(8, 2, 32, partial=True).sharded(4)[1] is None
    with pytest.raises(ValueError, match="30 features of an expert do not divide"):
        Moe(8, 2, 30).sharded(4)


def test_expert_parallelism_within_a_replica_keeps_experts_whole():
    """4 tensor ranks of 2 experts each, of the whole width; their sums are all-reduced."""
    spread = Moe(8, 2, 32).spread(ExpertLayout(4, 4))
    assert spread.op == ExpertShard(8, 2, 32, ranks=4)
    assert (spread.before, spread.after, spread.collective) == (None, None, "all_reduce")


def test_fewer_expert_ranks_than_tensor_ranks_cut_both():
    """4 tensor ranks, 2 expert ranks: 4 experts each, of half the width."""
    spread = Moe(8, 2, 32).spread(ExpertLayout(4, 2))
    assert spread.op == ExpertShard(8, 2, 16, ranks=2)


def test_experts_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="60 experts do not divide over 8 ranks"):
        Moe(60, 4, 1408).spread(ExpertLayout(8, 8))


@given(
    tokens=st.integers(1, 300),
    ranks=st.sampled_from([1, 2, 4, 8]),
    kind=st.sampled_from(["uniform", "balanced", "power-law"]),
    bias=st.booleans(),
)
def test_the_ranks_together_do_what_one_would(tokens, ranks, kind, bias):
    """FLOPs, weight bytes and parameters of the mean rank times the ranks are the whole's."""
    whole, part = Moe(16, 4, 32, bias=bias), ExpertShard(16, 4, 32, bias=bias, ranks=ranks)
    one = routed(whole, tokens, routing=Routing(kind))
    each = routed(part, tokens, routing=Routing(kind))
    for name in ("matmul_flops", "vector_flops", "weight_bytes"):
        together = ranks * getattr(part.work(each), name)
        assert together == pytest.approx(getattr(whole.work(one), name))
    elements = [sum(p.elements for p in at.parameters) for at in (one, each)]
    assert elements[0] == ranks * elements[1]


@given(tokens=st.integers(1, 300), ranks=st.sampled_from([1, 2, 4, 8]))
def test_the_busiest_rank_does_at_least_the_mean(tokens, ranks):
    op = ExpertShard(16, 4, 32, ranks=ranks)
    for kind in ("uniform", "balanced", "power-law"):
        at = routed(op, tokens, routing=Routing(kind))
        mean, busiest = op.work(at), op.executed(at, None)
        assert busiest.matmul_flops >= mean.matmul_flops * (1 - 1e-12)
        assert busiest.weight_bytes >= mean.weight_bytes * (1 - 1e-12)


@pytest.mark.parametrize("kind", ["uniform", "balanced", "power-law"])
def test_arrays_of_tokens_give_what_each_gives_alone(kind):
    op, counts = ExpertShard(16, 4, 32, ranks=4), np.array([1.0, 7.0, 64.0])
    together = op.executed(routed(op, counts, routing=Routing(kind)), None)
    for position, tokens in enumerate(counts.tolist()):
        alone = op.executed(routed(op, tokens, routing=Routing(kind)), None)
        assert together.matmul_flops[position] == pytest.approx(alone.matmul_flops)
        assert together.weight_bytes[position] == pytest.approx(alone.weight_bytes)


@pytest.mark.parametrize(("top_k", "experts", "ep"), [(2, 8, 4), (8, 64, 8), (1, 4, 2), (4, 16, 1)])
def test_the_share_of_tokens_that_reach_a_rank_is_that_of_a_simulation(top_k, experts, ep):
    """40,000 tokens, each choosing at random."""
    rng = np.random.default_rng(7)
    chosen = np.argsort(rng.random((40_000, experts)), axis=1)[:, :top_k]
    local = (chosen < experts // ep).any(axis=1).mean()
    assert reached(top_k, experts, ep) == pytest.approx(local, abs=0.01)


def test_gathered_tokens_are_those_of_all_replicas():
    """3 others get 10 rows of 64 and of 8 scores, 16 bit; back come 10 rows of 64 from each."""
    layout = ExpertLayout(1, 4, 4, "gather")
    op = Dispatch("gather", 8, 2, layout)
    at = site(op, 10, shape(TOKENS, 64), shape(TOKENS, 8))
    assert at.outputs[0].shape == shape(TOKENS * 4, 64)
    assert op.work(at).link_bytes == 3 * 10 * (64 + 8) * 2
    back = Combine("gather", 8, 2, layout)
    at = site(back, 10, shape(TOKENS * 4, 64))
    assert at.outputs[0].shape == shape(TOKENS, 64)
    assert back.work(at).link_bytes == 3 * 10 * 64 * 2


def test_sent_tokens_go_once_to_each_rank_that_has_an_expert_of_theirs():
    """8 experts on 4 ranks, 2 a token: C(6,2)/C(8,2) = 15/28 of tokens miss a given rank.

    10 tokens reach 3 other ranks with 13/28 each. FP8 rows of 64 bytes and two choices of 8 bytes
    go out, 16-bit rows come back.
    """
    layout = ExpertLayout(1, 4, 4, "all_to_all")
    copies = 10 * 3 * 13 / 28
    op = Dispatch("all_to_all", 8, 2, layout)
    at = site(op, 10, shape(TOKENS, 64), shape(TOKENS, 8), formats=FORMATS)
    assert op.work(at).link_bytes == pytest.approx(copies * (64 + 2 * 8))
    back = Combine("all_to_all", 8, 2, layout)
    at = site(back, 10, shape(TOKENS * 4, 64))
    assert back.work(at).link_bytes == pytest.approx(copies * 64 * 2)


def test_tensor_ranks_share_the_tokens_they_send():
    """2 tensor ranks × 2 replicas: each sends half the rows, and hands half of them on."""
    layout = ExpertLayout(2, 4, 2, "all_to_all")
    back = Combine("all_to_all", 8, 2, layout)
    at = site(back, 10, shape(TOKENS * 2, 64))
    assert back.work(at).link_bytes == pytest.approx((5 * 3 * 13 / 28 + 5) * 64 * 2)
