"""How an engine serves many requests: choices by version and flags, and the host's time."""

import pytest
from cost_engines import BACKEND, engine
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.scheduler import HostCosts, host_costs, scheduler
from planner.errors import SpecError, UsageError

FLAGS = """\
flags:
  longest_len: {type: int, about: longest sequence, default: [{value: null}]}
  chunk: {type: bool, about: cut prompts, default: [{value: true}]}
  ahead: {type: bool, about: asynchronous, when: {version: ">= 0.10"}, default: [{value: false}]}
"""
SERVING = """\
  longest: longest_len
serving:
  order: [{when: {version: "< 0.10"}, value: prefill_first, source: old}, {value: decode_first}]
  mixed: [{when: {version: "< 0.10"}, value: false}, {value: true}]
  chunked: [{when: {flag.chunk: true}, value: true}, {value: false}]
  tokens: [{when: {flag.chunk: true}, value: max_tokens}, {value: "max(longest, max_tokens)"}]
  counts: [{value: all}]
  sequences: [{when: {flag.longest_len: "> 5000"}, value: 3}, {value: "min(max_seqs, max(pool_tokens // longest, 2))"}]
  prefix_cache: [{value: true}]
  admission: [{value: prompt}]
  preemption: [{value: recompute}]
  asynchronous: [{when: {flag.ahead: true}, value: true}, {value: false}]
  decode_steps: [{value: 1}]
  poll_steps: [{value: 1, note: every step}]
  host:
    step: [{when: {version: "< 0.10"}, value: 2 ms, source: "a trace"}, {value: 1 ms}]
    sequence: [{value: 10 us}]
    prompt: [{value: 0.5 ms}]
    exposed: [{value: 50 us, note: measured nowhere}]
    output: [{value: 20 us}]
    request: [{value: 5 ms}]
    prompt_token: [{value: 2 us}]
"""
TEXT = BACKEND.replace("flags:\n", FLAGS) + SERVING


def small(version: str | None = None, **flags):
    return engine(version, TEXT, **flags)


def test_choices_follow_the_version():
    old, new = scheduler(small("0.9"), 4000), scheduler(small("1.0"), 4000)
    assert (old.order, old.mixed) == ("prefill_first", False)
    assert (new.order, new.mixed) == ("decode_first", True)


def test_a_version_between_two_described_ones_counts_as_itself():
    """0.9.5 stands in as 0.9; the note of 0.12 says that 0.10 stands in, conditions see 0.12."""
    assert scheduler(small("0.9.5"), 4000).order == "prefill_first"
    text = TEXT.replace('"< 0.10"}, value: prefill_first', '"< 0.11"}, value: prefill_first')
    assert scheduler(engine("0.10", text), 4000).order == "prefill_first"
    assert scheduler(engine("0.12", text), 4000).order == "decode_first"


def test_a_version_of_a_described_line_is_asked_by_its_own_number():
    """0.10.2 is described as 0.10, yet a condition on 0.10.1 tells the two apart."""
    text = TEXT.replace('"< 0.10"}, value: prefill_first', '"< 0.10.1"}, value: prefill_first')
    assert scheduler(engine("0.10", text), 4000).order == "prefill_first"
    assert scheduler(engine("0.10.2", text), 4000).order == "decode_first"
    assert engine("0.10.2", text).notes == ()


def test_whole_prompts_raise_the_tokens_of_a_step_to_the_longest_sequence():
    cut, whole = scheduler(small(), 4000), scheduler(small(chunk=False), 4000)
    assert (cut.tokens, cut.longest_prompt) == (1000, None)
    assert (whole.tokens, whole.longest_prompt) == (4000, 4000)


def test_a_flag_of_the_longest_sequence_counts_before_the_models():
    assert scheduler(small(chunk=False, longest_len=2000), 4000).tokens == 2000


def test_conditions_see_the_models_longest_sequence_where_no_flag_states_one():
    """The unstated flag takes the model's 6,000, beyond 5,000."""
    assert scheduler(small(), 6000).sequences == 3


def test_the_pool_may_limit_sequences():
    """40,000 tokens hold ten sequences of 4,000; 20,000 five; without a figure the least is taken."""
    assert scheduler(small(), 4000, 40_000).sequences == 10
    assert scheduler(small(), 4000, 20_000).sequences == 5
    assert scheduler(small(), 4000).sequences == 2


def test_places_for_states_may_limit_sequences_and_say_that_they_do():
    """Ten by the pool: eight with places are fewer, twelve are not."""
    fewer, more = (scheduler(small(), 4000, 40_000, states) for states in (8, 12))
    assert (fewer.sequences, fewer.limit) == (8, "states")
    assert (more.sequences, more.limit) == (10, "sequences")
    assert scheduler(small(), 4000, 40_000).limit == "sequences"


def test_prompts_wait_for_others_where_flags_say_so():
    """An engine that says nothing of it holds none; else a flag's number, whole or not."""
    assert (scheduler(small(), 4000).hold_steps, scheduler(small(), 4000).hold_share) == (0, 0)
    holds = "  hold_steps: [{value: 20}]\n  hold_share: [{value: share}]\n  host:\n"
    found = scheduler(engine(None, TEXT.replace("  host:\n", holds)), 4000)
    assert (found.hold_steps, found.hold_share) == (20, 0.5)


def test_every_choice_says_where_it_was_read():
    found = dict(scheduler(small("0.9"), 4000).sources)
    assert (found["order"], found["mixed"]) == ("old", "catalogue")
    costs = dict(host_costs(small("0.9")).sources)
    assert (costs["step"], costs["exposed"]) == ("a trace", "measured nowhere")
    assert len(costs) == 7


def test_a_flag_that_the_version_has_not_is_refused():
    assert scheduler(small("0.10", ahead=True), 4000).asynchronous
    with pytest.raises(SpecError) as caught:
        small("0.9", ahead=True)
    [fault] = caught.value.faults
    assert fault.message == "Small engine 0.9 has no flag 'ahead'"
    assert fault.hint == "needs version >= 0.10, have 0.9"


def test_the_version_asked_for_decides_on_a_flag_not_the_one_that_stands_in():
    """0.12 stands in as 0.10, and has the flag; 0.9.9 is a 0.9."""
    assert scheduler(small("0.12", ahead=True), 4000).asynchronous
    with pytest.raises(SpecError):
        small("0.9.9", ahead=True)


def test_an_engine_without_a_scheduler_says_so():
    with pytest.raises(UsageError, match="Small engine serves no requests"):
        scheduler(engine(), 4000)
    with pytest.raises(UsageError, match="Small engine serves no requests"):
        host_costs(engine())


def test_flags_that_come_to_no_step_are_refused():
    with pytest.raises(
        UsageError, match="Small engine has no tokens of a step: unknown name 'max_"
    ):
        scheduler(small(max_tokens=0), 4000)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("value: all}", "value: some}", "expected one of all, prompts; got 'some'"),
        ("value: prompt}", "value: 3}", "expected one of prompt, estimate, whole; got 3"),
        ("prefix_cache: [{value: true", "prefix_cache: [{value: yes", "expected true or false"),
        ("value: recompute", "value: retry", "expected one of recompute, swap, none"),
    ],
)
def test_a_word_that_means_nothing_is_refused_where_it_stands(before, after, says):
    assert before in TEXT
    with pytest.raises(SpecError, match=says):
        engine(None, TEXT.replace(before, after))


def test_the_loop_of_a_step():
    """1 ms + 100 × 10 us + 2 × 0.5 ms = 3 ms."""
    assert host_costs(small()).loop_s(100, 2) == pytest.approx(3e-3)


def test_the_way_of_a_request_to_the_scheduler():
    """5 ms + 1,000 × 2 us = 7 ms."""
    assert host_costs(small()).arrival_s(1000) == pytest.approx(7e-3)


TIMES = st.floats(0, 1e-2)
COSTS = st.builds(HostCosts, *[TIMES] * 7)


@given(COSTS, st.integers(0, 4096), st.integers(0, 4096), st.integers(0, 64))
def test_the_loop_is_affine_in_what_runs(costs, some, more, prompts):
    """Two steps joined into one save one fixed part."""
    apart = costs.loop_s(some, prompts) + costs.loop_s(more)
    assert costs.loop_s(some + more, prompts) == pytest.approx(apart - costs.step_s)


@given(COSTS, st.integers(0, 10**6))
def test_a_longer_prompt_never_arrives_sooner(costs, tokens):
    assert costs.arrival_s(tokens + 1) >= costs.arrival_s(tokens) >= costs.request_s
