"""``vllm bench latency``: seconds of a whole static batch, prefill included.

Keys as in vllm/benchmarks/latency.py. The file says neither batch, lengths, model nor GPU.
"""

from __future__ import annotations

from dataclasses import replace

from planner.errors import Where
from planner.importers.document import Document
from planner.importers.fields import Fields
from planner.importers.refusal import ImportRefused
from planner.importers.registry import Importer, register
from planner.plan.runs import Metric, Run

NAME = "vllm_bench_latency"
_NOTE = "latency is of the whole batch, prefill included; two output lengths give a step"


def step_between(longer: Run, shorter: Run, outputs: int) -> Metric:
    """The decode step from two runs that differ by ``outputs`` generated tokens a request.

    Prefill and start cancel: (latency − latency) / tokens, in seconds. Raises ImportRefused when
    a run has no mean latency or the longer one took no longer.
    """
    where = Where("two runs")
    means = [
        metric.value
        for run in (longer, shorter)
        for metric in run.metrics
        if (metric.name, metric.statistic) == ("latency", "mean")
    ]
    if len(means) != 2 or outputs < 1:  # noqa: PLR2004 - two runs
        raise ImportRefused(where, "a step needs two mean latencies and a difference in tokens")
    if means[0] <= means[1]:
        raise ImportRefused(
            where, "more tokens took no longer", "were the two output lengths exchanged?"
        )
    return Metric("step", "mean", (means[0] - means[1]) / outputs)


def _claims(document: Document) -> bool:
    first = document.records[0] if document.records else None
    return first is not None and {"avg_latency", "latencies", "percentiles"} <= first.values.keys()


def _read(document: Document) -> tuple[Run, ...]:
    return tuple(_run(document, record) for record in document.records)


def _run(document: Document, record: Fields) -> Run:
    record.number("avg_latency")
    mean = list(record.metrics("latency", {"mean": "avg_latency"}))
    samples = record.numbers("latencies")
    for index, sample in enumerate(samples):
        record.checked(replace(mean[0], value=sample), f"latencies[{index}]")
    percentiles = record.inside("percentiles") or Fields({}, record.where)
    others = percentiles.metrics("latency", {"median": "50", "p90": "90", "p95": "95", "p99": "99"})
    return Run(
        document.source(NAME, "vllm bench latency"),
        (*mean, *others),
        {"latency": samples} if samples else {},
        {"backend.name": "vllm"},
        notes=(_NOTE,),
    )


register(Importer(NAME, "vllm bench latency", "json", _claims, _read))
