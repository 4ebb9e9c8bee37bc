"""Values of a JSON object or a table row, read with their type, range and place."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from planner.errors import Where
from planner.importers.refusal import ImportRefused
from planner.plan.runs import UNITS, Metric, MetricName, Statistic

_MOST = {"s": 1e8, "tokens/s": 1e12}
"""Three years; a million GPUs at a million tokens each. Beyond it a unit was mistaken."""
_MOST_COUNT = 10**15
_SHOWN = 40
_ORDER: tuple[Statistic, ...] = ("min", "median", "p90", "p95", "p99", "max")
_SLACK = 1e-3
"""Printed percentiles may be rounded: 7.77 as maximum beside 7.767 as p99."""


@dataclass(frozen=True)
class Fields:
    """A mapping of a file. A key that is absent or null is None; one of the wrong type refuses."""

    values: Mapping[str, Any]
    where: Where
    path: str = ""

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def refusal(self, key: str, reason: str, hint: str | None = None) -> ImportRefused:
        """The error that names the key and what is wrong with it."""
        return ImportRefused(self.where, f"{self.path}{key} {reason}", hint)

    def number(self, key: str) -> float:
        """A finite number that must be there."""
        value = self.maybe(key)
        if value is None:
            raise self.refusal(key, "is missing")
        return value

    def maybe(self, key: str) -> float | None:
        """A finite number, or None."""
        value = self.values.get(key)
        return None if value is None else self._finite(key, value)

    def _finite(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refusal(key, f"is {_shown(value)}, not a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.refusal(key, "is NaN or infinite, not a number")
        return number

    def count(self, key: str) -> int | None:
        """A whole number from nought up, or None. ``"8"`` and ``8.0`` are 8."""
        value = self.values.get(key)
        if (
            isinstance(value, str)
            and value.isascii()
            and value.isdigit()
            and len(value) < len(str(_MOST_COUNT))
        ):
            value = int(value)
        if value is None:
            return None
        number = self._finite(key, value)
        if number != int(number) or not 0 <= number <= _MOST_COUNT:
            raise self.refusal(key, f"is {_shown(value)}, not a count")
        return int(number)

    def positive_count(self, key: str) -> int | None:
        """A whole number from one up, or None."""
        number = self.count(key)
        if number == 0:
            raise self.refusal(key, "is 0")
        return number

    def text(self, key: str) -> str | None:
        """A text that can be written again, or None; an empty one counts as none."""
        value = self.values.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.refusal(key, f"is {_shown(value)}, not a text")
        if not value.isprintable():
            raise self.refusal(key, "holds characters that cannot be printed")
        return value

    def flag(self, key: str) -> bool | None:
        """True, false or None."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.refusal(key, f"is {_shown(value)}, not true or false")
        return value

    def inside(self, key: str) -> Fields | None:
        """The object under a key, or None."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.refusal(key, f"is {_shown(value)}, not an object")
        return Fields(value, self.where, f"{self.path}{key}.")

    def down(self, *keys: str) -> Fields | None:
        """The object under several keys, one inside the other, or None."""
        found: Fields | None = self
        for key in keys:
            found = found.inside(key) if found is not None else None
        return found

    def objects(self, key: str) -> tuple[Fields, ...]:
        """The objects of an array; none when the key is absent."""
        parts = []
        for index, item in enumerate(self._array(key)):
            if not isinstance(item, dict):
                raise self.refusal(f"{key}[{index}]", f"is {_shown(item)}, not an object")
            parts.append(Fields(item, self.where, f"{self.path}{key}[{index}]."))
        return tuple(parts)

    def numbers(self, key: str) -> tuple[float, ...]:
        """The finite numbers of an array; none when the key is absent."""
        return tuple(
            self._finite(f"{key}[{index}]", item) for index, item in enumerate(self._array(key))
        )

    def arrays(self, key: str) -> tuple[tuple[float, ...], ...]:
        """The arrays of finite numbers in an array; none when the key is absent."""
        rows = []
        for index, _ in enumerate(self._array(key)):
            name = f"{key}[{index}]"
            rows.append(
                Fields({name: self.values[key][index]}, self.where, self.path).numbers(name)
            )
        return tuple(rows)

    def array(self, key: str) -> list[Any]:
        """An array of anything; empty when the key is absent."""
        return list(self._array(key))

    def _array(self, key: str) -> list[Any]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refusal(key, f"is {_shown(value)}, not an array")
        return value

    def metric(
        self, name: MetricName, statistic: Statistic, key: str, factor: float = 1.0
    ) -> Metric | None:
        """The figure under a key times ``factor``, in SI; None when it is absent."""
        value = self.maybe(key)
        if value is None:
            return None
        return self.checked(Metric(name, statistic, value * factor), key)

    def checked(self, metric: Metric, key: str) -> Metric:
        """The metric, when its value can be one. Raises ImportRefused with the key's name."""
        if metric.value <= 0:
            self._refuse_nothing(metric, key)
        if metric.value > _MOST[UNITS[metric.name]]:
            raise self.refusal(
                key, f"is {metric.value:.3g} {metric.unit}, more than can be", "in another unit?"
            )
        return metric

    def _refuse_nothing(self, metric: Metric, key: str) -> None:
        if math.copysign(1.0, metric.value) < 0:
            raise self.refusal(
                key,
                f"is {metric.value:g} {metric.unit}, which cannot be",
                "an endpoint that does not stream gives negative gaps",
            )
        raise self.refusal(
            key,
            "is 0, which stands for nothing measured",
            "did every request fail, or does the endpoint not stream?",
        )

    def metrics(
        self, name: MetricName, keys: Mapping[Statistic, str], factor: float = 1.0
    ) -> Iterator[Metric]:
        """Those statistics of one metric that are there, in SI.

        Raises ImportRefused when they cannot belong together: a p99 below the median.
        """
        found = {
            statistic: metric
            for statistic, key in keys.items()
            if (metric := self.metric(name, statistic, key, factor)) is not None
        }
        ordered = [found[statistic] for statistic in _ORDER if statistic in found]
        for low, high in pairwise(ordered):
            if low.value > high.value * (1 + _SLACK):
                raise self.refusal(
                    keys[high.statistic], f"is below the {low.statistic} of the same figure"
                )
        yield from found.values()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def present(metrics: Iterable[Metric | None]) -> Iterator[Metric]:
    """Those that are there."""
    return (metric for metric in metrics if metric is not None)
