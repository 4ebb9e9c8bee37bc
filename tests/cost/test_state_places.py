"""Places that an engine sets aside for states: what they take, and what runs at once."""

import dataclasses
from fractions import Fraction

import pytest
from cost_engines import BACKEND, engine
from cost_samples import CNN, DEVICE, graph
from hypothesis import given
from hypothesis import strategies as st
from test_state_memory import HYBRID, MODEL, STATE, TOKEN

from planner.cost.memory import Budget, fit, missing_bytes
from planner.cost.reserve import Reserve
from planner.cost.start import start
from planner.cost.states import States, states
from planner.graph.totals import recurrent_bytes_per_sequence, state_bytes_per_sequence
from planner.ops.types import Load, SequenceGroup

PLACES = """\
  states:
    each: [{when: {flag.eager: true}, value: 1}, {value: 3}]
    slots:
      - {when: {flag.max_seqs: "< 5"}, value: max_seqs}
      - {value: "rest_bytes * share / (1 + share) // state_bytes"}
    drafted: [{when: {speculates: true}, value: "min(max_seqs, slots // each) * verified"}, {value: 0}]
"""
TEXT = BACKEND.replace("memory:\n", f"memory:\n{PLACES}")


def reserve(**flags) -> Reserve:
    return Reserve(engine(backend=TEXT, **flags), DEVICE, 160)


def space(found: States | None, rest_bytes: float) -> Budget:
    """A budget that leaves that much for KV and states."""
    rest = rest_bytes
    return Budget(
        rest, rest, 1.0, rest, 0, 0, 0, 0, graphs_inside=True, kv_block_tokens=16, states=found
    )


def placed(rest_bytes: float, **flags) -> Budget:
    return space(states(MODEL, reserve(**flags), rest_bytes), rest_bytes)


def held(where: Budget, batch: int, context: int):
    return fit(MODEL, where, Load((SequenceGroup(batch, 1, context),)))


def test_a_share_of_the_rest_is_cut_into_places():
    """At 0.5 states get a third: 10 of 30 and a half states, and three sequences of three run."""
    found = placed(30.5 * STATE)
    assert found.states == States(slots=10, each=3, drafted=0, state_bytes=STATE)
    assert (found.states.sequences, found.states.bytes) == (3, 10 * STATE)
    assert found.rest_bytes == 30.5 * STATE
    assert found.kv_available_bytes == 20.5 * STATE


def test_flags_change_the_share_the_places_and_what_a_sequence_takes():
    """A share of 1 halves the rest; 4 places are said; without the flag's cache one is enough."""
    assert placed(30 * STATE, share=1.0).states.slots == 15
    assert placed(30 * STATE, max_seqs=4).states.slots == 4
    assert placed(30 * STATE, eager=True).states.sequences == 10


def test_ratios_with_a_point_are_counted_exactly():
    """0.9 / 1.9 of 19 states are 9 of them: floats make 8.999… of it."""
    assert placed(19 * STATE, share=0.9).states.slots == 9
    assert Fraction("0.9") / (1 + Fraction("0.9")) * 19 == 9


def test_drafts_hold_copies_beside():
    """Three run, three tokens each are verified: nine copies."""
    asked = engine(backend=TEXT).drafting(2)
    found = states(MODEL, Reserve(asked, DEVICE, 160), 30 * STATE)
    assert (found.slots, found.drafted, found.bytes) == (10, 9, 19 * STATE)


def test_no_places_without_states_or_an_engine_that_sets_them_aside():
    assert states(graph(CNN), reserve(), 1e9) is None
    assert states(MODEL, Reserve(engine(), DEVICE, 160), 1e9) is None
    assert placed(-5.0).states.slots == 0


def test_states_take_nothing_of_the_kv_space():
    """20 states are left for KV: 160 tokens of five sequences lie there alone."""
    where = placed(30 * STATE)
    found = held(where, 2, 160)
    assert found.kv_bytes == 2 * 160 * TOKEN
    assert found.kv_tokens == int(20 * STATE / (16 * TOKEN)) * 16
    assert found.fits


def test_places_bound_a_batch_before_the_kv_space_does():
    where = placed(30 * STATE)
    found = held(where, 3, 16)
    assert 20 * STATE // (16 * TOKEN) > 3 == found.max_batch
    assert found.fits
    # a fourth takes twelve places of ten: two states short
    more = held(where, 4, 16)
    assert (more.fits, more.missing_bytes) == (False, 2 * STATE)
    assert missing_bytes(where, 0.0, 4) == 2 * STATE


def test_the_kv_space_still_bounds_long_sequences():
    long = int(9 * STATE / TOKEN) // 16 * 16
    assert held(placed(30 * STATE), 1, long).max_batch == 2


def test_an_engine_with_too_few_places_does_not_start():
    """Three states get one place, and a sequence takes three."""
    found = start(MODEL, placed(3 * STATE), reserve())
    assert not found.starts
    assert found.reason == "a sequence takes 3 places for its states, there are 1"


def test_it_says_at_start_up_how_many_run():
    """Of 160 tokens far more fit than have places."""
    found = start(MODEL, placed(30 * STATE), reserve())
    assert (found.starts, found.sequences, found.concurrency) == (True, 3, 3.0)
    assert found.pool_tokens == int(20 * STATE / (16 * TOKEN)) * 16
    assert start(MODEL, space(None, 30 * STATE), reserve()).sequences is None


@pytest.mark.parametrize(("kept", "width"), [("", 4), ("fp32", 4), ("bf16", 2), ("fp16", 2)])
def test_the_engine_says_what_states_are_kept_in(kept, width):
    """Two layers of 8 heads of 8 × 8; the 3 rows of 96 channels of the convolution keep 16 bit."""
    formats = dataclasses.replace(MODEL.formats, states=kept)
    found = recurrent_bytes_per_sequence(graph(HYBRID, formats))
    assert found == 2 * (8 * 8 * 8 * width + 3 * 96 * 2)


def test_all_states_of_a_decoder_are_recurrent():
    assert recurrent_bytes_per_sequence(MODEL) == state_bytes_per_sequence(MODEL) == STATE


@given(st.integers(1, 10**7), st.integers(0, 10**7))
def test_more_memory_never_has_fewer_places_nor_less_kv_space(rest, extra):
    small, large = placed(float(rest)), placed(float(rest + extra))
    assert small.states.slots <= large.states.slots
    assert small.states.bytes <= small.rest_bytes
    # what is left of a place that does not fit goes to the KV cache
    assert small.kv_available_bytes <= large.kv_available_bytes + STATE
