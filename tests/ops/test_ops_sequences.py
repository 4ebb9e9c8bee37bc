"""Groups of sequences against loops over queries, keys and tiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.ops.heads import Heads
from planner.ops.types import Dim, Load, Pairs, SequenceGroup

GROUPS = st.builds(
    lambda count, new, prior: SequenceGroup(count, new, new + prior),
    st.integers(1, 9),
    st.integers(1, 60),
    st.integers(0, 60),
)
WINDOWS = st.none() | st.integers(1, 80)
TILES = st.integers(1, 20)


def keys_of(group: SequenceGroup, query: int, window: int | None) -> range:
    """Positions that the query-th new token sees: itself and before it, as far as the window."""
    own = group.kv_tokens - group.new_tokens + query
    first = 0 if window is None else max(0, own - window + 1)
    return range(first, own + 1)


def rows_of(group: SequenceGroup, tile: int) -> list[range]:
    """The queries of each tile row."""
    n = group.new_tokens
    return [range(start, min(start + tile, n)) for start in range(0, n, tile)]


@given(GROUPS, WINDOWS)
def test_causal_pairs_are_the_keys_each_query_sees(group, window):
    brute = sum(len(keys_of(group, query, window)) for query in range(group.new_tokens))
    assert group.causal_pairs(window) == brute


@given(GROUPS, WINDOWS)
def test_keys_read_are_the_distinct_keys_that_any_query_sees(group, window):
    seen = set().union(*(keys_of(group, query, window) for query in range(group.new_tokens)))
    assert group.keys_read(window) == len(seen)


@given(GROUPS, WINDOWS)
def test_an_untiled_kernel_computes_all_queries_against_all_keys_read(group, window):
    assert group.rectangle_pairs(window) == group.new_tokens * group.keys_read(window)
    assert group.rectangle_pairs(window) >= group.causal_pairs(window)


@given(GROUPS, TILES)
def test_a_tile_row_computes_each_query_up_to_its_last_one(group, tile):
    brute = sum(len(row) * len(keys_of(group, row[-1], None)) for row in rows_of(group, tile))
    assert group.tiled_pairs(None, tile) == brute


@given(GROUPS, WINDOWS, TILES)
def test_tiled_pairs_lie_between_the_causal_ones_and_the_full_square(group, window, tile):
    assert group.causal_pairs(window) <= group.tiled_pairs(window, tile)
    assert group.tiled_pairs(window, tile) <= group.rectangle_pairs(None)


@given(GROUPS, TILES)
def test_query_tiles_cover_the_new_tokens(group, tile):
    assert group.query_tiles(tile) == len(rows_of(group, tile))


@given(GROUPS, WINDOWS, TILES)
def test_tile_keys_are_the_keys_of_each_tile_row_added_up(group, window, tile):
    brute = sum(
        len(set().union(*(keys_of(group, query, window) for query in row)))
        for row in rows_of(group, tile)
    )
    assert group.tile_keys(window, tile) == brute


@given(st.lists(GROUPS, min_size=1, max_size=5), WINDOWS, TILES)
def test_formulas_take_arrays(groups, window, tile):
    together = SequenceGroup(
        *(
            np.array([getattr(g, name) for g in groups])
            for name in ("count", "new_tokens", "kv_tokens")
        )
    )
    for ask in (
        lambda g: g.causal_pairs(window),
        lambda g: g.tiled_pairs(window, tile),
        lambda g: g.keys_read(window),
        lambda g: g.tile_keys(window, tile),
        lambda g: g.query_tiles(tile),
    ):
        assert ask(together).tolist() == [ask(g) for g in groups]


def chunk_of(group: SequenceGroup, query: int, chunk: int) -> range:
    """Positions that the query-th new token sees: its chunk, as far as itself."""
    own = group.kv_tokens - group.new_tokens + query
    return range(own // chunk * chunk, own + 1)


CHUNKS = st.integers(1, 50)


@given(GROUPS, CHUNKS)
def test_chunks_see_the_keys_from_their_beginning_to_the_query(group, chunk):
    seen = [chunk_of(group, query, chunk) for query in range(group.new_tokens)]
    heads, step = Heads(8, 2, 16, chunk=chunk), Load((group,))
    assert heads.useful_pairs(step) == group.count * sum(map(len, seen))
    assert heads.cache_tokens(step) == group.count * len(set().union(*seen))


@given(GROUPS, CHUNKS, TILES)
def test_a_tiled_kernel_computes_no_less_than_the_pairs_within_chunks(group, chunk, tile):
    heads, step = Heads(8, 2, 16, chunk=chunk), Load((group,))
    useful = heads.useful_pairs(step)
    assert useful <= heads.tiled_pairs(step, tile) <= heads.rectangle_pairs(step)
    assert step.size(Pairs(chunk=chunk)) == heads.rectangle_pairs(step)


@given(st.lists(GROUPS, min_size=1, max_size=5), CHUNKS)
def test_chunks_take_arrays(groups, chunk):
    columns = (
        np.array([getattr(g, name) for g in groups])
        for name in ("count", "new_tokens", "kv_tokens")
    )
    together, heads = Load((SequenceGroup(*columns),)), Heads(8, 2, 16, chunk=chunk)
    for ask in (heads.useful_pairs, heads.cache_tokens, heads.rectangle_pairs):
        assert ask(together).tolist() == [ask(Load((g,))) for g in groups]


def test_a_chunk_begins_anew_where_a_window_slides():
    # Chunks of 8192: position 8192 is the first of the second chunk and sees itself alone, where
    # a window of 8192 sees 8192 keys.
    group = Load((SequenceGroup(1, 1, 8193),))
    assert Heads(1, 1, 1, chunk=8192).cache_tokens(group) == 1
    assert Heads(1, 1, 1, window=8192).cache_tokens(group) == 8192
    # A prompt of 20480 is 8192 + 8192 + 4096: 2 × 8192·8193/2 + 4096·4097/2 pairs.
    prompt = Load((SequenceGroup(1, 20480, 20480),))
    pairs = 2 * 8192 * 8193 / 2 + 4096 * 4097 / 2
    assert Heads(1, 1, 1, chunk=8192).useful_pairs(prompt) == pairs


def test_a_decode_step_attends_once_to_every_cached_token():
    group = SequenceGroup(16, 1, 4096)
    assert group.causal_pairs(None) == 4096
    assert group.causal_pairs(1024) == 1024
    assert group.tiled_pairs(None, 128) == 4096


def test_a_prefill_counts_half_the_square_and_the_diagonal():
    # 2048 queries see 1, 2, … 2048 keys: 2048 × 2049 / 2.
    assert SequenceGroup(1, 2048, 2048).causal_pairs(None) == 2048 * 2049 / 2


def test_a_load_adds_its_groups_and_pads_tokens_but_not_sequences():
    load = Load((SequenceGroup(32, 1, 2048), SequenceGroup(1, 512, 512)), padding_tokens=8)
    assert load.tokens == 32 + 512 + 8
    assert load.sequences == 33
    # Padding rows attend to nothing: 32 × 2048 + 512 × 512.
    assert load.size(Pairs()) == 32 * 2048 + 512 * 512


def test_a_load_without_sequences_binds_only_its_own_shapes():
    load = Load(shapes={"batch": 4})
    assert load.elements((Dim(symbols=("batch",)), Dim(), Dim())) == 4
    with pytest.raises(KeyError):
        load.size("tokens")


HEADS = Heads(heads=8, kv_heads=2, head_dim=16)
PER_HEAD = 2 * 16 * 2  # K and V of one token in one KV head, 2 bytes an element
ROOMY, TIGHT = 1e12, 0.0


@given(GROUPS, WINDOWS, TILES)
def test_keys_that_fit_the_l2_are_not_read_again(group, window, tile):
    heads = Heads(8, 2, 16, window)
    assert heads.reread_bytes(Load((group,)), tile, ROOMY, "bf16") == 0


@given(GROUPS, WINDOWS, TILES)
def test_keys_that_miss_the_l2_are_read_by_every_tile_row(group, window, tile):
    heads = Heads(8, 2, 16, window)
    rows = [
        set().union(*(keys_of(group, query, window) for query in row))
        for row in rows_of(group, tile)
    ]
    beyond_once = sum(map(len, rows)) - len(set().union(*rows))
    extra = heads.reread_bytes(Load((group,)), tile, TIGHT, "bf16")
    assert extra == group.count * beyond_once * 2 * PER_HEAD


def test_one_kv_head_decides_whether_the_l2_is_missed():
    load = Load((SequenceGroup(3, 256, 1000),))
    fits = 1000 * PER_HEAD
    assert HEADS.reread_bytes(load, 128, fits, "bf16") == 0
    # Two tile rows: the first reads 744 + 128 = 872 keys, the second all 1000, once already paid.
    assert HEADS.reread_bytes(load, 128, fits - 1, "bf16") == 3 * 872 * 2 * PER_HEAD


def test_a_bidirectional_kernel_reads_all_keys_for_every_tile_row():
    load = Load((SequenceGroup(3, 256, 256),))
    heads = Heads(8, 2, 16, causal=False)
    assert heads.reread_bytes(load, 64, TIGHT, "bf16") == 3 * (4 - 1) * 256 * 2 * PER_HEAD
    assert heads.useful_pairs(load) == heads.tiled_pairs(load, 64) == 3 * 256 * 256
