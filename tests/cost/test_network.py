"""Collectives over several nodes: what stays inside, what passes between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.kernels.collective import CollectiveShape
from planner.cost.network import Network, between_bytes, between_s, within

LINK = Network(8, 50e9, 10e-6, tensor=8, replica=16)


def test_an_all_reduce_over_two_nodes_by_hand():
    """16 ranks, 1 MB: each GPU brings its eighth, 125 kB, round a ring of two nodes. Twice half of
    it at 50 GB/s is 2.5 us, and two messages of 10 us."""
    shape = CollectiveShape(1e6, 16.0)
    assert LINK.nodes(16) == 2
    assert within(shape, 2, "all_reduce") == CollectiveShape(1e6, 8.0)
    assert between_s(shape, 2, "all_reduce", LINK) == pytest.approx(2.5e-6 + 20e-6)
    assert between_s(shape, 2, "all_reduce_engine", LINK) == pytest.approx(22.5e-6)


def test_a_gather_and_an_exchange_by_hand():
    """Gathering 1 MB over 16 ranks: half of an eighth comes from the other node, 62.5 kB, 1.25 us.
    Of 1 MB that each rank sends to all, half leaves the node: 10 us; the other half stays."""
    shape = CollectiveShape(1e6, 16.0)
    assert between_s(shape, 2, "all_gather", LINK) == pytest.approx(1.25e-6 + 10e-6)
    assert between_s(shape, 2, "all_to_all", LINK) == pytest.approx(10e-6 + 10e-6)
    assert within(shape, 2, "all_to_all") == CollectiveShape(5e5, 8.0)


def test_what_fits_a_node_does_not_leave_it():
    assert LINK.nodes(8) == 1
    assert between_s(CollectiveShape(1e6, 8.0), 1, "all_reduce", LINK) == 0


def test_a_stage_sends_slices_where_a_replica_spans_nodes():
    """Eight tensor ranks share 1 MB: 125 kB at 50 GB/s and a message."""
    assert LINK.parts_stages
    assert not Network(8, 50e9, 10e-6, 4, 8).parts_stages
    assert LINK.send_s(1e6) == pytest.approx(2.5e-6 + 10e-6)


@given(
    st.floats(1, 1e9),
    st.integers(2, 16),
    st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]),
)
def test_more_bytes_and_more_nodes_never_take_less(size, nodes, variant):
    here = between_s(CollectiveShape(size, 8.0 * nodes), nodes, variant, LINK)
    larger = between_s(CollectiveShape(2 * size, 8.0 * nodes), nodes, variant, LINK)
    wider = between_s(CollectiveShape(size, 8.0 * (nodes + 1)), nodes + 1, variant, LINK)
    assert 0 < here <= larger
    assert here <= wider


@given(st.floats(1, 1e9), st.integers(2, 16), st.integers(2, 16))
def test_two_levels_send_what_one_ring_would(size, nodes, local):
    """All ranks in one ring send 2(N−1)/N of S each; in two levels 2(g−1)/g inside, the rest out."""
    ranks = nodes * local
    out = between_bytes(CollectiveShape(size, float(ranks)), nodes, "all_reduce")
    assert 2 * (local - 1) / local * size + out == pytest.approx(2 * (ranks - 1) / ranks * size)
