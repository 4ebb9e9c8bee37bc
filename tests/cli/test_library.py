"""The library's front door."""

import inspect

import pytest

import planner


@pytest.mark.parametrize("name", planner.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(planner, name) is not None
    assert name in dir(planner)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rooflin'"):
        planner.rooflin  # noqa: B018


def test_the_lessons_roofline_is_in_seconds():
    # 8e9 bytes over 864 GB/s take 9.26 ms; 2e12 FLOP over 362 TFLOP/s take 5.52 ms
    found = planner.roofline(
        flops=2e12, hbm_bytes=8e9, peak_flops_per_s=362e12, bandwidth_bytes_per_s=864e9
    )
    assert found.time_s == pytest.approx(8e9 / 864e9)
    assert found.bound == "memory"


def test_a_file_is_planned_in_one_call(deployment):
    plan = planner.plan_file(deployment, sets=["step.decode.batch=2"])
    assert isinstance(plan, planner.Plan)
    assert plan.step.tokens == 2


def test_the_steps_of_a_plan_can_be_taken_one_by_one(deployment):
    from pathlib import Path

    asked = planner.ask(planner.load_deployment(Path(deployment)), planner.Catalog.standard())
    plan = planner.plan_question(asked)
    assert plan == planner.plan_file(deployment)
    assert planner.diff(plan, plan).parts == ()


def test_every_public_function_says_what_it_does():
    named = (getattr(planner, name) for name in planner.__all__)
    assert all(inspect.getdoc(thing) for thing in named if callable(thing))
