"""Sides of tensors: whole numbers times sizes that only the load of a step knows."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Literal

from planner.records import dataclass


@dataclass(frozen=True)
class Pairs:
    """A load symbol: query-key pairs of scores, as a rectangle, within a window or chunks."""

    window: int | None = None
    chunk: int | None = None

    def __str__(self) -> str:
        reach = self.window or self.chunk
        return "pairs" if reach is None else f"pairs within {reach}"


Phase = Literal["decode", "prefill", "all"]
"""Sequences that add one token, those that add more, or both."""


@dataclass(frozen=True)
class PhasePairs(Pairs):
    """Pairs of the sequences in one phase alone."""

    phase: Phase = "decode"

    def __str__(self) -> str:
        return f"{self.phase} {super().__str__()}"


Span = Literal["all", "new", "past"]
"""Keys that attention looks at: all, those of the step itself, or those cached before it."""


@dataclass(frozen=True)
class SpanPairs(Pairs):
    """Pairs with part of the keys alone, of which this rank holds one in ``ranks``."""

    span: Span = "past"
    ranks: int = 1

    def __str__(self) -> str:
        return f"{super().__str__()} with {self.span} keys" + f"/{self.ranks}" * (self.ranks > 1)


Symbol = str | Pairs


@dataclass(frozen=True)
class Dim:
    """One side of a tensor: a whole number times sizes that only the load knows.

    Supports the arithmetic of shape expressions as far as the result stays such a product.
    """

    coefficient: Fraction = Fraction(1)
    symbols: tuple[Symbol, ...] = ()

    @cached_property
    def ratio(self) -> tuple[int, int]:
        """The coefficient's numerator and denominator."""
        return self.coefficient.numerator, self.coefficient.denominator

    def __str__(self) -> str:
        parts = [str(symbol) for symbol in self.symbols]
        if self.coefficient != 1 or not parts:
            parts.insert(0, str(self.coefficient))
        return "*".join(parts)

    def __mul__(self, other: Dim | Fraction | int) -> Dim:
        other = as_dim(other)
        symbols = tuple(sorted(self.symbols + other.symbols, key=str))
        return Dim(self.coefficient * other.coefficient, symbols)

    __rmul__ = __mul__

    def __truediv__(self, other: Fraction | int) -> Dim:
        if isinstance(other, Dim):
            raise ValueError(  # noqa: TRY004 - a refusal for people, as every other of a shape
                f"cannot divide by {other}, which only the load knows"
            )
        return Dim(self.coefficient / other, self.symbols)

    def __rtruediv__(self, other: Fraction | int) -> Dim:
        raise ValueError(f"cannot divide {other} by {self}, which only the load knows")

    def __floordiv__(self, other: Dim | Fraction | int) -> Dim:
        raise ValueError(f"cannot round {self} divided by {other}: only the load knows {self}")

    __rfloordiv__ = __rtruediv__

    def __add__(self, other: Dim | Fraction | int) -> Dim:
        other = as_dim(other)
        if self.symbols != other.symbols:
            raise ValueError(f"cannot add {self} and {other}: only like sizes add up")
        return Dim(self.coefficient + other.coefficient, self.symbols)

    __radd__ = __add__

    def __sub__(self, other: Dim | Fraction | int) -> Dim:
        return self + as_dim(other) * -1

    def __rsub__(self, other: Dim | Fraction | int) -> Dim:
        return as_dim(other) - self

    def __neg__(self) -> Dim:
        return self * -1


ROWS: dict[Phase, str] = {
    "decode": "decode_tokens",
    "prefill": "prefill_tokens",
    "all": "tokens",
}
"""The load symbol that counts new tokens of a phase."""


def as_dim(value: Dim | Fraction | int) -> Dim:
    """A whole number or fraction as a dim without load symbols."""
    return value if isinstance(value, Dim) else Dim(Fraction(value))


Shape = tuple[Dim, ...]


def show_shape(shape: Shape) -> str:
    """``[tokens, 3584]``."""
    return "[" + ", ".join(str(dim) for dim in shape) + "]"


def static(dim: Dim) -> int:
    """The whole number a dim is; ValueError where it depends on the load."""
    if dim.symbols or dim.coefficient.denominator != 1:
        raise ValueError(f"{dim} is not a fixed whole number")
    return int(dim.coefficient)
