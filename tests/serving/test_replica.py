"""What schedulers put into steps, followed by hand: every step takes a second."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_samples import Steps, history, served, server, trace
from thoroughness import many

from planner.serving.events import Transfer, play
from planner.serving.timetable import Took
from planner.serving.types import Demand, Lengths


def test_a_request_has_its_first_token_after_its_prompt_and_one_more_with_each_step():
    # prompt 0-1, then 3 decode steps
    assert history(served(trace((0, 100, 4)), server())) == [(1, 4)]


def test_the_front_end_comes_before_the_scheduler():
    replica = server(Steps(lambda decoding, prompts: 1.0, front_s=0.25))
    assert history(served(trace((0, 100, 2)), replica)) == [(1.25, 2.25)]


def test_a_prompt_longer_than_a_step_is_cut():
    # 2,500 tokens at 1,000 a step: three steps
    assert history(served(trace((0, 2500, 2)), server())) == [(3, 4)]


def test_decoding_sequences_take_tokens_of_a_step():
    # the first decodes from 1 on; beside it 999 tokens of the second fit, the last one at 2-3
    demand = trace((0, 100, 9), (0.5, 1000, 1))
    assert history(served(demand, server())) == [(1, 9), (3, 3)]
    # where only prompts count, all 1,000 fit at once
    assert history(served(demand, server(counts="prompts"))) == [(1, 9), (2, 2)]


def test_prompts_that_do_not_fit_a_step_whole_wait_where_none_is_cut():
    # 600 + 600 > 1,000: the second prompt comes a step later
    demand = trace((0, 600, 1), (0, 600, 1))
    assert history(served(demand, server(chunked=False))) == [(1, 1), (2, 2)]
    # where prompts are cut, 400 of the second go along, and the rest comes second all the same
    assert history(served(demand, server())) == [(1, 1), (2, 2)]
    assert history(served(demand, server(tokens=1200))) == [(1, 1), (1, 1)]


def test_prompts_first_make_running_sequences_wait():
    # prompts at 0-1 and 1-2; both decode from 2 on
    demand = trace((0, 100, 3), (0.5, 100, 3))
    found = served(demand, server(order="prefill_first", mixed=False))
    assert history(found) == [(1, 4), (2, 4)]


def test_prompts_are_launched_while_others_decode():
    """Prompts take a second, 0.4 of it for their launches, and steps that decode let the host
    begin 0.3 sooner. The second prompt follows a step that decodes, and is done at 2.7; the first
    follows nothing.
    """

    @dataclass(frozen=True)
    class Launched(Steps):
        def took(self, decoding, context, prompts):
            return Took(1.0, 1.0, 0.4) if prompts.count else Took(1.0, 1.0, 0.0, 0.3)

    demand = trace((0, 100, 3), (1.5, 100, 1))
    replica = server(Launched(lambda decoding, prompts: 1.0), order="prefill_first", mixed=False)
    assert history(served(demand, replica)) == [(1, 3.7), (2.7, 2.7)]


def test_a_step_that_holds_both_delays_nobody():
    demand = trace((0, 100, 3), (0.5, 100, 3))
    assert history(served(demand, server())) == [(1, 3), (2, 4)]


def test_an_asynchronous_scheduler_has_formed_the_next_step_already():
    # step 0-1 and, formed at 0, step 1-2 go without the second: its prompt runs at 2-3
    demand = trace((0, 100, 9), (0.5, 100, 1))
    assert history(served(demand, server(asynchronous=True)))[1] == (3, 3)
    assert history(served(demand, server(asynchronous=False)))[1] == (2, 2)


def test_prompts_wait_for_others_so_many_steps_at_most():
    # the second is seen at 2 and waits from 2 to 6: its prompt runs at 6-7
    gathering = {"hold_steps": 4, "hold_share": 0.9}
    demand = trace((0, 100, 30), (1.5, 100, 1))
    assert history(served(demand, server(**gathering)))[1] == (7, 7)
    # a third at 3.5: 1 + 100 + 850 tokens of 1,000 are enough, at 4
    demand = trace((0, 100, 30), (1.5, 100, 1), (3.5, 850, 1))
    assert history(served(demand, server(**gathering)))[1:] == [(5, 5), (5, 5)]
    # nobody waits where nothing decodes
    assert history(served(trace((0, 100, 1)), server(**gathering))) == [(1, 1)]


def test_no_more_sequences_run_than_the_engine_takes():
    # the third prompt can start when the first two are done, at 3
    demand = trace((0, 10, 3), (0, 10, 3), (0, 10, 3))
    assert history(served(demand, server(sequences=2))) == [(1, 3), (1, 3), (4, 6)]


def test_a_sequence_is_evicted_when_the_cache_is_full_and_computed_again():
    # both hold 10 tokens at 1 and 15 at 6, together all 30. The second goes: it has 6 of its
    # tokens. The first ends at 1 + 9 = 10. The second computes 16 tokens at 10-11, which gives it
    # its seventh, and ends 3 steps later.
    replica = server(pool=30)
    found = served(trace((0, 10, 10), (0, 10, 10)), replica)
    assert history(found) == [(1, 10), (1, 14)]
    assert found.evictions == (1,)
    assert replica.kv_tokens == pytest.approx(0)


def test_an_engine_that_waits_for_the_whole_request_evicts_none():
    # 20 + 20 tokens are never free at once
    replica = server(pool=30, admission="whole", preemption="none")
    found = served(trace((0, 10, 10), (0, 10, 10)), replica)
    assert history(found) == [(1, 10), (11, 20)]
    assert found.evictions == (0,)


def test_an_estimate_keeps_some_of_what_may_be_generated_free():
    # the first is to generate 9 more; 0.7 of it is kept: 10 + 0.7 · 9 + (10 + 9) > 35 at 1, and
    # 14 + 0.7 · 5 + 19 = 36.5 at 5, 15 + 0.7 · 4 + 19 = 36.8 at 6: it starts when the first is done
    replica = server(pool=35, admission="estimate")
    found = served(trace((0, 10, 10), (0.5, 10, 10)), replica)
    assert history(found) == [(1, 10), (11, 20)]
    # 10 + 6.3 + 19 = 35.3 fit into 36, and its prompt runs at 1-2
    replica = server(pool=36, admission="estimate")
    assert history(served(trace((0, 10, 10), (0.5, 10, 10)), replica))[1][0] == 2


def test_cached_tokens_of_a_prompt_are_not_computed_again():
    # 2,000 tokens take two steps, a tenth of them one
    demand = Demand(Lengths(2000, 2, cached=0.9), users=1, requests=3, whole=True)
    assert [each.ttft_s for each in served(demand, server()).counted] == [1, 1, 1]


def test_drafts_that_are_accepted_save_steps():
    # 9 tokens after the first at 3 a step: 3 steps
    replica = server()
    replica.yields, replica.drafts = 3.0, 3
    assert history(served(trace((0, 100, 10)), replica)) == [(1, 4)]


def test_what_never_fits_is_refused_and_holds_nobody_up():
    found = served(trace((0, 90, 20), (0, 10, 2)), server(pool=100))
    assert found.refused == 1
    assert history(found) == [(1, 2)]


def test_requests_go_to_the_replica_with_the_fewest():
    # one sequence at a time on each of two: the third waits for one of them
    replicas = (server(sequences=1), server(sequences=1))
    found = play(trace((0, 10, 2), (0, 10, 2), (0, 10, 2)), replicas)
    assert history(found) == [(1, 2), (1, 2), (3, 4)]


def test_a_prefill_server_hands_on_over_the_link_prompt_after_prompt():
    # prompts at 0-1 together; 10 tokens take 0.5 s on the link each, and 0.25 s more to be there:
    # at 1.75 and 2.25. Decoding: 1.75-4.75 for the first; the second joins at 2.75 and ends at 5.75
    demand = trace((0, 10, 4), (0, 10, 4))
    found = play(
        demand, (server(hands_on=True),), 0, (server(),), Transfer(latency_s=0.25, s_per_token=0.05)
    )
    assert history(found) == [(1, 4.75), (1, 5.75)]


ROWS = st.lists(
    st.tuples(st.floats(0, 50), st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=25
)


@given(
    rows=ROWS,
    order=st.sampled_from(["prefill_first", "decode_first"]),
    mixed=st.booleans(),
    chunked=st.booleans(),
    admission=st.sampled_from(["prompt", "estimate", "whole"]),
    asynchronous=st.booleans(),
    sequences=st.integers(1, 8),
    pool=st.integers(100, 400),
)
@settings(max_examples=many(40, 150), deadline=None)
def test_every_request_is_served_whole_whatever_the_rules(rows, pool, **rules):
    replica = server(pool=pool, tokens=100, **rules)
    found = served(trace(*rows), replica)
    assert len(found.counted) == len(rows)
    assert replica.kv_tokens == pytest.approx(0, abs=1e-6)
    assert not replica.running
    for each in found.counted:
        # a second for the prompt at the least, and one for each token after the first
        assert each.ttft_s >= 1 - 1e-9
        assert each.done_s - each.first_s >= each.output - 1 - 1e-9
    for entry in found.logs[0]:
        assert entry.kv_share <= 1 + 8 / pool
        assert entry.running <= rules["sequences"]
    assert sum(entry.tokens for entry in found.logs[0]) == sum(
        each.output for each in found.counted
    )


def test_many_steps_in_one_go_are_the_same_as_one_by_one():
    # arrivals fall between steps however many are taken together
    rows = [(3.3 * number, 50, 30 + number) for number in range(20)]
    whole = history(served(trace(*rows), server()))
    for (sent_s, _, output), (first_s, done_s) in zip(rows, whole, strict=True):
        assert first_s - sent_s <= 2  # the step that runs, and its own
        assert done_s - first_s == pytest.approx(output - 1)
