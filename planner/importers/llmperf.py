"""llmperf summaries: flattened keys, seconds.

Keys as in llmperf's token_benchmark_ray.py. Its inter-token latency counts the first token's wait
too, so the mean is worked out anew as (end to end − TTFT) / (tokens − 1); its percentiles cannot
be converted and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.importers.document import Document
from planner.importers.fields import Fields, present
from planner.importers.lengths import completed, stated
from planner.importers.registry import Importer, register
from planner.plan.runs import Metric, MetricName, Run, Statistic

NAME = "llmperf"
_MARK = "results_inter_token_latency_s_mean"
_STATISTICS: dict[Statistic, str] = {
    "mean": "mean",
    "median": "quantiles_p50",
    "p90": "quantiles_p90",
    "p95": "quantiles_p95",
    "p99": "quantiles_p99",
    "min": "min",
    "max": "max",
}


def _claims(document: Document) -> bool:
    return bool(document.records) and any(
        key in document.records[0] for key in (_MARK, "results_num_completed_requests")
    )


def _read(document: Document) -> tuple[Run, ...]:
    record = document.only
    notes = [
        "tpot is (end to end − ttft) / (tokens − 1) of the means",
        "the tool's inter-token latency counts the first token's wait; percentiles are left out",
        "one Llama tokenizer counted the tokens, whatever the model",
    ]
    completed(
        record, "results_num_completed_requests", record.count("results_number_errors"), notes
    )
    metrics = (
        *_times(record, "ttft", "results_ttft_s"),
        *_times(record, "latency", "results_end_to_end_latency_s"),
        *_rate(record),
    )
    means = {metric.name: metric.value for metric in metrics if metric.statistic == "mean"}
    tpot = _tpot(record, means.get("latency"), means.get("ttft"), notes)
    if not metrics:
        raise record.refusal("results_ttft_s_mean", "and every other figure are missing")
    run = Run(
        document.source(NAME, "llmperf"),
        (*metrics, *tpot),
        context=_context(record),
        notes=tuple(notes),
    )
    return (run,)


def _times(record: Fields, name: MetricName, key: str) -> Iterator[Metric]:
    keys: dict[Statistic, str] = {word: f"{key}_{end}" for word, end in _STATISTICS.items()}
    return record.metrics(name, keys)


def _rate(record: Fields) -> Iterator[Metric]:
    key = "results_mean_output_throughput_token_per_s"
    return present([record.metric("output_throughput", "mean", key)])


def _tpot(
    record: Fields, latency: float | None, ttft: float | None, notes: list[str]
) -> tuple[Metric, ...]:
    tokens = record.maybe("results_number_output_tokens_mean")
    if latency is None or ttft is None or tokens is None or tokens <= 1:
        return ()
    if record.maybe("results_number_output_tokens_stddev"):
        notes.append("output lengths vary, so tpot is a ratio of means")
    gap = Metric("tpot", "mean", (latency - ttft) / (tokens - 1))
    return (record.checked(gap, "results_end_to_end_latency_s_mean − results_ttft_s_mean"),)


def _context(record: Fields) -> dict[str, int | float | str]:
    return stated(
        {
            "model": record.text("model"),
            "workload.concurrency": record.positive_count("num_concurrent_requests"),
            "workload.input": _length(record, "results_number_input_tokens_mean"),
            "workload.output": _length(record, "results_number_output_tokens_mean"),
        }
    )


def _length(record: Fields, key: str) -> int | None:
    value = record.maybe(key)
    return round(value) if value is not None and value >= 1 else None


register(Importer(NAME, "llmperf", "json", _claims, _read))
