"""``vllm bench serve``: one object per run, appended ones on lines of their own.

Keys as in vllm/benchmarks/serve.py: milliseconds; TPOT is (end to end − TTFT) / (output − 1);
ITL is the gap between chunks; lists only with ``--save-detailed``; ``--metadata`` keys lie among
the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.importers.document import Document
from planner.importers.fields import Fields, present
from planner.importers.lengths import completed, mean_length, stated
from planner.importers.registry import Importer, register
from planner.plan.runs import Metric, MetricName, Run, Statistic

NAME = "vllm_bench_serve"
_WORDS: Mapping[str, MetricName] = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "latency"}
_STATISTICS: tuple[Statistic, ...] = ("mean", "median", "p90", "p95", "p99")
_FAILED = "the run is marked as failed"


def _claims(document: Document) -> bool:
    keys = document.records[0].values.keys() if document.records else set()
    timed = {f"{statistic}_{word}_ms" for statistic in ("mean", "median") for word in _WORDS}
    sglang = {"random_range_ratio", "sharegpt_output_len", "total_output_tokens_retokenized"}
    return bool(timed & keys) and not sglang & keys


def _read(document: Document) -> tuple[Run, ...]:
    return tuple(_run(document, record) for record in document.records)


def _run(document: Document, record: Fields) -> Run:
    if record.values.get("FAILED"):
        raise record.refusal("FAILED", f"is set: {_FAILED}", "run the benchmark again")
    notes: list[str] = []
    done = completed(record, "completed", record.count("failed"), notes)
    metrics = (*serving_times(record, _WORDS, done, notes), *_throughputs(record))
    if not metrics:
        raise record.refusal("output_throughput", "and every latency are missing")
    return Run(
        document.source(NAME, "vllm bench serve"),
        metrics,
        _samples(record),
        _context(record, done, notes),
        notes=tuple(notes),
    )


def serving_times(
    record: Fields, words: Mapping[str, MetricName], done: int, notes: list[str]
) -> Iterator[Metric]:
    """Latencies under keys such as ``p99_ttft_ms``; none between tokens where there was one."""
    single = record.count("total_output_tokens") == done
    if single:
        notes.append("one token a request: there is no time between tokens")
    for word, name in words.items():
        if not (single and name in ("tpot", "itl")):
            keys = {statistic: f"{statistic}_{word}_ms" for statistic in _STATISTICS}
            yield from record.metrics(name, keys, 1e-3)


def _throughputs(record: Fields) -> Iterator[Metric]:
    return present(
        [
            record.metric("output_throughput", "mean", "output_throughput"),
            record.metric("total_throughput", "mean", "total_token_throughput"),
        ]
    )


def _context(record: Fields, done: int, notes: list[str]) -> dict[str, int | float | str]:
    speculation = record.maybe("spec_decode_acceptance_length")
    if speculation is not None:
        if speculation < 1:
            raise record.refusal("spec_decode_acceptance_length", "is below 1 token a step")
        notes.append(
            f"speculative decoding: {speculation:g} tokens a step, so tpot × {speculation:g} is a "
            "step and itl counts steps"
        )
    engine = record.text("backend")
    return stated(
        {
            "model": record.text("model_id"),
            "gpu": record.text("gpu"),
            "backend.name": engine if engine in ("vllm", "sglang", "tensorrt-llm") else None,
            "parallel.tensor": record.positive_count("tp")
            or record.positive_count("tensor_parallel_size"),
            "workload.concurrency": record.positive_count("max_concurrency"),
            "workload.input": mean_length(record, "total_input_tokens", done, "prompt", notes),
            "workload.output": mean_length(record, "total_output_tokens", done, "output", notes),
            "speculation.acceptance_length": speculation,
        }
    )


def _samples(record: Fields) -> dict[str, tuple[float, ...]]:
    """Single requests of ``--save-detailed``, failed ones (no token) left out."""
    ttfts, gaps = record.numbers("ttfts"), record.arrays("itls")
    outputs = record.numbers("output_lens")
    if not ttfts or not gaps or not outputs:
        return {}
    if not len(ttfts) == len(gaps) == len(outputs):
        raise record.refusal("ttfts, itls and output_lens", "are of different lengths")
    kept = [row for row in zip(ttfts, gaps, outputs, strict=True) if row[0] > 0 and row[2] > 0]
    found = {
        "ttft": tuple(ttft for ttft, _, _ in kept),
        "itl": tuple(gap for _, row, _ in kept for gap in row),
        "tpot": tuple(sum(row) / (output - 1) for _, row, output in kept if output > 1 and row),
        "latency": tuple(ttft + sum(row) for ttft, row, _ in kept),
    }
    _refuse_impossible(record, found)
    return {name: values for name, values in found.items() if values}


def _refuse_impossible(record: Fields, samples: Mapping[str, tuple[float, ...]]) -> None:
    """A gap of nought can be: two tokens read at once. A negative or endless one cannot."""
    for name, values in samples.items():
        if values and not (min(values) >= 0 and max(values) < float("inf")):
            raise record.refusal(
                "itls" if name != "ttft" else "ttfts", f"give a {name} that cannot be"
            )


register(Importer(NAME, "vllm bench serve", "json", _claims, _read))
