"""Arithmetic over dims."""

import contextlib
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.spec.expr import ExpressionError, evaluate, names_in, whole

DIMS = {"heads": 28, "kv_heads": 4, "head_dim": 128, "hidden": 3584}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (7, 7),
        ("7", 7),
        ("heads * head_dim", 3584),
        ("(heads + 2 * kv_heads) * head_dim", 4608),
        ("hidden / heads", 128),
        ("hidden // 1000", 3),
        ("hidden / 1000 * 1000", 3584),
        ("1 / 3 + 1 / 3 + 1 / 3", 1),
        ("-heads + 30", 2),
        ("- -heads", 28),
        ("min(heads * 2, 512)", 56),
        ("max(1, kv_heads, 3)", 4),
        ("min(5)", 5),
        ("ceil(heads / 8)", 4),
        ("ceil(heads / 8) * 8 + ceil(3)", 35),
        ("  heads  ", 28),
        ("10 - 2 - 3", 5),
        ("2 + 3 * 4", 14),
    ],
)
def test_an_expression_has_its_exact_value(expression, value):
    assert whole(expression, DIMS) == value


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**6))
def test_fractions_lose_nothing(a, b, c):
    names = {"a": a, "b": b, "c": c}
    assert evaluate("a / b * c", names) == Fraction(a * c, b)
    assert evaluate("a // b", names) == a // b
    assert evaluate("ceil(a / b)", names) == -(-a // b)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("hidden / 3", "comes to 3584/3, no whole number"),
        ("heads - 28", "comes to 0, must be greater than 0"),
        ("heads - 29", "comes to -1, must be greater than 0"),
        (0, "must be greater than 0"),
        ("hidden * hidden * hidden * hidden * hidden", "more than 10**15"),
        (10**15 + 1, "more than 10**15"),
        ("heads / (kv_heads - 4)", "divides by zero"),
        ("heads // 0", "divides by zero"),
        ("haeds", "unknown name 'haeds'"),
        ("heads ** 2", "operator that is not read"),
        ("heads % 2", "'%' cannot stand"),
        ("1.5", "'.' cannot stand"),
        ("1e3", "holds 1000.0, no whole number"),
        ("2j", "no whole number"),
        ("True", "holds True"),
        ("'a'", "cannot stand"),
        ("heads.real", "cannot stand"),
        ("__import__(heads)", "no function here"),
        ("abs(heads)", "no function here"),
        ("min()", "no function here"),
        ("min(*heads)", "not read"),
        ("ceil(1, 2)", "cannot be computed"),
        ("(1, 2)", "not read"),
        ("1 if heads else 2", "not read"),
        ("heads and 2", "not read"),
        ("2or 3", "not read"),
        ("not heads", "not read"),
        ("lambda", "is no expression"),
        ("", "is no expression"),
        ("heads heads", "is no expression"),
        ("(heads", "is no expression"),
        ("heads\n+ 1", "cannot stand"),
        ("(" * 120, "is no expression"),
        ("1" + " + 1" * 60, "longer than 200 characters"),
        ("é", "cannot stand"),
    ],
)
def test_what_is_no_size_is_refused_with_a_sentence(expression, words):
    with pytest.raises(ExpressionError) as caught:
        whole(expression, DIMS)
    assert words in caught.value.message


def test_a_misspelt_name_offers_the_nearest():
    with pytest.raises(ExpressionError) as caught:
        whole("haeds", DIMS)
    assert caught.value.hint == "did you mean 'heads'?"


def test_the_names_of_an_expression_are_found():
    assert names_in("min(heads * head_dim, max(a, 4)) - heads") == {"heads", "head_dim", "a"}
    assert names_in(4) == set()


@dataclass(frozen=True)
class Term:
    """Stands for a size that is not yet a number: a text of what was done to it."""

    text: str

    def __add__(self, other):
        return Term(f"({self.text}+{other})")

    def __rmul__(self, other):
        return Term(f"({other}*{self.text})")

    def __neg__(self):
        return Term(f"(-{self.text})")


def test_values_of_any_type_are_computed_with_their_own_operators():
    assert evaluate("2 * x + n", {"x": Term("x"), "n": 3}) == Term("((2*x)+3)")
    assert evaluate("-x", {"x": Term("x")}) == Term("(-x)")


def test_an_operator_that_a_type_lacks_is_an_error_of_the_expression():
    with pytest.raises(ExpressionError, match="cannot be computed"):
        evaluate("x // 2", {"x": Term("x")})


@given(st.text(max_size=60) | st.text("ab +-*/(),0123 minmaxceil", max_size=60))
def test_no_text_ends_in_anything_but_an_expression_error(text):
    with contextlib.suppress(ExpressionError):
        assert 1 <= whole(text, {"a": 3, "b": 4}) <= 10**15
    with contextlib.suppress(ExpressionError):
        names_in(text)
