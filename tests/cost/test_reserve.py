"""The memory section of an engine, for one deployment."""

import dataclasses

import pytest
from cost_engines import BACKEND, engine
from cost_samples import DEVICE

from planner.cost.reserve import Reserve, levers

GIB = 2**30


def section(lines: str, flags: str = "") -> str:
    """The small engine with more lines in its memory section, and more flags."""
    text = BACKEND.replace("memory:\n", f"memory:\n{lines}")
    return text.replace("flags:\n", f"flags:\n{flags}")


SHARE = """\
  utilization: [{value: "(memory_mib - max(512 + max_tokens * 3 / 2 + tensor * 128, 10240)) / memory_mib"}]
"""


def test_a_computed_share_is_rounded_down_to_thousandths():
    """SGLang on H100: (81,089 - 512 - 1.5 * 8,192 - 128) / 81,089 = 0.8405…"""
    text = section(SHARE).replace("  utilization: [{value: 0.9}]\n", "")
    device = dataclasses.replace(DEVICE, visible_bytes=81_089 * 2**20)
    found = Reserve(engine(backend=text, max_tokens=8192), device)
    assert pytest.approx(0.84057, abs=1e-5) == (81_089 - 512 - 12_288 - 128) / 81_089
    assert found.share(found.spec.utilization) == 0.840


def test_a_floor_under_what_is_reserved_holds():
    text = section(SHARE).replace("  utilization: [{value: 0.9}]\n", "")
    device = dataclasses.replace(DEVICE, visible_bytes=102_400 * 2**20)
    found = Reserve(engine(backend=text, max_tokens=100), device)
    assert found.share(found.spec.utilization) == 0.9


def test_conditions_see_the_version_asked_for_and_not_its_stand_in():
    """0.95 is not described and 0.10 stands in for it everywhere else."""
    old = '[{when: {version: "< 0.95"}, value: 7 kB}, {value: 3 kB}]'
    text = BACKEND.replace("runtime: [{value: 10 kB}]", f"runtime: {old}")
    asked = engine("0.95", backend=text)
    assert asked.version == "0.10"
    found = Reserve(asked, DEVICE)
    assert found.amount(found.spec.runtime) == 3e3
    turned = Reserve(asked.with_flags({"eager": True}), DEVICE)
    assert (turned.amount(turned.spec.runtime), turned.amount(turned.spec.graphs)) == (3e3, 0)


LONGEST = section(
    "  longest: longest\n", "  longest: {type: int, about: longest, default: [{value: null}]}\n"
).replace("profile_tokens: [{value: max_tokens}]", "profile_tokens: [{value: longest}]")


def test_the_longest_sequence_is_the_flag_or_the_models_context():
    assert Reserve(engine(backend=LONGEST), DEVICE, 4096).longest == 4096
    assert Reserve(engine(backend=LONGEST, longest=100), DEVICE, 4096).longest == 100
    assert Reserve(engine(), DEVICE, 4096).longest == 4096


def test_a_dummy_step_may_be_as_long_as_a_sequence():
    found = Reserve(engine(backend=LONGEST, longest=100), DEVICE, 4096)
    assert found.number(found.spec.profile_tokens) == 100
    unknown = Reserve(engine(backend=LONGEST), DEVICE)
    assert unknown.number(unknown.spec.profile_tokens) == 8192


def test_levers_that_change_nothing_or_come_to_a_fraction_are_left_out():
    lines = "  levers: [{flag: eager, to: true}, {flag: max_tokens, to: max_tokens / 2}]\n"
    text = section(lines)
    assert list(levers(engine(backend=text))) == [("eager", True), ("max_tokens", 500)]
    assert list(levers(engine(backend=text, eager=True, max_tokens=7))) == []
