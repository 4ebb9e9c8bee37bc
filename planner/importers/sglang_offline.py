"""SGLang ``bench_offline_throughput``: throughputs only, one object per line.

Keys as in sglang/bench_offline_throughput.py.
"""

from __future__ import annotations

from planner.importers.document import Document
from planner.importers.fields import Fields, present
from planner.importers.lengths import completed, mean_length, stated
from planner.importers.registry import Importer, register
from planner.plan.runs import Run

NAME = "sglang_bench_offline"
_KEYS = {"successful_requests", "total_latency", "output_throughput", "total_throughput"}


def _claims(document: Document) -> bool:
    return bool(document.records) and document.records[0].values.keys() >= _KEYS


def _read(document: Document) -> tuple[Run, ...]:
    return tuple(_run(document, record) for record in document.records)


def _run(document: Document, record: Fields) -> Run:
    notes: list[str] = []
    done = completed(record, "successful_requests", None, notes)
    record.number("output_throughput")
    metrics = present(
        [
            record.metric("output_throughput", "mean", "output_throughput"),
            record.metric("total_throughput", "mean", "total_throughput"),
        ]
    )
    context = stated(
        {
            "backend.name": "sglang",
            "workload.input": mean_length(record, "total_input_tokens", done, "prompt", notes),
            "workload.output": mean_length(record, "total_output_tokens", done, "output", notes),
        }
    )
    source = document.source(NAME, "sglang.bench_offline_throughput")
    return Run(source, tuple(metrics), context=context, notes=tuple(notes))


register(Importer(NAME, "SGLang bench_offline_throughput", "json", _claims, _read))
