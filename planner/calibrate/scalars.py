"""Scalars as calibration files write them: quantities with units, four digits, quoted text."""

from __future__ import annotations

from collections.abc import Iterable

DIGITS = 4
_UNITS = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns")),
    "bytes/s": ((1e12, "TB/s"), (1e9, "GB/s"), (0.0, "MB/s")),
}
_FACTORS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6}


def flow(items: Iterable[tuple[str, object]]) -> str:
    """A mapping on one line."""
    return "{" + ", ".join(f"{name}: {_shown(value)}" for name, value in items) + "}"


def _shown(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """A YAML float of four digits; never ``1e-05``, which YAML 1.2 readers disagree about."""
    shown = f"{value:.{DIGITS}g}"
    if "e" in shown:
        mantissa, _, exponent = shown.partition("e")
        shown = f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent):+d}"
    return shown


def quantity(value: float, unit: str) -> str:
    """A constant with its unit, as a spec reads it back: ``2.31 us``, ``0.87``."""
    if unit not in _UNITS:
        return number(value)
    name = next(name for least, name in _UNITS[unit] if abs(value) >= least)
    return f"{number(value / _FACTORS[name])} {name}"


def quoted(value: object) -> str:
    """A YAML scalar that no reader takes for a number."""
    if value is None:
        return "null"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
