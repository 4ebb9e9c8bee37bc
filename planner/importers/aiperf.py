"""aiperf exports: the summary as JSON, and single requests as JSON lines.

Keys as in aiperf 0.13 (export schema 1.4). A cancelled run is refused: what it measured last is
cut off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from planner.importers import labelled
from planner.importers.distribution import summary
from planner.importers.document import Document
from planner.importers.fields import Fields
from planner.importers.genai_perf import is_summary
from planner.importers.lengths import stated
from planner.importers.refusal import ImportRefused
from planner.importers.registry import Importer, register
from planner.plan.runs import UNITS, Metric, MetricName, Run

NAME = "aiperf"
RECORDS = "aiperf_records"
_MARKS = {"aiperf_version", "was_cancelled"}
_AGAIN = "run the benchmark to its end"


def _claims(document: Document) -> bool:
    return is_summary(document) and bool(_MARKS & document.records[0].values.keys())


def _read(document: Document) -> tuple[Run, ...]:
    record = document.only
    if record.flag("was_cancelled"):
        raise record.refusal("was_cancelled", "is true", _AGAIN)
    if record.flag("is_complete") is False:
        raise record.refusal("is_complete", "is false", _AGAIN)
    labelled.refuse_without_requests(record)
    notes = [labelled.NOTE]
    failures = record.array("error_summary")
    if failures:
        notes.append(f"{len(failures)} kinds of error occurred; figures are of what succeeded")
    metrics = tuple(labelled.metrics(record))
    version = record.text("aiperf_version")
    source = document.source(NAME, f"aiperf {version or ''}".strip())
    context = {**_context(record), **labelled.lengths(record)}
    return (Run(source, metrics, context=context, notes=tuple(notes)),)


def _context(record: Fields) -> dict[str, int | float | str]:
    config = record.inside("input_config")
    endpoint = config.inside("endpoint") if config else None
    names = endpoint.array("model_names") if endpoint else []
    load = config.inside("loadgen") if config else None
    return stated(
        {
            "model": Fields({"model_names": names[0]}, record.where).text("model_names")
            if len(names) == 1
            else None,
            "workload.concurrency": load.positive_count("concurrency") if load else None,
        }
    )


def _claims_records(document: Document) -> bool:
    first = document.records[0].values if document.records else {}
    metrics = first.get("metrics")
    return (
        "metadata" in first
        and isinstance(metrics, dict)
        and bool(metrics.keys() & labelled.FIGURES)
    )


def _read_records(document: Document) -> tuple[Run, ...]:
    kept = [record for record in document.records if _counts(record)]
    if not kept:
        raise ImportRefused(document.where, "no request succeeded", "look at the server's log")
    notes = [labelled.NOTE]
    if len(kept) < len(document.records):
        left = len(document.records) - len(kept)
        notes.append(f"{left} requests were warm-up, cancelled or failed, and are left out")
    samples = _samples(kept)
    if not samples:
        raise ImportRefused(document.where, "the requests hold no latency")
    figures = (metric for name, values in samples.items() for metric in summary(name, values))
    metrics = [metric for metric in figures if metric.value > 0]  # 0 would read as not measured
    run = Run(
        document.source(RECORDS, "aiperf"),
        (*metrics, *_throughput(kept)),
        {str(name): tuple(values) for name, values in samples.items()},
        _mean_lengths(kept),
        notes=tuple(notes),
    )
    return (run,)


def _counts(record: Fields) -> bool:
    about = record.inside("metadata")
    if about is None:
        raise record.refusal("metadata", "is missing")
    warm = about.text("benchmark_phase") == "warmup"
    return record.values.get("error") is None and not warm and not about.flag("was_cancelled")


def _samples(records: list[Fields]) -> dict[MetricName, list[float]]:
    samples: dict[MetricName, list[float]] = defaultdict(list)
    for record in records:
        for key, name in labelled.FIGURES.items():
            figure = record.down("metrics", key)
            if figure is not None and UNITS[name] == "s":
                samples[name] += _times(figure, name)
    return {name: times for name, times in samples.items() if times}


def _times(figure: Fields, name: MetricName) -> list[float]:
    """One time, or the gaps of a request: of those some may be 0, where chunks came together."""
    factor = labelled.factor(figure, name)
    if not isinstance(figure.values.get("value"), list):
        figure.number("value")
        metric = figure.metric(name, "mean", "value", factor)
        return [metric.value] if metric else []
    gaps = [gap * factor for gap in figure.numbers("value")]
    if gaps:
        figure.checked(Metric(name, "mean", sum(gaps) / len(gaps)), "value")
    if min(gaps, default=0.0) < 0:
        raise figure.refusal("value", "holds a negative time")
    return gaps


def _throughput(records: list[Fields]) -> Iterator[Metric]:
    """Output tokens over the time from the first request's start to the last one's end."""
    tokens = [_tokens(record, "output_sequence_length") for record in records]
    times = [record.inside("metadata") or record for record in records]
    starts = [time.maybe("request_start_ns") for time in times]
    ends = [time.maybe("request_end_ns") for time in times]
    made = [count for count in tokens if count is not None]
    first = [start for start in starts if start is not None]
    last = [end for end in ends if end is not None]
    if not len(made) == len(first) == len(last) == len(records):
        return
    seconds = (max(last) - min(first)) * 1e-9
    if seconds <= 0:
        raise times[0].refusal("request_end_ns", "lies before request_start_ns")
    rate = Metric("output_throughput", "mean", sum(made) / seconds)
    yield records[0].checked(rate, "metrics.output_sequence_length")


def _tokens(record: Fields, key: str) -> int | None:
    figure = record.down("metrics", key)
    return figure.count("value") if figure else None


def _mean_lengths(records: list[Fields]) -> dict[str, int | float | str]:
    found: dict[str, int | float | str | None] = {}
    for key, path in (
        ("input_sequence_length", "workload.input"),
        ("output_sequence_length", "workload.output"),
    ):
        known = [tokens for record in records if (tokens := _tokens(record, key))]
        found[path] = round(sum(known) / len(known)) if known else None
    return stated(found)


register(Importer(NAME, "aiperf", "json", _claims, _read))
register(Importer(RECORDS, "aiperf JSON lines", "json", _claims_records, _read_records))
