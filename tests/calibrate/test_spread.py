"""What whole runs scatter beyond their intervals, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.calibrate.spread import Deviation, deviations
from planner.calibrate.widths import estimate, inside, judged, learnt, traits, width
from planner.errors import UsageError
from planner.plan.assemble import assemble
from planner.plan.cases import answer
from planner.plan.interval import widened
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask


def off(report: str, log_ratio: float, fast: float = 0.0, slow: float = 0.0, **rest) -> Deviation:
    figure, told = rest.pop("figure", "pace"), rest.pop("told", "in full")
    known = rest or {"load": "served"}
    return Deviation(report, "cell", told, figure, known, log_ratio, fast, slow)


def one_each(*needed: float) -> list[Deviation]:
    """Reports of one figure each, without an interval of their own."""
    return [off(str(place), each) for place, each in enumerate(needed)]


def test_what_a_figure_needs_is_what_its_interval_lacks_on_its_side():
    """0.5 beyond 0.3 as squares: √(0.25 − 0.09) = 0.4. On the fast side the reach is 0.1."""
    assert off("a", 0.5, 0.1, 0.3).needed == pytest.approx(0.4)
    assert off("a", -0.5, 0.3, 0.1).needed == pytest.approx(0.4)
    assert off("a", 0.2, 0.0, 0.3).needed == 0.0


def test_the_width_is_the_quantile_over_reports_that_few_reports_widen():
    """Of nine reports 0.8 · (9 + 1) = 8: the eighth. Of four 0.8 · 5 = 4: the last."""
    assert width(one_each(*(place / 10 for place in range(1, 10)))) == pytest.approx(0.8)
    assert width(one_each(0.1, 0.2, 0.3, 0.4)) == pytest.approx(0.4)
    with pytest.raises(ValueError, match="3 reports"):
        width(one_each(0.1, 0.2, 0.3))


def test_figures_that_repeat_each_other_count_as_one():
    """Forty exact figures of one report are one of ten: 0.8 · 11 = 8.8, four fifths of the way from
    the seventh of the others to their eighth.
    """
    others = one_each(*(place / 10 for place in range(1, 10)))
    many = [off("many", 0.0)] * 40
    assert width([*many, *others]) == pytest.approx(0.78)
    assert inside([*many, *others], 0.45) == pytest.approx(0.5)


def test_reports_that_tell_all_teach_where_there_are_five():
    """Whose version is ours joins only where they are fewer; whose load is ours never does."""
    whole = one_each(0.1, 0.2, 0.3, 0.4, 0.5)
    version = off("v", 1.0, told="but the version")
    part = off("p", 2.0, told="in part")
    assert learnt([*whole, version, part], "pace") == whole
    assert learnt([*whole[:4], version, part], "pace") == [*whole[:4], version]


def test_a_report_left_out_is_judged_by_the_others():
    """Of five reports each is held against the largest of the other four (0.8 · 5 = 4): all but
    the widest one are inside. What tells its load in part is judged by all five (0.8 · 6 = 4.8).
    """
    found = [*one_each(0.1, 0.2, 0.3, 0.4, 0.5), off("p", 0.47, told="in part")]
    held = {each.report: held for each, held in judged(found, "pace")}
    assert held == {"0": True, "1": True, "2": True, "3": True, "4": False, "p": True}


def test_an_estimate_says_what_it_is_of():
    """Six reports: 0.8 · 7 = 5.6, between the fifth and the sixth. One lies in its own interval.
    Left out, the others' five give 0.8 · 6 = 4.8 of 0, 0.1 … : the last is not held.
    """
    found = [*one_each(0.1, 0.2, 0.3, 0.4, 0.5), off("in", 0.1, 0.2, 0.2)]
    firsts = [replace(each, figure="ttft") for each in found]
    spread = estimate([*found, *firsts])
    assert spread["pace"].width == pytest.approx(0.46)
    assert spread["pace"].reports == spread["ttft"].figures == spread["pace"].cells == 6
    assert spread["pace"].worth == pytest.approx(6)
    assert spread["pace"].before == pytest.approx(1 / 6)
    assert spread["pace"].left_out == pytest.approx(5 / 6)


def test_too_few_reports_are_refused_by_name():
    with pytest.raises(UsageError, match="figures of pace are in 4 reports"):
        estimate(one_each(0.1, 0.2, 0.3, 0.4))


def test_traits_tell_reports_apart_only_where_ranks_do():
    """Five reports of 0.1 to 0.5 against five of 1.1 to 1.5: the exact p is 2 / C(10, 5). Five
    have 0.8 · 6 = 4.8, between the last two. All near ones are held by the others.
    """
    near = [off(f"n{k}", k / 10, load="served") for k in range(1, 6)]
    far = [off(f"f{k}", 1 + k / 10, load="batch") for k in range(1, 6)]
    (found,) = traits([*near, *far])
    assert found.reports == found.figures == {"batch": 5, "served": 5}
    assert found.widths == pytest.approx({"batch": 1.48, "served": 0.48})
    assert found.inside["served"] == 1
    assert found.p_value == pytest.approx(2 / 252)


@given(
    ratio=st.floats(-2, 2).filter(lambda each: abs(each) > 1e-3),
    reach=st.floats(0.01, 1),
)
def test_an_interval_widened_by_what_is_needed_just_reaches_the_figure(ratio, reach):
    """The composition of plans and the estimate are each other's inverse."""
    each = off("a", ratio, reach, reach)
    low, high = widened(1.0, math.exp(-reach), math.exp(reach), each.needed)
    end = math.log(high) if ratio > 0 else -math.log(low)
    assert end == pytest.approx(max(abs(ratio), reach))


@pytest.fixture(scope="module")
def plan():
    """A static batch of a small dense model on a card with kernels of its own."""
    text = (
        "name: a\nmodel: qwen2.5-0.5b-instruct\ngpu: h100-sxm\nbackend: {name: vllm}\n"
        "workload: {batch: 2, input: 64, output: 8}\n"
    )
    deployment = load_text(text, "a.yaml", "deployment")
    return assemble(replace(ask(deployment, Catalog.standard()), spread=None))


def test_figures_of_a_run_become_deviations_as_time(plan):
    """Half the throughput is twice the time: ln 2. Its slow end is the low throughput."""
    load = plan.workload
    found = list(
        deviations(
            "r",
            answer(
                plan,
                {
                    "throughput_tok_s": load.output_tokens_per_s / 2,
                    "ttft_ms": load.ttft_s * 2e3,
                },
            ),
        )
    )
    rate, first = found
    assert (rate.figure, first.figure) == ("pace", "ttft")
    assert rate.log_ratio == pytest.approx(math.log(2)) == first.log_ratio
    assert rate.log_slow == pytest.approx(math.log(plan.step.high_s / plan.step.time_s))
    assert rate.traits["experts"] == "dense"
    assert rate.traits["figure"] == "throughput_tok_s"
    assert rate.traits["load"] == "a static batch"
    assert rate.told == "in full"


def test_what_a_row_leaves_open_is_kept(plan):
    """A version of ours, or a load of ours."""
    run = answer(plan, {"tpot_ms": plan.step.time_s * 1e3})
    told = [next(deviations("r", run, basis)).told for basis in ("version", "load", "machine")]
    assert told == ["but the version", "in part", "in full"]


def test_a_run_faster_than_the_roofline_tells_nothing(plan):
    assert not list(deviations("r", answer(plan, {"tpot_ms": plan.totals.roofline_s * 1e3 / 3})))
