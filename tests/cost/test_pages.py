"""KV blocks shared among layers, by hand."""

import pytest
from cost_engines import BACKEND, engine
from cost_samples import DEVICE, TINY, graph
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.memory import Budget
from planner.cost.pages import Group, LayerKind, Pages, cut, pages
from planner.cost.reserve import Reserve

MODEL, WINDOWED = graph(TINY), graph(TINY.replace("window: null", "window: 40"))
PER_TOKEN = 3 * 2 * 2 * 8 * 2
"""K and V of 2 heads of 8 elements in 2 bytes, 3 layers."""


def space(kv_bytes: float) -> Budget:
    return Budget(
        kv_bytes, kv_bytes, 1.0, kv_bytes, 0, 0, 0, 0, graphs_inside=True, kv_block_tokens=16
    )


def reserve(rule: str, tokens: int = 1000) -> Reserve:
    text = BACKEND.replace("  kv_block: 16\n", f"  kv_block: 16\n  pools: [{{value: {rule}}}]\n")
    return Reserve(engine(backend=text, max_tokens=tokens), DEVICE)


def hybrid(full: int, local: int, window: int = 1024) -> Pages:
    """Layers of 1 byte a token, cut into groups; a step has 8,192 tokens."""
    return cut([LayerKind(1.0, None, full), LayerKind(1.0, window, local)], 16, 8192)


def test_layers_that_cache_alike_have_one_table():
    # A block is 16 tokens of all three layers.
    found = pages(MODEL, space(1e6), reserve("groups"))
    assert found == Pages((Group(3, 16, None),), 16 * PER_TOKEN, 1000)
    # 100 tokens' worth: six blocks, 96 tokens; a sequence of 17 takes two.
    assert found.blocks(100 * PER_TOKEN) == 6
    assert found.tokens(100 * PER_TOKEN) == 96
    assert found.per_sequence(17) == 2


def test_an_engine_without_groups_keeps_every_token_of_a_window():
    found = pages(WINDOWED, space(1e6), reserve("full"))
    assert found.per_sequence(160) == 10


def test_a_window_keeps_itself_the_step_in_flight_and_one_block_more():
    found = pages(WINDOWED, space(1e6), reserve("groups", tokens=100))
    # 40 - 1 + 100 tokens in blocks of 16 are 9, and one for the start; a short sequence has all.
    assert found.per_sequence(5000) == 10
    assert found.per_sequence(16) == 2


def test_each_layer_by_itself_has_no_pages():
    assert pages(MODEL, space(1e6), reserve("layers")) is None


def test_gemma_3_27b_has_seven_groups_of_ten_layers():
    """The log: "Add 8 padding layers, may waste at most 15.38 % KV cache memory"."""
    found = hybrid(full=10, local=52)
    assert [group.layers for group in found.groups] == [10] * 7
    assert 7 * 10 - 62 == 8
    assert pytest.approx(0.1538, abs=1e-4) == 8 / 52
    # At 8,192 tokens: 512 blocks of the full group, 513 of each of the others (the step is 8,192).
    assert found.per_sequence(8192) == 512 + 6 * 513 == 3590


def test_gemma_2_9b_at_8192_as_its_log_has_it():
    """21 layers of either kind, 8 KV heads of 256; the log: 54.12 GiB, 168,880 tokens, 20.60x."""
    each = 2 * 8 * 256 * 2
    blocks = int(54.12 * 2**30 // (16 * 21 * each))
    assert blocks // 2 * 16 == pytest.approx(168_880, rel=1e-3)
    found = hybrid(full=21, local=21, window=4096)
    assert len(found.groups) == 2
    assert blocks / found.per_sequence(8192) == pytest.approx(20.60, abs=0.01)


def test_kinds_that_hardly_differ_are_padded_to_the_commoner():
    # 13 full and 12 local: one group each, of 13, rather than three of 12.
    assert [group.layers for group in hybrid(13, 12).groups] == [13, 13]


def test_narrow_layers_take_longer_blocks():
    """All groups draw pages of one size."""
    found = cut([LayerKind(4.0, None, 5), LayerKind(8.0, 1024, 25)], 16, 8192)
    assert found.block_bytes == 16 * 8.0 * 5
    assert [group.block_tokens for group in found.groups] == [32, 16, 16, 16, 16, 16]


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 100_000))
def test_groups_hold_every_layer_and_a_longer_sequence_never_less(full, local, length):
    found = hybrid(full, local)
    assert sum(group.layers for group in found.groups) >= full + local
    assert len({group.layers for group in found.groups}) == 1
    assert found.per_sequence(length) <= found.per_sequence(length + 1)
