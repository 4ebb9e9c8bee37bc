"""Conditions over facts."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.spec.conditions import first, holds, refusals, version_key

FACTS = {
    "tensor": 2,
    "capability": 8.9,
    "version": "0.10.2",
    "flag.enforce_eager": False,
    "kv_cache": "fp8",
    "flag.level": None,
}


@pytest.mark.parametrize(
    ("name", "wanted", "answer"),
    [
        ("tensor", 2, True),
        ("tensor", 2.0, True),
        ("tensor", 1, False),
        ("tensor", "2", False),
        ("tensor", "> 1", True),
        ("tensor", ">1", True),
        ("tensor", "> 2", False),
        ("tensor", ">= 2", True),
        ("tensor", "< 3", True),
        ("tensor", "<= 1", False),
        ("tensor", "!= 2", False),
        ("tensor", "!= 3", True),
        ("tensor", "> 1, < 3", True),
        ("tensor", "> 1, < 2", False),
        ("tensor", (1, 2), True),
        ("tensor", (1, 4), False),
        ("tensor", (1, "> 1"), True),
        ("tensor", (), False),
        ("capability", (8.9, 9.0), True),
        ("capability", ">= 9", False),
        ("flag.enforce_eager", False, True),
        ("flag.enforce_eager", True, False),
        ("flag.enforce_eager", 0, False),
        ("flag.enforce_eager", "!= true", True),
        ("flag.enforce_eager", "< 1", False),
        ("kv_cache", "fp8", True),
        ("kv_cache", "!= bf16", True),
        ("kv_cache", "!= fp8", False),
        ("kv_cache", "> 1", False),
        ("version", "0.10.2", True),
        ("version", "0.10.2.0", True),
        ("version", "0.10.2.post1", True),
        ("version", "0.10", False),
        ("version", "> 0.9", True),
        ("version", ">= 0.10", True),
        ("version", ">= 0.11", False),
        ("version", "< 0.9", False),
        ("version", "!= 0.9", True),
        ("version", "!= 0.10.2", False),
        ("version", ">= 0.9, < 0.11", True),
        ("version", ">= 0.9, < 0.10", False),
        ("version", ("< 0.5", ">= 0.10"), True),
        ("version", "> words", False),
        ("missing", 1, False),
        ("missing", "> 1", False),
        ("missing", "< 1", False),
        ("missing", "!= 1", True),
        ("missing", None, True),
        ("flag.level", None, True),
        ("flag.level", 3, False),
        ("flag.level", "!= 3", True),
        ("flag.level", "!= null", False),
        ("tensor", None, False),
        ("tensor", "!= null", True),
    ],
)
def test_a_condition_holds_or_not(name, wanted, answer):
    assert holds({name: wanted}, FACTS) is answer


def test_a_missing_version_satisfies_no_range():
    assert not holds({"version": ">= 0.1"}, {})


def test_no_conditions_always_hold():
    assert holds({}, {})


@pytest.mark.parametrize(
    ("name", "wanted", "sentence"),
    [
        ("tensor", "> 2", "needs tensor > 2, have 2"),
        ("tensor", (4, 8), "needs tensor 4 or 8, have 2"),
        ("flag.enforce_eager", True, "needs flag.enforce_eager = true, have false"),
        ("missing", "fp8", "needs missing = fp8, have none"),
        ("version", ">= 0.12, < 0.17", "needs version >= 0.12, < 0.17, have 0.10.2"),
    ],
)
def test_a_refusal_names_both_values(name, wanted, sentence):
    assert refusals({name: wanted, "kv_cache": "fp8"}, FACTS) == [sentence]


@given(
    st.dictionaries(
        st.sampled_from([*FACTS, "x"]),
        st.sampled_from([1, 2, "> 1", "!= 2", None, (1, 2), True, "fp8"]),
    )
)
def test_conditions_hold_exactly_where_nothing_is_refused(when):
    assert holds(when, FACTS) is (refusals(when, FACTS) == [])


@dataclass
class Option:
    value: int
    when: dict = field(default_factory=dict)


def test_the_first_choice_that_holds_is_taken():
    choices = (Option(1, {"tensor": "> 4"}), Option(2, {"tensor": "> 1"}), Option(3))
    assert first(choices, FACTS).value == 2
    assert first(choices, {}).value == 3
    assert first(choices[:2], {}) is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("0.9", (0, 9)),
        ("0.10", (0, 10)),
        ("0.26.0", (0, 26)),
        ("v1.2", (1, 2)),
        ("0.5.6.post1", (0, 5, 6)),
        ("0.19.0rc1", (0, 19)),
        ("0.5.6.post3.dev1000", (0, 5, 6)),
        ("0", (0,)),
        ("nightly", ()),
        ("", ()),
    ],
)
def test_a_version_is_its_numbers(text, key):
    assert version_key(text) == key


@given(
    st.tuples(st.integers(0, 99), st.integers(0, 99)),
    st.tuples(st.integers(0, 99), st.integers(0, 99)),
)
def test_versions_compare_number_by_number(left, right):
    texts = [f"{major}.{minor}" for major, minor in (left, right)]
    assert holds({"version": f"< {texts[1]}"}, {"version": texts[0]}) is (left < right)


def test_one_is_not_true_whichever_was_asked_first():
    """What was found for one value is not found again for another that Python calls equal."""
    assert holds({"flag.fast": True}, {"flag.fast": True})
    assert not holds({"flag.fast": True}, {"flag.fast": 1})
    assert holds({"flag.size": 1}, {"flag.size": 1})
    assert not holds({"flag.size": 1}, {"flag.size": True})
    assert not holds({"flag.size": (1, 2)}, {"flag.size": True})
