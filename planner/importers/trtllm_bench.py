"""``trtllm-bench`` reports: the only ones that name GPU, number format and parallelism.

Keys as in tensorrt_llm/bench/dataclasses/reporting.py: milliseconds and tokens a second; output
counts include the first token; TTFT and TPOT only with ``--streaming``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.importers.document import Document
from planner.importers.dtype_words import dtype
from planner.importers.fields import Fields, present
from planner.importers.lengths import stated
from planner.importers.registry import Importer, register
from planner.plan.runs import Metric, MetricName, Run, Statistic

NAME = "trtllm_bench"
_STATISTICS: Mapping[Statistic, str] = {
    "mean": "average",
    "median": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "min": "minimum",
    "max": "maximum",
}


def _claims(document: Document) -> bool:
    keys = document.records[0].values.keys() if document.records else set()
    return {"engine", "performance", "request_info"} <= keys


def _read(document: Document) -> tuple[Run, ...]:
    return tuple(_run(document, record) for record in document.records)


def _run(document: Document, record: Fields) -> Run:
    engine, world = _part(record, "engine"), _part(record, "world_info")
    requests = _part(record, "request_info")
    if requests.count("num_requests") == 0:
        raise requests.refusal("num_requests", "is 0: every request failed")
    notes: list[str] = []
    metrics = tuple(_metrics(record))
    if not metrics:
        raise record.refusal("performance", "holds no figure")
    if "streaming_metrics" not in record:
        notes.append("without --streaming the report has no ttft and no tpot")
    version = engine.text("version")
    return Run(
        document.source(NAME, f"trtllm-bench {version or ''}".strip()),
        metrics,
        context={
            **_engine(engine, notes),
            **_world(world),
            **_workload(requests, notes),
            **stated({"gpu": _part(record, "machine").text("name")}),
        },
        notes=tuple(notes),
    )


def _part(record: Fields, key: str) -> Fields:
    return record.inside(key) or Fields({}, record.where, f"{key}.")


def _metrics(record: Fields) -> Iterator[Metric]:
    performance, streaming = _part(record, "performance"), _part(record, "streaming_metrics")
    yield from _times(
        performance, "latency", "request_latency_percentiles_ms", "avg_request_latency_ms"
    )
    yield from _times(streaming, "ttft", "ttft_percentiles", "avg_ttft_ms")
    yield from _times(streaming, "tpot", "tpot_percentiles", "avg_tpot_ms")
    yield from present(
        [
            performance.metric("output_throughput", "mean", "system_output_throughput_tok_s"),
            performance.metric("total_throughput", "mean", "system_total_throughput_tok_s"),
        ]
    )


def _times(part: Fields, name: MetricName, percentiles: str, mean: str) -> Iterator[Metric]:
    inside = part.inside(percentiles)
    if inside is None:
        yield from present([part.metric(name, "mean", mean, 1e-3)])
        return
    yield from inside.metrics(name, _STATISTICS, 1e-3)


def _engine(engine: Fields, notes: list[str]) -> dict[str, int | float | str]:
    quantization = engine.text("quantization")
    weights = dtype(quantization) if quantization else dtype(engine.text("dtype"))
    if quantization and not weights:
        notes.append(f"weights are in {quantization}, which has no name here")
    return stated(
        {
            "model": engine.text("model"),
            "backend.name": "tensorrt-llm",
            "backend.version": engine.text("version"),
            "precision.weights": weights,
            "precision.kv_cache": dtype(engine.text("kv_cache_dtype")),
        }
    )


def _world(world: Fields) -> dict[str, int | float | str]:
    return stated(
        {
            "parallel.tensor": world.positive_count("tp_size"),
            "parallel.pipeline": world.positive_count("pp_size"),
            "parallel.expert": world.positive_count("ep_size"),
        }
    )


def _workload(requests: Fields, notes: list[str]) -> dict[str, int | float | str]:
    found: dict[str, int | float | str] = {}
    for key, path in (
        ("avg_num_concurrent_requests", "workload.concurrency"),
        ("avg_input_length", "workload.input"),
        ("avg_output_length", "workload.output"),
    ):
        value = requests.maybe(key)
        if value is None or value < 1:
            continue
        if not value.is_integer():
            notes.append(f"{key} is {value:g}, a mean; {path} is that rounded")
        found[path] = round(value)
    return found


register(Importer(NAME, "trtllm-bench", "json", _claims, _read))
