"""States per sequence in memory: they come before tokens, and alone bound a batch of Mamba."""

import pytest
from cost_samples import graph
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.memory import Budget, Fit, fit
from planner.graph.totals import state_bytes_per_sequence
from planner.ops.types import Load, SequenceGroup

HYBRID = """\
kind: model
name: hybrid
title: One attention layer and two of linear attention
dims: {hidden: 64, heads: 8, kv_heads: 2, head_dim: 8, vocab: 96}
sequence: [{block: embed}, {block: linear, times: 2}, {block: full}, {block: head}]
blocks:
  embed:
    name: embed
    inputs: {ids: [tokens]}
    nodes: {embed_tokens: {op: embedding, in: ids, out: x, rows: vocab, features: hidden}}
    outputs: [x]
  linear:
    name: linear
    inputs: {x: [tokens, hidden]}
    nodes:
      in_proj: {op: linear, in: x, out: mixed, features: 2 * kv_heads * head_dim + hidden}
      conv1d: {op: causal_conv1d, in: mixed, out: convolved, kernel: 4}
      scan: {op: linear_attention, in: convolved, out: y, heads: heads, key_heads: kv_heads, key_dim: head_dim, value_dim: head_dim}
    outputs: [y]
  full:
    name: full
    inputs: {x: [tokens, hidden]}
    nodes:
      k_proj: {op: linear, in: x, out: k, features: kv_heads * head_dim}
      v_proj: {op: linear, in: x, out: v, features: kv_heads * head_dim}
      kv_cache_write: {op: kv_cache_write, in: [k, v], out: cache}
      attention: {op: attention, in: [x, cache], out: y, heads: heads, kv_heads: kv_heads, head_dim: head_dim}
    outputs: [y]
  head:
    name: head
    inputs: {x: [tokens, hidden]}
    nodes:
      select_last: {op: select_last, in: x, out: last}
      lm_head: {op: linear, in: last, out: logits, features: vocab}
      sampling: {op: sampling, in: logits, out: next_ids}
    outputs: [next_ids]
"""
MODEL = graph(HYBRID)
STATES_ALONE = graph(HYBRID.replace("{block: full}, ", ""))
# Two layers: 8 heads of 8 × 8 in FP32, and 3 rows of 2·2·8 + 64 channels in 16 bit.
STATE = 2 * (8 * 8 * 8 * 4 + 3 * 96 * 2)
TOKEN = 2 * 2 * 8 * 2


def space(kv_bytes: float) -> Budget:
    """A budget that leaves that much for KV and states."""
    return Budget(
        kv_bytes, kv_bytes, 1.0, kv_bytes, 0, 0, 0, 0, graphs_inside=True, kv_block_tokens=16
    )


def held(kv_bytes: float, batch: int, context: int, model=MODEL) -> Fit:
    """A decode step held against that much memory."""
    return fit(model, space(kv_bytes), Load((SequenceGroup(batch, 1, context),)))


def test_a_state_is_counted_once_a_sequence():
    assert state_bytes_per_sequence(MODEL) == STATE
    found = held(1e9, 5, 160)
    assert found.kv_bytes == 5 * (STATE + 160 * TOKEN)
    assert (found.kv_bytes_per_token, found.state_bytes_per_sequence) == (TOKEN, STATE)


def test_tokens_fit_into_what_the_states_of_the_load_leave():
    # Five states, and room for 1000 tokens: 62 whole blocks of 16.
    assert held(5 * STATE + 1000 * TOKEN, 5, 160).kv_tokens == 62 * 16


def test_a_batch_is_bounded_by_states_and_tokens_together():
    each = STATE + 160 * TOKEN
    assert held(7.9 * each, 5, 160).max_batch == 7
    # 100 blocks beside 5 states: 20 blocks each.
    assert held(5 * STATE + 100 * 16 * TOKEN, 5, 160).max_context == 320


def test_a_model_of_states_alone_has_room_for_sequences_not_for_tokens():
    found = held(9.5 * STATE, 5, 100_000, STATES_ALONE)
    assert (found.kv_tokens, found.max_batch, found.max_context) == (0, 9, None)
    assert found.fits
    assert not held(4.5 * STATE, 5, 1, STATES_ALONE).fits


@given(st.integers(1, 64), st.integers(1, 4000), st.floats(0, 1e7))
def test_more_memory_never_holds_less(batch, context, extra):
    small, large = held(1e6, batch, context), held(1e6 + extra, batch, context)
    assert small.kv_tokens <= large.kv_tokens
    assert small.max_batch <= large.max_batch
    assert (
        small.missing_bytes
        >= large.missing_bytes
        == pytest.approx(max(0.0, large.kv_bytes - 1e6 - extra))
    )
