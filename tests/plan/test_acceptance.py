"""Verdicts, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_samples import STATIC, plan, run, sampled

from planner.errors import UsageError
from planner.plan.acceptance import accept
from planner.plan.history import history_figures
from planner.plan.runs import KernelTime
from planner.plan.verdict import Policy, Reference

RANK = {"improve": -1, "pass": 0, "too_few_samples": 0, "regress": 1}
TIMES = st.floats(1e-4, 10)
SEVERAL = st.lists(TIMES, min_size=1, max_size=12)


def against(new, old, policy=None):
    """The verdict on a run by an accepted one."""
    return accept(new, baseline=Reference("main", old), policy=policy)


@pytest.mark.parametrize(
    ("measured_s", "verdict"),
    [(0.0079, "improve"), (0.008, "pass"), (0.010, "pass"), (0.012, "pass"), (0.0121, "regress")],
)
def test_the_interval_of_the_plan_decides(measured_s, verdict):
    """A step of 10 ms is predicted, 8 to 12 ms."""
    found = accept(run(step=measured_s), plan())
    assert found.verdict == verdict
    assert found.ratio == pytest.approx(measured_s / 0.010)
    assert found.interval == pytest.approx((measured_s / 0.012, measured_s / 0.008))
    assert found.against == f"plan {plan().plan_id}"
    assert found.p_value is None


@pytest.mark.parametrize("metric", ["tpot", "itl"])
def test_a_gap_between_tokens_is_held_against_a_decode_step(metric):
    assert accept(run(**{metric: 0.013}), plan()).verdict == "regress"
    refused = accept(run(**{metric: 0.013}), plan(kind="prefill"))
    assert refused.verdict == "incomparable"
    assert refused.reason == f"the run has {metric}; the plan predicts none of it"


def test_figures_of_requests_are_held_against_a_static_batch():
    """The interval is the step's in proportion, 0.8 to 1.2: latency 0.16 to 0.24 s; throughput is
    220 a second, so 220 / 1.2 = 183.3 to 220 / 0.8 = 275.
    """
    deployment = {**plan().deployment}
    del deployment["step"]
    static = replace(plan(STATIC), deployment=deployment)
    assert accept(run(latency=0.239), static).verdict == "pass"
    assert accept(run(latency=0.241), static).verdict == "regress"
    assert accept(run(output_throughput=184), static).verdict == "pass"
    slow = accept(run(output_throughput=110), static)
    assert (slow.verdict, slow.ratio) == ("regress", pytest.approx(220 / 110))
    assert accept(run(ttft=0.079), static).verdict == "improve"
    assert accept(run(tpot=0.011), static).verdict == "pass"
    # 4 · (100 + 11) = 444 tokens in 0.2 s
    assert accept(run(total_throughput=2220), static).ratio == pytest.approx(1.0)


def test_a_plan_without_an_interval_decides_nothing():
    """The bare roofline has none."""
    found = accept(run(step=0.013), plan(low_s=None, high_s=None))
    assert (found.verdict, found.ratio) == ("incomparable", pytest.approx(1.3))
    assert "plan with calibrated kernel models" in found.reason


def test_a_run_of_something_else_is_incomparable_and_the_part_is_named():
    found = accept(run({"gpu": "l40s"}, step=0.010), plan())
    assert found.verdict == "incomparable"
    assert found.reason == "device: gpu is l40s, not rtx-4090"


@pytest.mark.parametrize(("measured_s", "impossible"), [(0.00474, True), (0.00476, False)])
def test_more_than_five_percent_faster_than_the_bare_roofline_is_impossible(measured_s, impossible):
    """The bare roofline is 5 ms: 0.95 × 5 = 4.75 ms."""
    found = accept(run(tpot=measured_s), plan())
    assert found.impossible is impossible
    assert found.verdict == ("incomparable" if impossible else "improve")


@pytest.mark.parametrize(
    ("measured_s", "cause"),
    [
        (0.010 / 16, "an aggregate of 16 sequences read as per request"),
        (0.010 / 3, "speculative decoding"),
        (0.010 / 100, "another unit"),
    ],
)
def test_an_impossible_run_is_given_its_likely_cause(measured_s, cause):
    found = accept(run(tpot=measured_s), plan())
    assert "impossible" in found.reason
    assert cause in found.reason


def test_an_impossible_throughput_is_given_its_likely_cause():
    """Decoding alone takes 10 · 5 = 50 ms for 44 tokens: 880 a second at most. With the prompts
    counted it is 444 tokens in 0.2 s = 2,220, 111 / 11 = 10 times the output alone.
    """
    deployment = {k: v for k, v in plan().deployment.items() if k != "step"}
    static = replace(plan(STATIC), deployment=deployment)
    said = {"workload.input": 100, "workload.output": 11}
    assert "prompt tokens counted" in accept(run(said, output_throughput=2220), static).reason
    assert "prefix cache" in accept(run(output_throughput=1500), static).reason
    assert not accept(run(output_throughput=900), static).impossible


def test_a_trace_of_a_part_of_the_step_is_named():
    part = replace(run(step=0.001), kernels=(KernelTime("gemm", 1, 0.001),))
    assert "only some of the step's kernels" in accept(part, plan()).reason


def test_speculation_that_the_run_names_is_the_cause():
    found = accept(run({"speculation.method": "eagle"}, tpot=0.004), plan())
    assert "speculative decoding, which the run names" in found.reason


def test_a_closed_loop_is_told_from_a_decode_step():
    """Its requests wait for each other's prefills: said beside a regression."""
    found = accept(run({"workload.concurrency": 16}, tpot=0.013), plan())
    assert found.verdict == "regress"
    assert "prefills of other requests" in found.reason


def test_few_measurements_that_reach_into_the_interval_do_not_decide():
    """The median is 12.5 ms, above 12; one of the three lies below."""
    assert accept(sampled(0.0115, 0.0125, 0.013), plan()).verdict == "too_few_samples"
    assert accept(sampled(0.0135, 0.0136, 0.0137), plan()).verdict == "regress"


def test_single_figures_must_differ_beyond_the_assumed_spread():
    """5 % counts as the same. Two figures that may each be 5 % off: 1.05² = 1.1025 proves it."""
    old = run(step=0.010)
    assert against(run(step=0.0104), old).verdict == "pass"
    assert against(run(step=0.0108), old).verdict == "too_few_samples"
    assert against(run(step=0.0111), old).verdict == "regress"
    assert against(run(step=0.009), old).verdict == "improve"


def test_measurements_take_the_rank_test():
    """10 against 10 that do not overlap: p = 2 / C(20, 10) = 2 / 184,756. Medians 11.95 and 10.45:
    ratio 1.1435.
    """
    old = sampled(*(0.010 + 0.0001 * i for i in range(10)))
    new = sampled(*(0.0115 + 0.0001 * i for i in range(10)))
    found = against(new, old)
    assert found.verdict == "regress"
    assert found.p_value == pytest.approx(2 / 184_756)
    assert found.ratio == pytest.approx(0.01195 / 0.01045)
    assert found.against == "baseline main"


def test_a_large_difference_of_noisy_measurements_is_not_decided():
    """Every other step takes twice as long on both sides: 7 % in the median may be chance."""
    old = sampled(*([0.010, 0.020] * 4), 0.0150)
    new = sampled(*([0.010, 0.020] * 4), 0.0161)
    found = against(new, old)
    assert (found.verdict, found.ratio) == ("too_few_samples", pytest.approx(0.0161 / 0.0150))
    assert found.p_value > 0.5


def test_a_median_that_ranks_contradict_decides_nothing():
    """Medians 1.25 and 1.0, but only 20 · 20 = 400 of 39 · 39 = 1,521 pairs are slower."""
    old = sampled(*[1.0] * 20, *[5.0] * 19)
    new = sampled(*[0.5] * 19, *[1.25] * 20)
    found = against(new, old)
    assert found.ratio == pytest.approx(1.25)
    assert found.p_value < 0.01
    assert found.verdict == "too_few_samples"
    assert "the ranks lean the other way" in found.reason


def test_a_small_difference_passes_however_certain_it_is():
    """2 % in each of 50."""
    old = sampled(*(0.010 + 1e-6 * i for i in range(50)))
    new = sampled(*(0.0102 + 1e-6 * i for i in range(50)))
    found = against(new, old)
    assert found.p_value < 1e-6
    assert found.verdict == "pass"


def test_three_measurements_cannot_succeed_at_the_rank_test():
    """2 / C(6, 3) = 0.1 at best: the intervals decide."""
    old = sampled(0.010, 0.0101, 0.0102)
    assert against(sampled(0.0105, 0.0108, 0.0108), old).p_value is None
    assert against(sampled(0.0105, 0.0108, 0.0108), old).verdict == "too_few_samples"
    assert against(sampled(0.020, 0.0201, 0.0202), old).verdict == "regress"


def test_one_figure_that_got_worse_is_not_made_up_for_by_another():
    old = run(ttft=0.1, tpot=0.010)
    found = against(run(ttft=0.05, tpot=0.012), old)
    assert found.verdict == "regress"
    assert found.reason.startswith("mean tpot 1.20 ×")
    assert [each.verdict for each in found.judgements] == ["improve", "regress"]


def test_less_throughput_is_a_regression():
    """100 a second after 150 is 1.5 times slower."""
    found = against(run(output_throughput=100), run(output_throughput=150))
    assert (found.verdict, found.ratio) == ("regress", pytest.approx(1.5))


def test_runs_of_other_circumstances_are_incomparable():
    old = run({"parallel.tensor": 2}, step=0.010)
    found = against(run({"parallel.tensor": 4}, step=0.010), old)
    assert found.verdict == "incomparable"
    assert found.reason == "parallel: parallel.tensor is 4, not 2"
    assert found.ratio is None


@pytest.mark.parametrize(
    "part", ["model", "precision", "parallel", "device", "backend", "workload"]
)
def test_runs_of_plans_whose_part_differs_are_incomparable(part):
    """Also where no circumstance that the runs name does."""
    parts = {**plan().parts, part: "00"}
    found = accept(run(step=0.010), plan(), Reference("main", run(step=0.010), parts))
    assert found.verdict == "incomparable"
    assert found.reason.startswith(f"{part}: ")


@pytest.mark.parametrize("part", ["calibration", "cost_model"])
def test_how_a_plan_was_priced_does_not_matter_to_two_measured_runs(part):
    parts = {**plan().parts, part: "00"}
    assert (
        accept(run(step=0.010), plan(), Reference("main", run(step=0.010), parts)).verdict == "pass"
    )


def test_runs_without_a_figure_in_common_are_incomparable():
    found = against(run(step=0.010), run(ttft=0.1))
    assert found.reason == "the two runs have no figure in common"


def test_other_statistics_are_not_held_against_each_other():
    """A mean is no median."""
    assert against(sampled(0.010), run(step=0.010)).verdict == "incomparable"


def test_the_baseline_decides_and_the_plan_stands_beside_it():
    """13 ms is slower than planned, and what the team accepted."""
    found = accept(run(step=0.013), plan(), Reference("main", run(step=0.013)))
    assert (found.verdict, found.against) == ("pass", "baseline main")
    assert [(other.verdict, other.against) for other in found.others] == [
        ("regress", f"plan {plan().plan_id}")
    ]


def test_an_impossible_run_passes_by_no_baseline():
    found = accept(run(step=0.001), plan(), Reference("main", run(step=0.001)))
    assert (found.verdict, found.impossible) == ("incomparable", True)


def test_a_run_alone_cannot_be_judged():
    with pytest.raises(UsageError, match="nothing to hold the run against"):
        accept(run(step=0.010))


def test_gaps_of_nought_say_nothing():
    """Chunks that arrive together; the mean is of the same file and is left out with them."""
    burst = run(samples={"itl": (0.0, 0.0, 0.02)}, tpot=0.010)
    assert [each.metric for each in accept(burst, plan()).judgements] == ["tpot"]


@settings(deadline=None)
@given(SEVERAL)
def test_a_run_equal_to_the_baseline_passes(steps_s):
    found = against(sampled(*steps_s), sampled(*steps_s))
    assert (found.verdict, found.ratio) == ("pass", 1.0)


@settings(deadline=None)
@given(SEVERAL, SEVERAL, st.floats(1.001, 3))
def test_a_slower_run_never_gets_a_better_verdict(new, old, times):
    before = against(sampled(*new), sampled(*old))
    after = against(sampled(*(each * times for each in new)), sampled(*old))
    assert RANK[after.verdict] >= RANK[before.verdict]


@settings(deadline=None)
@given(SEVERAL, SEVERAL)
def test_what_is_a_regression_one_way_is_an_improvement_the_other_way(new, old):
    one, other = against(sampled(*new), sampled(*old)), against(sampled(*old), sampled(*new))
    assert RANK[one.verdict] == -RANK[other.verdict]
    assert one.ratio == pytest.approx(1 / other.ratio)


@settings(deadline=None)
@given(TIMES, st.floats(1.001, 3))
def test_a_slower_run_never_gets_a_better_verdict_by_the_plan(step_s, times):
    order = {"incomparable": -2} | RANK
    before, after = (accept(run(step=each), plan()) for each in (step_s, step_s * times))
    assert order[after.verdict] >= order[before.verdict]


def test_a_policy_may_be_stricter():
    policy = Policy(factor=1.01, spread=0.002)
    assert against(run(step=0.0102), run(step=0.010), policy).verdict == "regress"


def test_history_holds_each_figure_against_its_prediction():
    found = history_figures(run(tpot=0.012, ttft=0.5).metrics, plan())
    assert [(each.metric, each.measured, each.predicted) for each in found] == [
        ("tpot", 0.012, 0.010)
    ]
    assert found[0].ratio == pytest.approx(1.2)


def test_history_shows_figures_that_nothing_predicts():
    (found,) = history_figures(run(ttft=0.5).metrics, plan())
    assert (found.metric, found.predicted, found.ratio) == ("ttft", None, None)
    assert history_figures(run(ttft=0.5).metrics, None) == (found,)
