"""What a choice is made of: margins to limits, money and energy, hardware, Pareto fronts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from choice_samples import SERVING, apart
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import UsageError
from planner.plan.serving_types import Range, StepKind
from planner.serving.front import front
from planner.serving.offers import Offer, offers
from planner.serving.spending import prompt_share, spending
from planner.serving.targets import Targets, least, margins
from planner.spec.load import load_text


def prices(text: str):
    """A file of prices with these lines."""
    head = 'kind: prices\nname: p\ntitle: P\ndate: "2026-11-30"\n'
    return load_text(head + text, "p.yaml", "prices")


def test_a_margin_is_a_share_of_the_limit_at_value_and_ends():
    found = margins(Targets(ttft_s=0.050, tpot_s=0.016, output_tokens_per_s=80.0), SERVING)
    first, token, rate = found
    # 40 of 50 ms: a fifth is left; 60 ms is a fifth too many, 30 ms leaves two
    assert (first.margin, first.worst, first.best) == pytest.approx((0.2, -0.2, 0.4))
    # 15 of 16 ms
    assert token.margin == pytest.approx(1 / 16)
    # 100 where 80 are asked for: a quarter over; 80 at the worse end: nothing
    assert (rate.margin, rate.worst, rate.best) == pytest.approx((0.25, 0.0, 0.5625))
    assert [each.inside for each in found] == [True] * 3
    assert [each.crosses for each in found] == [True, True, False]
    assert least(found) == token.margin


def test_a_missed_limit_may_be_kept_after_all():
    (found,) = margins(Targets(tpot_s=0.013), SERVING)
    assert not found.inside
    assert found.crosses  # 12 ms at the better end


def test_a_figure_without_interval_crosses_nothing():
    bare = replace(SERVING, latency_s=Range(0.775))
    (found,) = margins(Targets(latency_s=0.5), bare)
    assert (found.worst, found.best, found.crosses) == (None, None, False)
    # 0.775 of 0.5 s is 55 % too much
    assert found.margin == pytest.approx(-0.55)


def test_money_is_split_by_the_time_that_goes_to_prompts():
    # a quarter of steps takes 20 ms longer for its prompts: 5 ms a step beside 10 ms of decoding
    assert prompt_share(SERVING) == pytest.approx(5 / 15)
    found = spending(SERVING, 3.60, 720.0)
    # 0.001 USD a second; 200 input and 100 output tokens
    assert found.per_million_input == pytest.approx(0.001 / 3 / 200 * 1e6)
    assert found.per_million_output == pytest.approx(0.001 * 2 / 3 / 100 * 1e6)
    assert found.per_million_tokens == pytest.approx(0.001 / 300 * 1e6)
    # 7.2 J a token is 7.2 MJ a million: 2 kWh
    assert found.kwh_per_million_output == pytest.approx(2.0)


def test_prompts_in_steps_of_their_own_pay_for_them_whole():
    # of four steps three decode for 10 ms, one takes 30 ms
    assert prompt_share(apart()) == pytest.approx(30 / 60)


def test_answers_of_one_token_are_prompts_alone():
    assert prompt_share(replace(SERVING, output=1)) == 1.0


def test_without_a_price_there_is_energy_alone():
    found = spending(SERVING, None, None)
    assert (found.price_per_hour, found.per_million_tokens, found.power_w) == (None, None, None)


TIMES = st.floats(1e-4, 1.0)


STEPS = st.builds(
    lambda share, decode_s, prefill_s, mixed: {
        "decode": StepKind(4, 0, 1 - share, decode_s, 0.0, decode_s),
        "prefill": StepKind(4 if mixed else 0, 100, share, prefill_s, 0.0, prefill_s),
    },
    st.floats(0, 1),
    TIMES,
    TIMES,
    st.booleans(),
)
LENGTHS = st.builds(
    lambda i, o: {"input": i, "output": o}, st.integers(1, 5000), st.integers(2, 5000)
)


@given(STEPS, LENGTHS, st.floats(0.01, 100), st.floats(0.1, 100))
def test_input_and_output_make_up_all_that_is_paid(steps, lengths, rate, price):
    found = spending(replace(SERVING, **steps, **lengths, requests_per_s=rate), price, None)
    each, answer = lengths["input"], lengths["output"]
    paid = found.per_million_input * each + found.per_million_output * answer
    # of one request, as often as they come
    assert paid * rate == pytest.approx(price / 3600 * 1e6)
    assert found.per_million_tokens * (each + answer) * rate == pytest.approx(price / 3600 * 1e6)


def test_gpus_are_rented_one_by_one():
    offer = Offer("l4", "l4", 1, 0.5)
    assert offer.node(8) == 8  # what its link joins
    assert offer.fills(2, 8, 8) == (1, 2, 3, 4)
    assert offer.units(2, 3) == 6
    assert offer.cost(6) == 3.0
    assert offer.fills(16, 40, 8) == (1, 2)  # two nodes each
    assert offer.fills(12, 64, 8) == ()  # half a node would stand empty


def test_an_instance_is_rented_with_all_its_gpus():
    offer = Offer("eight", "l4", 8, 10.0, whole=True)
    assert offer.node(72) == 8
    # four replicas of two GPUs fill one; 24 GPUs are three of them
    assert offer.fills(2, 24, 8) == (4, 8, 12)
    assert offer.units(2, 8) == 2
    # two replicas of three leave two GPUs idle, and paid for
    assert offer.fills(3, 16, 8) == (2, 4)
    assert offer.units(3, 4) == 2
    assert offer.fills(1, 4, 8) == ()  # eight are more than may be rented
    # a replica over two machines of two
    assert Offer("two", "l4", 2, 1.0, whole=True).fills(4, 8, 2) == (1, 2)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 64))
def test_what_is_filled_is_rented_and_within_the_most(count, each, most):
    offer = Offer("x", "l4", count, 1.0)
    for replicas in offer.fills(each, most, 8):
        gpus = offer.units(each, replicas) * offer.count
        assert replicas * each <= gpus <= most
        # no further replica would fit without renting more
        if count >= each:
            assert offer.units(each, replicas + 1) > offer.units(each, replicas)


def test_offers_are_those_of_a_file():
    spec = prices(
        "gpus: {l4: 0.5 USD/h, a100-80gb-sxm: {value: 36 USD/day, note: daily}}\n"
        "instances: {box: {gpu: l4, count: 4, price: 1.9 USD/h}}\n"
    )
    assert offers(spec) == (
        Offer("a100-80gb-sxm", "a100-80gb-sxm", 1, 1.5),
        Offer("l4", "l4", 1, 0.5),
        Offer("box", "l4", 4, 1.9, whole=True),
    )
    assert {offer.name for offer in offers(spec, ["l4"])} == {"l4", "box"}
    with pytest.raises(UsageError, match=r"no price of 'l40' \(did you mean 'l4'"):
        offers(spec, ["l40"])
    with pytest.raises(UsageError, match="neither gpus nor instances"):
        offers(prices(""))


POINTS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=30)


@given(POINTS)
def test_a_front_holds_what_nothing_dominates_and_nothing_else(points):
    found = front(points, lambda p: p[0], lambda p: p[1])

    def dominated(p):
        return any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points)

    assert sorted(found) == sorted({p for p in points if not dominated(p)})
