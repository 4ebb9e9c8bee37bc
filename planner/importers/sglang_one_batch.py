"""SGLang ``bench_one_batch`` and ``bench_one_batch_server``, which share a default file name.

Keys as in sglang/bench_one_batch.py and bench_one_batch_server.py: seconds, one static batch a
line. The server's ``output_throughput`` leaves the prefill out, so it is worked out anew here as
batch × output / latency.
"""

from __future__ import annotations

from planner.importers.document import Document
from planner.importers.fields import Fields, present
from planner.importers.registry import Importer, register
from planner.plan.runs import Metric, Run

NAME = "sglang_bench_one_batch"
SERVER = "sglang_bench_one_batch_server"
_SIZES = ("batch_size", "input_len", "output_len")


def _claims(document: Document) -> bool:
    keys = document.records[0].values.keys() if document.records else set()
    return keys >= set(_SIZES) and bool(keys & {"total_latency", "latency"})


def _read(document: Document) -> tuple[Run, ...]:
    return tuple(_run(document, record) for record in document.records)


def _run(document: Document, record: Fields) -> Run:
    sizes = [record.positive_count(key) for key in _SIZES]
    if None in sizes:
        raise record.refusal(_SIZES[sizes.index(None)], "is missing")
    context = {
        "backend.name": "sglang",
        **dict(zip(("workload.batch", "workload.input", "workload.output"), sizes, strict=True)),
    }
    batch, prompt, output = (size or 0 for size in sizes)
    if "total_latency" in record:
        note = (
            "static batch without a scheduler; step is the median over contexts that grow from "
            f"{prompt} to {prompt + output} tokens"
        )
        source = document.source(NAME, "sglang.bench_one_batch")
        return Run(source, _engine(record, output), {}, context, (), (note,))
    metrics = _server(record, batch * output)
    note = "output_throughput is over the whole latency; the file's own leaves the prefill out"
    return Run(
        document.source(SERVER, "sglang.bench_one_batch_server"), metrics, {}, context, (), (note,)
    )


def _engine(record: Fields, output: int) -> tuple[Metric, ...]:
    latency = record.number("total_latency")
    prefill = record.maybe("prefill_latency")
    found = [
        record.metric("step", "median", "median_decode_latency"),
        record.metric("ttft", "mean", "prefill_latency"),
        record.metric("latency", "mean", "total_latency"),
        record.metric("total_throughput", "mean", "overall_throughput"),
    ]
    if prefill is not None and output > 1:
        gap = (latency - prefill) / (output - 1)
        found.append(record.checked(Metric("tpot", "mean", gap), "total_latency − prefill_latency"))
    return tuple(present(found))


def _server(record: Fields, tokens: int) -> tuple[Metric, ...]:
    record.number("latency")
    latency = record.metric("latency", "mean", "latency")
    rate = Metric("output_throughput", "mean", tokens / latency.value) if latency else None
    return tuple(
        present(
            [
                latency,
                record.checked(rate, "latency") if rate else None,
                record.metric("total_throughput", "mean", "overall_throughput"),
            ]
        )
    )


register(Importer(NAME, "SGLang bench_one_batch", "json", _claims, _read))
