"""``vllm bench throughput``: tokens a second over a whole batch of requests.

Keys as in vllm/benchmarks/throughput.py: ``tokens_per_second`` counts prompt and output alike.
"""

from __future__ import annotations

from planner.importers.document import Document
from planner.importers.fields import Fields, present
from planner.importers.registry import Importer, register
from planner.plan.runs import Run

NAME = "vllm_bench_throughput"
_KEYS = {"elapsed_time", "num_requests", "total_num_tokens", "tokens_per_second"}
_SLACK = 0.02


def _claims(document: Document) -> bool:
    return bool(document.records) and document.records[0].values.keys() >= _KEYS


def _read(document: Document) -> tuple[Run, ...]:
    return tuple(_run(document, record) for record in document.records)


def _run(document: Document, record: Fields) -> Run:
    record.positive_count("num_requests")
    rate = record.number("tokens_per_second")
    seconds, tokens = record.number("elapsed_time"), record.number("total_num_tokens")
    if seconds <= 0 or abs(tokens / seconds - rate) > _SLACK * abs(rate):
        raise record.refusal("tokens_per_second", "is not total_num_tokens / elapsed_time")
    metrics = present([record.metric("total_throughput", "mean", "tokens_per_second")])
    note = "tokens_per_second counts prompt tokens too; the output rate is not in the file"
    return Run(document.source(NAME, "vllm bench throughput"), tuple(metrics), notes=(note,))


register(Importer(NAME, "vllm bench throughput", "json", _claims, _read))
