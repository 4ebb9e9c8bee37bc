"""Quick frozen values behave as the standard library's frozen ones, but for the check."""

import dataclasses

import pytest

from planner.records import dataclass


@dataclass(frozen=True)
class Quick:
    a: int
    b: str = "b"


@dataclasses.dataclass(frozen=True)
class Slow:
    a: int
    b: str = "b"


@dataclass(frozen=True, eq=False)
class Itself:
    a: int


@dataclass
class Open:
    a: int


def test_equal_fields_are_equal_values_of_one_hash():
    assert Quick(1) == Quick(1, "b") != Quick(2)
    assert hash(Quick(1)) == hash(Quick(1, "b")) == hash(Slow(1))
    assert repr(Quick(1)) == repr(Slow(1)).replace("Slow", "Quick")


def test_without_equality_a_value_is_itself_alone():
    one, other = Itself(1), Itself(1)
    assert one != other
    assert len({one, other}) == 2


def test_what_is_not_frozen_has_no_hash():
    assert Open(1) == Open(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open(1))


def test_fields_are_read_and_replaced_as_ever():
    assert [field.name for field in dataclasses.fields(Quick)] == ["a", "b"]
    assert dataclasses.replace(Quick(1), a=2) == Quick(2)
    assert dataclasses.asdict(Quick(1)) == {"a": 1, "b": "b"}
