"""One figure typed by hand, as in ``12.3ms``."""

from __future__ import annotations

import hashlib
import re
from typing import cast, get_args

from planner.errors import Where
from planner.importers.fields import Fields
from planner.importers.refusal import ImportRefused
from planner.plan.runs import UNITS, Metric, MetricName, Run, Source, Statistic
from planner.registry import nearest
from planner.units import SECONDS

_RATE = re.compile(r"(?P<number>\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?)\s*(?P<unit>\S.*)?")
_RATES = {
    prefix + word: factor
    for prefix, factor in (("", 1.0), ("k", 1e3), ("M", 1e6))
    for word in ("tokens/s", "tok/s", "t/s", "tokens/sec")
}


def from_value(metric: str, text: str) -> Run:
    """A run of one figure: a metric such as ``tpot`` or ``tpot.p99``, and ``12.3ms``.

    Raises ImportRefused for an unknown metric or unit, a missing unit, nought and less.
    """
    where = Where("--value")
    name, _, statistic = metric.partition(".")
    _known(where, "metric", name, get_args(MetricName))
    _known(where, "statistic", statistic or "mean", get_args(Statistic))
    raw = text.encode("utf-8", "surrogatepass")
    figure = Metric(
        cast(MetricName, name), cast(Statistic, statistic or "mean"), _si(where, name, text)
    )
    figure = Fields({}, where).checked(figure, repr(text))
    source = Source("value", "by hand", hashlib.sha256(raw).hexdigest(), len(raw))
    return Run(source, (figure,))


def _known(where: Where, kind: str, word: str, words: tuple[str, ...]) -> None:
    if word not in words:
        near = nearest(word, words)
        hint = f"did you mean {near!r}?" if near else f"known are {', '.join(words)}"
        raise ImportRefused(where, f"unknown {kind} {word!r}", hint)


def _si(where: Where, name: str, text: str) -> float:
    try:
        return SECONDS.parse(text) if UNITS[name] == "s" else _tokens_per_s(text)
    except ValueError as error:
        raise ImportRefused(where, str(error)) from error


def _tokens_per_s(text: str) -> float:
    match = _RATE.fullmatch(text.strip())
    if not match or match["unit"] not in _RATES:
        raise ValueError(f"{text!r} is no token rate; write one as in '950 tokens/s'")
    return float(match["number"].replace("_", "")) * _RATES[match["unit"]]
