"""When a fact of a catalogue holds: conditions over named facts of a deployment."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Protocol, TypeVar

from planner.spec.scalars import resolve
from planner.spec.types import Conditions, Scalar

Facts = Mapping[str, Scalar]
"""What is known of a deployment, by name: ``tensor``, ``version``, ``flag.enforce_eager``."""

_COMPARISON = re.compile(r"\s*(>=|<=|!=|>|<)\s*(.*?)\s*")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_VERSION = re.compile(r"\s*v?(\d{1,9}(?:\.\d{1,9})*)")
VERSION = "version"
"""The one fact that is always compared as a dotted version."""


class _Conditional(Protocol):
    @property
    def when(self) -> Conditions: ...


ChoiceT = TypeVar("ChoiceT", bound=_Conditional)


def holds(when: Conditions, facts: Facts) -> bool:
    """Whether every condition holds. No conditions always hold.

    A value is equalled (null: the fact is missing), a list offers choices, and a text that opens
    with a comparison compares: numbers by size, `version` by its dotted numbers; several joined by
    commas (``>= 0.12, < 0.17``) must all hold. A missing fact satisfies no comparison but ``!=``.
    """
    for name, wanted in when.items():  # noqa: SIM110 – a generator takes twice as long
        if not _holds(name, wanted, facts.get(name)):
            return False
    return True


def refusals(when: Conditions, facts: Facts) -> list[str]:
    """A sentence for each condition that fails: ``needs tensor > 1, have 1``."""
    return [
        f"needs {name} {_wanted(wanted)}, have {_said(facts.get(name))}"
        for name, wanted in when.items()
        if not _holds(name, wanted, facts.get(name))
    ]


def first(choices: Iterable[ChoiceT], facts: Facts) -> ChoiceT | None:
    """The first of the choices whose `when` holds, or None."""
    for choice in choices:
        if holds(choice.when, facts):
            return choice
    return None


def version_key(text: str) -> tuple[int, ...]:
    """A version's numbers without trailing zeros: ``0.5.6.post1`` gives (0, 5, 6).

    Suffixes are left out, so a release candidate counts as its release. Empty for no version.
    """
    found = _VERSION.match(text)
    numbers = [int(number) for number in found[1].split(".")] if found else []
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _holds(name: str, wanted: Scalar | tuple[Scalar, ...], have: Scalar) -> bool:
    if isinstance(wanted, tuple):
        return any(_holds_one(name, choice, have) for choice in wanted)
    return _holds_one(name, wanted, have)


@lru_cache(maxsize=4096, typed=True)
def _holds_one(name: str, wanted: Scalar, have: Scalar) -> bool:
    """Remembered: a catalogue asks the same of every plan. Typed, since ``1`` is not ``true``."""
    if not isinstance(wanted, str) or not _COMPARISON.fullmatch(wanted):
        return _equal(name, wanted, have)
    return all(_compares(name, part, have) for part in wanted.split(","))


def _compares(name: str, text: str, have: Scalar) -> bool:
    found = _COMPARISON.fullmatch(text)
    if not found:
        return _equal(name, resolve(text.strip()), have)
    sign, operand = found.groups()
    if sign == "!=":
        return not _equal(name, operand if name == VERSION else resolve(operand), have)
    if have is None:
        return False
    if name == VERSION:
        mine, theirs = version_key(str(have)), version_key(operand)
        return bool(mine and theirs) and _OPERATORS[sign](*_padded(mine, theirs))
    limit = resolve(operand)
    return _is_number(have) and _is_number(limit) and _OPERATORS[sign](have, limit)


def _equal(name: str, wanted: Scalar, have: Scalar) -> bool:
    if wanted is None or have is None:
        return wanted is have
    if name == VERSION:
        return version_key(str(wanted)) == version_key(str(have))
    if isinstance(wanted, bool) or isinstance(have, bool):
        return wanted is have
    return wanted == have


def _padded(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[list[int], list[int]]:
    pairs = list(zip_longest(left, right, fillvalue=0))
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wanted(wanted: Scalar | tuple[Scalar, ...]) -> str:
    if isinstance(wanted, tuple):
        return " or ".join(_said(choice) for choice in wanted)
    if isinstance(wanted, str) and _COMPARISON.fullmatch(wanted):
        return wanted.strip()
    return f"= {_said(wanted)}"


def _said(value: Scalar) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
