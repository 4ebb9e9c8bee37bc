"""Whether an engine starts: the longest sequence against what is left for KV."""

import dataclasses

from cost_engines import BACKEND, engine
from cost_samples import CNN, DEVICE, TINY, graph
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.memory import Budget
from planner.cost.reserve import Reserve
from planner.cost.start import largest, start

MODEL = graph(TINY)
BLOCK = 16 * 3 * 2 * 2 * 8 * 2
"""16 tokens of 3 layers: K and V of 2 heads of 8 elements in 2 bytes."""


def space(kv_bytes: float, outside: float = 0.0, activations: float = 0.0) -> Budget:
    """Room for KV in the budget, and so much beside it that is not."""
    whole = kv_bytes + activations
    return Budget(
        whole + outside,
        whole + outside,
        whole / (whole + outside),
        whole,
        0,
        activations,
        0,
        0,
        graphs_inside=False,
        kv_block_tokens=16,
    )


def reserve(context: int | None = 64, more: str = "") -> Reserve:
    pools = f"  kv_block: 16\n  pools: [{{value: full}}]\n{more}"
    return Reserve(engine(backend=BACKEND.replace("  kv_block: 16\n", pools)), DEVICE, context)


def test_one_sequence_of_the_longest_length_must_fit():
    # 64 tokens are four blocks: two and a half sequences in ten.
    found = start(MODEL, space(10 * BLOCK), reserve())
    assert (found.starts, found.reason, found.max_model_len) == (True, None, 64)
    assert (found.sequence_bytes, found.concurrency, found.pool_tokens) == (4 * BLOCK, 2.5, 160)
    short = start(MODEL, space(3 * BLOCK), reserve())
    assert not short.starts
    assert short.reason.startswith("one sequence of 64 tokens takes")


def test_a_printed_capacity_may_be_sequences_times_their_length():
    found = start(MODEL, space(10 * BLOCK), reserve(60, "  printed: [{value: concurrency}]\n"))
    assert found.pool_tokens == 10 * 60 // 4


def test_nothing_left_for_the_cache_is_said_with_what_is_missing():
    over = dataclasses.replace(space(1000.0), weights_bytes=900.0, runtime_bytes=1124.0)
    assert start(MODEL, over, reserve()).reason == "1.00 KiB short before any KV cache"


def test_weights_larger_than_the_gpu_are_said_so():
    over = dataclasses.replace(space(1000.0), weights_bytes=3048.0)
    assert "the weights alone are 2.00 KiB more" in start(MODEL, over, reserve()).reason


def test_graphs_must_fit_beside_the_budget_and_the_sampler_once_more():
    """500 bytes outside, graphs of 600: activations of 200 are free again unless it samples."""
    tight = dataclasses.replace(space(10 * BLOCK, 500.0, 200.0), graphs_bytes=600.0)
    assert start(MODEL, tight, reserve()).starts
    warms = reserve(64, "  warms_sampler: [{value: true}]\n")
    assert start(MODEL, tight, warms).reason == "100 B short outside the budget"


def test_a_graph_without_cache_or_length_has_no_start():
    assert start(graph(CNN), space(1000.0), reserve()) is None
    assert start(MODEL, space(1000.0), reserve(None)) is None


@given(st.integers(0, 500), st.integers(1, 500))
def test_the_largest_length_starts_and_one_more_does_not(limit, most):
    found = largest(most, lambda length: length <= limit)
    assert found == min(limit, most)
