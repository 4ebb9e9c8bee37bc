"""Quantities as people write them, to and from SI floats. The only place that knows prefixes.

GB is 10⁹ bytes and GiB is 2³⁰: confusing them is the commonest mistake among planners.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_DECIMAL = {
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "μ": 1e-6,
    "m": 1e-3,
    "": 1.0,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_LARGE = ("", "k", "K", "M", "G", "T", "P", "E")
_SMALL = ("n", "u", "µ", "μ", "m", "")


@dataclass(frozen=True)
class Dimension:
    """One kind of quantity: its name in messages, an example, and every unit that spells it."""

    name: str
    example: str
    factors: dict[str, float]
    rate: bool = False
    """Whether something is divided by it, so that nought makes no sense."""

    def parse(self, text: object) -> float:
        """The SI value of a quantity such as ``3.35 TB/s``.

        Raises ValueError with a sentence for people: no unit, unknown unit, unit of another
        dimension, an amount that cannot be, or something that is no quantity at all.
        """
        if not isinstance(text, str):
            bare = isinstance(text, int | float) and not isinstance(text, bool)
            said = f"a {self.name} needs its unit, as"
            if not bare:
                said = f"not a {self.name}; write one as"
            # ValueError, since that is what pydantic shows beside the field.
            raise ValueError(f"{said} in '{self.example}'")  # noqa: TRY004
        match = _QUANTITY.fullmatch(text.strip())
        if not match:
            raise ValueError(f"{text!r} is no {self.name}; write one as in '{self.example}'")
        number, unit = float(match["number"].replace("_", "")), match["unit"]
        if not unit:
            raise ValueError(f"a {self.name} needs its unit, as in '{self.example}'")
        if unit not in self.factors:
            raise ValueError(self._refusal(unit))
        return self._checked(number * self.factors[unit])

    def _checked(self, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError(f"a {self.name} that large cannot be")
        if value < 0 or (self.rate and not value):
            least = "be greater than 0" if self.rate else "not be negative"
            raise ValueError(f"a {self.name} must {least}")
        return value

    def _refusal(self, unit: str) -> str:
        for other in DIMENSIONS:
            if unit in other.factors:
                return (
                    f"{unit!r} is a unit of {other.name}, not of {self.name} "
                    f"(as in '{self.example}')"
                )
        return f"unknown unit {unit!r} for a {self.name}, as in '{self.example}'"


_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>[^\s\d].*)?"
)


def _units(prefixes: tuple[str, ...], *bases: str) -> dict[str, float]:
    return {prefix + base: _DECIMAL[prefix] for prefix in prefixes for base in bases}


def _byte_units(suffix: str = "") -> dict[str, float]:
    decimal = {prefix + "B" + suffix: _DECIMAL[prefix] for prefix in _LARGE}
    return decimal | {prefix + "B" + suffix: factor for prefix, factor in _BINARY.items()}


BYTES = Dimension("number of bytes", "24 GiB", _byte_units())
BYTES_PER_S = Dimension("bandwidth", "3.35 TB/s", _byte_units("/s"), rate=True)
FLOPS_PER_S = Dimension(
    "compute rate",
    "989 TFLOP/s",
    _units(_LARGE, "FLOP/s", "FLOPS", "OP/s", "OPS"),
    rate=True,
)
SECONDS = Dimension("time", "4.5 us", _units(_SMALL, "s"))
HERTZ = Dimension("frequency", "2520 MHz", _units(_LARGE, "Hz"), rate=True)
WATTS = Dimension("power", "450 W", _units(("m", *_LARGE), "W"))
PRICE_PER_HOUR = Dimension(
    "price",
    "0.69 USD/h",
    {"USD/h": 1.0, "USD/hour": 1.0, "$/h": 1.0, "USD/day": 1 / 24, "USD/month": 1 / 730},
)
SPAN = Dimension("span of time", "90d", {"h": 3600.0, "d": 86_400.0, "w": 604_800.0})
"""Not among those that messages look other units up in: no spec has one."""
DIMENSIONS = (BYTES, BYTES_PER_S, FLOPS_PER_S, SECONDS, HERTZ, WATTS, PRICE_PER_HOUR)

_STEPS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def _scaled(value: float, unit: str, digits: int) -> str:
    for factor, prefix in _STEPS:
        if abs(value) >= factor:
            return f"{_short(value / factor, digits)} {prefix}{unit}"
    return f"{_short(value, digits)} {unit}"


def _short(value: float, digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    whole = len(str(int(abs(value))))
    return f"{value:,.{max(0, digits - whole)}f}"


def show_bytes(value: float, digits: int = 3) -> str:
    """Binary prefixes, since memory is counted in them: ``14.2 GiB``."""
    for prefix, factor in reversed(_BINARY.items()):
        if abs(value) >= factor:
            return f"{_short(value / factor, digits)} {prefix}B"
    return f"{_short(value, digits)} B"


def show_bandwidth(value: float, digits: int = 3) -> str:
    """Decimal prefixes, since vendors print bandwidth in them: ``1.01 TB/s``."""
    return _scaled(value, "B/s", digits)


def show_flops(value: float, digits: int = 3) -> str:
    """A count of floating-point operations: ``240 GFLOP``."""
    return _scaled(value, "FLOP", digits)


def show_flops_per_s(value: float, digits: int = 3) -> str:
    """A compute rate: ``165 TFLOP/s``."""
    return _scaled(value, "FLOP/s", digits)


def show_seconds(value: float, digits: int = 3) -> str:
    """A duration in the unit a reader expects: ``9.26 ms``, ``4.5 us``."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(value) >= factor:
            return f"{_short(value / factor, digits)} {unit}"
    return f"{_short(value / 1e-9, digits)} ns" if value else "0 s"


def show_count(value: float, digits: int = 3) -> str:
    """A large count with a decimal prefix and no unit: ``7.62 B`` parameters."""
    for factor, prefix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{_short(value / factor, digits)} {prefix}"
    return _short(value, digits)
