"""Plans side by side."""

from dataclasses import replace

import pytest
from report_plans import CATALOG, CHAT, assert_fits, plan, text

from planner.plan.diff import diff, side_by_side
from planner.report.diff import diff_view, gpus_view
from planner.report.diff_markdown import diff_markdown

GPUS = ("rtx-4090", "l40s", "h100-sxm", "h200-sxm")


def columns(*names: str):
    """The chat deployment on each GPU."""
    plans = {name: plan(CHAT, f"gpu={name}", "price=null") for name in names}
    return side_by_side(plans, {name: CATALOG.find("gpu", name) for name in names})


def test_a_diff_opens_with_the_verdict():
    before, after = plan(), plan(CHAT, "precision.kv_cache=fp8")
    shown = text(diff_view(diff(before, after)))
    by = before.step.time_s / after.step.time_s
    assert f"{after.plan_id} is {by:.2f}× faster than {before.plan_id}" in shown


def test_a_diff_the_other_way_says_slower():
    before, after = plan(CHAT, "precision.kv_cache=fp8"), plan()
    shown = text(diff_view(diff(before, after)))
    by = after.step.time_s / before.step.time_s
    assert f"{after.plan_id} is {by:.2f}× slower than {before.plan_id}" in shown


def test_a_diff_names_the_part_that_differs_and_no_other():
    shown = text(diff_view(diff(plan(), plan(CHAT, "step.decode.batch=8"))))
    assert "workload decode, batch 16, context 4,096 decode, batch 8, context 4,096" in shown
    assert "NVIDIA" not in shown


def test_one_plan_twice_is_no_difference():
    shown = text(diff_view(diff(plan(), plan())))
    assert "no difference" in shown
    assert "both answer the same question" in shown


def test_another_answer_to_the_same_question_is_blamed_on_the_model():
    step = replace(plan().step, time_s=2 * plan().step.time_s)
    changed = replace(plan(), result_hash="0" * 64, step=step)
    assert "planner's own model has changed" in text(diff_view(diff(plan(), changed)))


@pytest.mark.parametrize("spec", ["llama-3.3-70b-4xh100", "small-cnn-rtx4090"])
def test_plans_of_unlike_models_fit_100_columns(spec):
    assert_fits(diff_view(diff(plan(), plan(spec))))


def test_four_gpus_fit_100_columns():
    assert_fits(gpus_view(columns(*GPUS)))


def test_gpus_are_held_against_the_first():
    shown = text(gpus_view(columns("rtx-4090", "h100-sxm")))
    # 3.35 TB/s over 1.008 TB/s and 989.4 TFLOP/s over 165.2
    assert "3.32× 5.99×" in shown
    assert "fastest that fits: h100-sxm" in shown


def test_a_gpu_that_is_faster_but_too_small_is_not_called_fastest():
    big = plan("llama-3.3-70b-4xh100", "parallel.tensor=1", "price=null")
    found = side_by_side({"h100-sxm": big}, {"h100-sxm": CATALOG.find("gpu", "h100-sxm")})
    assert "it fits none of these GPUs" in text(gpus_view(found))


def test_a_diff_as_markdown_says_what_the_table_says():
    before, after = plan(), plan(CHAT, "precision.kv_cache=fp8")
    change = diff(before, after)
    shown = diff_markdown(change)
    by = before.step.time_s / after.step.time_s
    assert f"{after.plan_id} is {by:.2f}× faster than {before.plan_id}**" in shown
    assert f"| kernels | {change.kernels[0]:,} | {change.kernels[1]:,} |" in shown
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {4, 5}  # of three columns and of four


def test_names_of_users_are_no_markdown():
    change = replace(diff(plan(), plan(CHAT, "step.decode.batch=8")), name_b="a|b <i>*@all*")
    assert r"a\|b \<i\>\*\@all\*" in diff_markdown(change)


def test_markdown_of_one_plan_twice_is_two_lines():
    assert diff_markdown(diff(plan(), plan())).count("\n\n") == 1


def test_markdown_says_first_when_it_does_not_fit():
    change = replace(diff(plan(), plan(CHAT, "step.decode.batch=8")), fits=(True, False))
    assert diff_markdown(change).split("\n\n")[1] == "**It does not fit.**"
