"""Measured figures by the names of columns, held against a plan with round numbers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_samples import STATIC, plan

from planner.plan.cases import Held, answer, bound, predictions, tally


def held(ratio, verdict="pass", predicted=None):
    return Held("step_ms", 1.0, predicted, ratio, verdict, "")


def test_a_decode_step_predicts_step_and_time_per_token():
    """10 ms (8 to 12), and 5 ms by the bare roofline."""
    found = predictions(plan())
    assert found.keys() == {"step_ms", "tpot_ms"}
    for each in found.values():
        assert (each.value, each.low, each.high, each.bare) == pytest.approx((10, 8, 12, 5))


def test_a_static_batch_predicts_figures_of_requests():
    """Intervals are as wide as the step's: 0.8 to 1.2 times; throughput divides by them.

    Ten decode steps of 5 ms bare: 0.05 s, in which 4 × 11 tokens make 880 a second.
    """
    found = predictions(plan(STATIC))
    assert found.keys() == {"step_ms", "ttft_ms", "tpot_ms", "latency_s", "throughput_tok_s"}
    assert found["ttft_ms"].value == pytest.approx(100)
    latency = found["latency_s"]
    assert (latency.value, latency.low, latency.high) == pytest.approx((0.2, 0.16, 0.24))
    rate = found["throughput_tok_s"]
    assert (rate.value, rate.low, rate.high) == pytest.approx((220, 220 / 1.2, 220 / 0.8))
    assert (latency.bare, rate.bare) == pytest.approx((0.05, 880))


@pytest.mark.parametrize(
    ("measured", "ratio", "verdict"),
    [(10, 1.0, "pass"), (12.5, 1.25, "regress"), (7, 0.7, "improve")],
)
def test_a_figure_is_judged_by_the_interval(measured, ratio, verdict):
    """8 to 12 ms is inside."""
    found = answer(plan(), {"step_ms": measured})
    assert (found.verdict, found.ratio) == (verdict, pytest.approx(ratio))
    (figure,) = found.held
    assert (figure.verdict, figure.ratio) == (verdict, pytest.approx(ratio))


def test_a_throughput_is_held_as_time():
    """110 tokens a second where 220 are planned is twice as slow."""
    found = answer(plan(STATIC), {"throughput_tok_s": 110})
    assert (found.verdict, found.ratio) == ("regress", pytest.approx(2))


def test_the_gravest_figure_decides():
    """Latency as planned does not make up for a first token that takes twice as long."""
    found = answer(plan(STATIC), {"latency_s": 0.2, "ttft_ms": 200})
    assert [each.verdict for each in found.held] == ["pass", "regress"]
    assert (found.verdict, found.ratio) == ("regress", pytest.approx(2))


def test_a_figure_that_the_plan_does_not_predict_is_named():
    found = answer(plan(), {"ttft_ms": 50})
    (figure,) = found.held
    assert (found.verdict, figure.ratio, figure.predicted) == ("incomparable", None, None)
    assert figure.reason == "a plan of one decode step predicts no ttft"


def test_one_figure_may_be_predicted_and_another_not():
    found = answer(plan(), {"ttft_ms": 50, "step_ms": 10})
    assert [each.verdict for each in found.held] == ["incomparable", "pass"]
    assert found.verdict == "pass"


def test_a_run_beyond_the_roofline_is_none_of_this_deployment():
    """2 ms where the bare roofline takes 5: no figure of that run counts."""
    found = answer(plan(), {"step_ms": 2, "tpot_ms": 10})
    assert found.impossible
    assert {each.verdict for each in found.held} == {"incomparable"}
    assert "impossible, 2.5 times faster than the bare roofline" in found.reason


def test_an_impossible_prefill_is_no_speculation():
    """It has no drafts: a cache or a partial trace explains it."""
    load = {"step": {"prefill": {"batch": 1, "tokens": 4096}}}
    prefill = replace(plan(kind="prefill"), deployment={**plan().deployment, **load})
    assert "a prefix cache" in answer(prefill, {"step_ms": 2}).reason


def test_nothing_measured_is_no_verdict():
    found = answer(plan(), {})
    assert (found.held, found.verdict, found.ratio) == ((), None, None)
    assert found.predicted["step_ms"].value == pytest.approx(10)


def test_what_takes_most_of_the_step_binds_it():
    """Two kernels of a fifth each under compute outweigh one of three tenths under memory."""
    shares = (("memory", 0.3), ("compute", 0.2), ("compute", 0.2))
    kernel = plan().kernels[0]
    kernels = tuple(replace(kernel, bound=name, share=share) for name, share in shares)
    assert bound(replace(plan(), kernels=kernels)) == "compute"


def test_a_step_of_gaps_is_bound_by_its_launches():
    real = plan()
    modes = {real.step.mode: replace(real.step.modes[real.step.mode], launch_share=0.6)}
    assert bound(replace(real, step=replace(real.step, modes=modes))) == "launch"


def test_errors_by_hand():
    """Ratios 0.5, 1, 2: predicted / measured − 1 is 1, 0, −0.5.

    Sizes 1, 0, 0.5: median 0.5, mean 0.5. Two of three are inside.
    """
    predicted = predictions(plan())["step_ms"]
    verdicts = ((0.5, "pass"), (1.0, "pass"), (2.0, "regress"))
    found = tally([held(ratio, verdict, predicted) for ratio, verdict in verdicts])
    assert (found.figures, found.median_ratio, found.bias) == (3, 1.0, 0.0)
    assert (found.median, found.mean) == (0.5, 0.5)
    assert found.inside == pytest.approx(2 / 3)


def test_figures_without_a_ratio_do_not_count():
    assert tally([held(None, "incomparable")]).figures == 0
    assert tally([held(None, "incomparable"), held(2.0)]).figures == 1


def test_figures_without_an_interval_count_but_not_for_its_share():
    found = tally([held(2.0)])
    assert (found.median_ratio, found.inside) == (2.0, None)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_the_bias_is_that_of_the_median(ratios):
    """Errors fall as ratios rise, so for an odd count the medians belong to one figure; the mean
    size is never below the size of the mean error."""
    odd = ratios if len(ratios) % 2 else ratios[1:] or ratios * 3
    found = tally([held(ratio) for ratio in odd])
    assert found.bias == pytest.approx(1 / found.median_ratio - 1)
    mean = sum(1 / ratio - 1 for ratio in odd) / len(odd)
    assert found.mean >= abs(mean) * (1 - 1e-9)
