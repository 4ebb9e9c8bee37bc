"""Figures that carry their unit, as genai-perf and aiperf write them.

Both tools' ``inter_token_latency`` is (request latency − time to first token) / (output − 1): what
is called tpot here. ``inter_chunk_latency`` is the gap between chunks: itl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.importers.fields import Fields
from planner.importers.lengths import stated
from planner.plan.runs import UNITS, Metric, MetricName, Statistic

FIGURES: Mapping[str, MetricName] = {
    "time_to_first_token": "ttft",
    "inter_token_latency": "tpot",
    "inter_chunk_latency": "itl",
    "request_latency": "latency",
    "output_token_throughput": "output_throughput",
    "total_token_throughput": "total_throughput",
}
STATISTICS: Mapping[Statistic, str] = {
    "mean": "avg",
    "median": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "min": "min",
    "max": "max",
}
NOTE = "tpot is what the tool calls inter-token latency"
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_RATES = {"tokens/sec": 1.0, "tokens/s": 1.0, "tokens/second": 1.0}


def factor(figure: Fields, name: MetricName) -> float:
    """What makes the figure's unit SI. Raises ImportRefused for a unit that is not known."""
    unit = figure.text("unit")
    known = _SECONDS if UNITS[name] == "s" else _RATES
    if unit not in known:
        raise figure.refusal(
            "unit", f"is {unit!r}, no unit of {name} known here", f"known are {', '.join(known)}"
        )
    return known[unit]


def metrics(record: Fields) -> Iterator[Metric]:
    """Every known figure of a summary, in SI."""
    for key, name in FIGURES.items():
        figure = record.inside(key)
        if figure is not None:
            yield from figure.metrics(name, STATISTICS, factor(figure, name))


def lengths(record: Fields) -> dict[str, int | float | str]:
    """Mean lengths, as measured."""
    found: dict[str, int | float | str | None] = {}
    for key, path in (
        ("input_sequence_length", "workload.input"),
        ("output_sequence_length", "workload.output"),
    ):
        figure = record.inside(key)
        mean = figure.maybe("avg") if figure else None
        found[path] = round(mean) if mean is not None and mean >= 1 else None
    return stated(found)


def refuse_without_requests(record: Fields) -> None:
    """Raises ImportRefused when the summary says that no request succeeded."""
    counted = record.inside("request_count")
    if counted is not None and counted.maybe("avg") == 0:
        raise counted.refusal("avg", "is 0: every request failed", "look at the server's log")
