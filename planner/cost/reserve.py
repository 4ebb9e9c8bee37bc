"""What a catalogue says of an engine's memory, for one deployment at the version asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property

from planner.cost.engine import Engine
from planner.cost.types import Device
from planner.spec.conditions import first
from planner.spec.expr import ExpressionError, evaluate, whole
from planner.spec.types import BytesChoice, Choice, ReserveSpec, Scalar

_MIB = 2**20
_THOUSANDTHS = 1000
_UNKNOWN_LONGEST = 8192
"""The longest sequence of a model whose context nobody stated."""


class Reserve:
    """The memory section of an engine, its choices made and its expressions computed."""

    def __init__(self, engine: Engine, device: Device, longest: int | None = None) -> None:
        self.spec: ReserveSpec = engine.spec.memory
        self._device, self._context = device, longest
        flag = self.spec.longest
        self._engine = engine.as_asked
        if flag and self._engine.flag(flag) is None:
            self._engine = self._engine.with_flags({flag: longest})

    @property
    def longest(self) -> int | None:
        """The longest sequence: the engine's flag, else the model's context."""
        flag = self.spec.longest
        value = self._engine.flag(flag) if flag else self._context
        return value if isinstance(value, int) else None

    def amount(self, choices: tuple[BytesChoice, ...]) -> float:
        """Bytes of the first choice that holds; zero without one."""
        choice = first(choices, self._engine.facts)
        return choice.value if choice else 0.0

    def word(self, choices: tuple[Choice, ...], default: str) -> str:
        """The first choice that holds, as a word."""
        choice = first(choices, self._engine.facts)
        return str(choice.value) if choice else default

    def number(self, choices: tuple[Choice, ...], default: float = 0.0) -> float:
        """The first choice that holds, expressions computed."""
        choice = first(choices, self._engine.facts)
        if choice is None:
            return default
        if isinstance(choice.value, str):
            return float(evaluate(choice.value, self._names))
        return float(choice.value or 0)

    def share(self, choices: tuple[Choice, ...]) -> float:
        """A share of memory; a computed one in whole thousandths, as SGLang rounds its own."""
        choice = first(choices, self._engine.facts)
        value = self.number(choices)
        computed = choice is not None and isinstance(choice.value, str)
        return math.floor(value * _THOUSANDTHS) / _THOUSANDTHS if computed else value

    def count(self, choices: tuple[Choice, ...], known: Mapping[str, Fraction]) -> int:
        """The first choice that holds, over names known to the caller and flags, those with a point
        too: rounded down, never negative; zero without one.
        """
        choice = first(choices, self._engine.facts)
        if choice is None:
            return 0
        expression = choice.value if isinstance(choice.value, str) else int(choice.value or 0)
        names: dict[str, Fraction] = {**self._exact_flags, **self._whole, **known}
        return max(0, math.floor(Fraction(evaluate(expression, names))))

    @cached_property
    def _exact_flags(self) -> dict[str, Fraction]:
        flags = self._engine.flags.items()
        return {name: Fraction(str(value)) for name, value in flags if isinstance(value, float)}

    @property
    def _whole(self) -> dict[str, Fraction]:
        return {name: Fraction(value) for name, value in self._names.items()}

    @cached_property
    def _names(self) -> dict[str, int]:
        tensor = self._engine.facts.get("tensor")
        unknown = {self.spec.longest: _UNKNOWN_LONGEST} if self.spec.longest else {}
        return {
            **unknown,
            **self._engine.whole_flags,
            "tensor": tensor if isinstance(tensor, int) else 1,
            "memory_mib": int(self._device.visible_bytes // _MIB),
        }


def levers(engine: Engine) -> Iterator[tuple[str, Scalar]]:
    """Flags that free memory, with the values to turn them to; those that change nothing left out.

    A value that comes to no whole number, as half of one, is none.
    """
    for lever in engine.spec.memory.levers:
        value: Scalar = lever.to if isinstance(lever.to, bool) else None
        if not isinstance(lever.to, bool):
            try:
                value = whole(lever.to, engine.as_asked.whole_flags)
            except ExpressionError:
                continue
        if value != engine.flag(lever.flag):
            yield lever.flag, value
