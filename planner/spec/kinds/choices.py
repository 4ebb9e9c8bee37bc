"""Values of a catalogue that hold under conditions."""

from __future__ import annotations

from pydantic import Field

from planner.spec.kinds.base import Conditions, Scalar, Spec
from planner.spec.quantity import Bytes, Seconds


class Choice(Spec):
    """A value that holds under conditions; of a list of choices the first that holds is taken."""

    when: Conditions = Field(default_factory=dict)
    value: Scalar
    source: str | None = None
    note: str | None = None


class TimeChoice(Spec):
    """A documented duration that holds under conditions."""

    when: Conditions = Field(default_factory=dict)
    value: Seconds
    source: str | None = None
    note: str | None = None


class ListSpelling(Spec):
    """How a list of numbers is written for the engine."""

    when: Conditions = Field(default_factory=dict)
    text: str = Field(description="What to paste; `%s` stands for the list")
    separator: str = ", "
    source: str | None = None


class BytesChoice(Spec):
    """A documented amount of memory that holds under conditions."""

    when: Conditions = Field(default_factory=dict)
    value: Bytes
    source: str | None = None
    note: str | None = None
