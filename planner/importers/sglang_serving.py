"""SGLang ``bench_serving``: one object per line.

Keys as in sglang/bench_serving.py: milliseconds, TPOT as (end to end − TTFT) / (output − 1),
``request_rate`` may be a bare Infinity. ``random_range_ratio`` 0 draws lengths from 1 to the
stated one, so lengths come from the token totals. Files of 2024 have medians only.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.importers.document import Document
from planner.importers.dtype_words import dtype
from planner.importers.fields import Fields, present
from planner.importers.lengths import completed, mean_length, stated
from planner.importers.registry import Importer, register
from planner.importers.vllm_serve import serving_times
from planner.plan.runs import Metric, MetricName, Run

NAME = "sglang_bench_serving"
_WORDS: Mapping[str, MetricName] = {
    "ttft": "ttft",
    "tpot": "tpot",
    "itl": "itl",
    "e2e_latency": "latency",
}
_MARKS = {"random_range_ratio", "sharegpt_output_len", "total_output_tokens_retokenized"}


def _claims(document: Document) -> bool:
    keys = document.records[0].values.keys() if document.records else set()
    return "completed" in keys and bool(_MARKS & keys)


def _read(document: Document) -> tuple[Run, ...]:
    return tuple(_run(document, record) for record in document.records)


def _run(document: Document, record: Fields) -> Run:
    notes: list[str] = []
    done = completed(record, "completed", None, notes)
    times = tuple(serving_times(record, _WORDS, done, notes))
    rates = tuple(
        present([record.metric("output_throughput", "mean", "output_throughput"), _total(record)])
    )
    if not times and not rates:
        raise record.refusal("output_throughput", "and every latency are missing")
    server = record.inside("server_info") or Fields({}, record.where)
    version = server.text("version")
    return Run(
        document.source(NAME, f"sglang.bench_serving {version or ''}".strip()),
        (*times, *rates),
        context=_context(record, server, done, notes),
        notes=tuple(notes),
    )


def _total(record: Fields) -> Metric | None:
    """As the file says, else (prompt + output tokens) / duration."""
    stated_rate = record.metric("total_throughput", "mean", "total_throughput")
    seconds = record.maybe("duration")
    if stated_rate is not None or seconds is None:
        return stated_rate
    if seconds <= 0:
        raise record.refusal("duration", f"is {seconds:g} s")
    tokens = (record.count("total_input_tokens") or 0, record.count("total_output_tokens") or 0)
    if not all(tokens):
        return None
    return record.checked(Metric("total_throughput", "mean", sum(tokens) / seconds), "duration")


def _context(
    record: Fields, server: Fields, done: int, notes: list[str]
) -> dict[str, int | float | str]:
    accepted = record.maybe("accept_length")
    if accepted is not None and accepted > 1:
        notes.append(f"speculative decoding: {accepted:g} tokens a step; tpot × that is a step")
    engine = record.text("backend") or ""
    sglang = engine.startswith("sglang")
    return stated(
        {
            "model": server.text("model_path") or record.text("model_id"),
            "backend.name": "sglang" if sglang else None,
            "backend.version": server.text("version") if sglang else None,
            "parallel.tensor": server.positive_count("tp_size"),
            "parallel.pipeline": server.positive_count("pp_size"),
            "parallel.data": server.positive_count("dp_size"),
            "precision.kv_cache": dtype(server.text("kv_cache_dtype")),
            "memory.kv_tokens": server.positive_count("max_total_num_tokens"),
            "workload.concurrency": record.positive_count("max_concurrency"),
            "workload.input": mean_length(record, "total_input_tokens", done, "prompt", notes),
            "workload.output": mean_length(record, "total_output_tokens", done, "output", notes),
            "speculation.acceptance_length": accepted if accepted and accepted > 1 else None,
        }
    )


register(Importer(NAME, "SGLang bench_serving", "json", _claims, _read))
