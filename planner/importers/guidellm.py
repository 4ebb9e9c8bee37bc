"""GuideLLM reports: one run per benchmark of the file, successful requests only.

Keys as in guidellm 0.8 (report version 2). ``inter_token_latency_ms`` is what is called tpot
here; ``time_per_output_token_ms`` counts the first token's wait too and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.importers.document import Document
from planner.importers.fields import Fields
from planner.importers.lengths import completed, stated
from planner.importers.registry import Importer, register
from planner.plan.runs import Metric, MetricName, Run, Statistic

NAME = "guidellm"
_FIGURES: tuple[tuple[str, MetricName, float], ...] = (
    ("request_latency", "latency", 1.0),
    ("time_to_first_token_ms", "ttft", 1e-3),
    ("inter_token_latency_ms", "tpot", 1e-3),
)
_RATES: tuple[tuple[str, MetricName], ...] = (
    ("output_tokens_per_second", "output_throughput"),
    ("tokens_per_second", "total_throughput"),
)
_PLAIN: dict[Statistic, str] = {"mean": "mean", "median": "median", "min": "min", "max": "max"}
_PERCENTILES: dict[Statistic, str] = {"p90": "p90", "p95": "p95", "p99": "p99"}
_NOTE = "tpot is the file's inter_token_latency_ms; its time_per_output_token_ms includes ttft"


def _claims(document: Document) -> bool:
    first = document.records[0].values if document.records else {}
    benchmarks = first.get("benchmarks")
    return isinstance(benchmarks, list) and all(
        isinstance(item, dict) and "metrics" in item for item in benchmarks
    )


def _read(document: Document) -> tuple[Run, ...]:
    record = document.only
    benchmarks = record.objects("benchmarks")
    if not benchmarks:
        raise record.refusal("benchmarks", "is empty", "did the benchmark finish?")
    about = record.inside("metadata")
    version = about.text("guidellm_version") if about else None
    return tuple(_run(document, item, f"guidellm {version or ''}".strip()) for item in benchmarks)


def _run(document: Document, benchmark: Fields, tool: str) -> Run:
    metrics, notes = benchmark.inside("metrics"), [_NOTE]
    totals = metrics.inside("request_totals") if metrics else None
    if metrics is None or totals is None:
        raise benchmark.refusal("metrics.request_totals", "is missing")
    completed(totals, "successful", totals.count("errored"), notes)
    figures = tuple(_metrics(metrics))
    if not figures:
        raise benchmark.refusal("metrics", "hold no figure of successful requests")
    context = _context(benchmark, metrics)
    return Run(document.source(NAME, tool), figures, context=context, notes=tuple(notes))


def _metrics(metrics: Fields) -> Iterator[Metric]:
    for key, name, factor in _FIGURES:
        part = metrics.down(key, "successful")
        if part is not None:
            percentiles = part.inside("percentiles") or Fields({}, part.where)
            merged = Fields({**percentiles.values, **part.values}, part.where, part.path)
            yield from merged.metrics(name, _PLAIN | _PERCENTILES, factor)
    for key, name in _RATES:
        part = metrics.down(key, "successful")
        if part is not None:
            yield from part.metrics(name, {"mean": "mean"})


def _context(benchmark: Fields, metrics: Fields) -> dict[str, int | float | str]:
    strategy = benchmark.down("config", "strategy")
    return stated(
        {
            "workload.concurrency": strategy.positive_count("streams") if strategy else None,
            "workload.input": _mean(metrics, "prompt_token_count"),
            "workload.output": _mean(metrics, "output_token_count"),
        }
    )


def _mean(metrics: Fields, key: str) -> int | None:
    part = metrics.down(key, "successful")
    value = part.maybe("mean") if part else None
    return round(value) if value is not None and value >= 1 else None


register(Importer(NAME, "GuideLLM", "json", _claims, _read))
