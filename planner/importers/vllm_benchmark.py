"""The results of backprop-ai/vllm-benchmark: an array with one object per concurrency.

Seconds; ``tokens_per_second`` is of one request, so the throughput is worked out as output tokens
over total time.
"""

from __future__ import annotations

from planner.importers.document import Document
from planner.importers.fields import Fields
from planner.importers.lengths import completed, stated
from planner.importers.registry import Importer, register
from planner.plan.runs import Metric, Run, Statistic

NAME = "vllm_benchmark"
_KEYS = {"successful_requests", "concurrency", "total_time", "latency", "time_to_first_token"}
_STATISTICS: dict[Statistic, str] = {"mean": "average", "median": "p50", "p95": "p95", "p99": "p99"}
_NOTE = "tokens_per_second is of one request; output_throughput is output tokens / total time"


def _claims(document: Document) -> bool:
    return bool(document.records) and document.records[0].values.keys() >= _KEYS


def _read(document: Document) -> tuple[Run, ...]:
    return tuple(_run(document, record) for record in document.records)


def _run(document: Document, record: Fields) -> Run:
    notes = [_NOTE]
    started = record.count("total_requests") or 0
    done = completed(record, "successful_requests", None, notes)
    if started > done:
        notes.append(f"requests failed: {started - done}; figures are of the {done} that succeeded")
    seconds = record.number("total_time")
    if seconds <= 0:
        raise record.refusal("total_time", f"is {seconds:g} s")
    rate = Metric("output_throughput", "mean", record.number("total_output_tokens") / seconds)
    latency, first = record.inside("latency"), record.inside("time_to_first_token")
    return Run(
        document.source(NAME, "backprop-ai vllm-benchmark"),
        (
            *(latency.metrics("latency", _STATISTICS) if latency else ()),
            *(first.metrics("ttft", _STATISTICS) if first else ()),
            record.checked(rate, "total_output_tokens"),
        ),
        context=stated({"workload.concurrency": record.positive_count("concurrency")}),
        notes=tuple(notes),
    )


register(Importer(NAME, "backprop-ai vllm-benchmark", "json", _claims, _read))
