"""Which serving measurements are of the same work, and how well predictions order them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.calibrate.ranking import Choice, Option, Order, choice, order
from planner.calibrate.silicon_formats import MODELS
from planner.calibrate.silicon_run import Predicted

_ONE_ARCHITECTURE = {"deepseek-v3": "deepseek-r1"}


@dataclass(frozen=True)
class Ranking:
    """Orders over the rows of a set; duplicates, which say nothing twice, are left out."""

    rows: int
    engines: Order
    """TPOT of two engines: the same model, system, precision, lengths, users and GPUs."""
    tensor: Order
    """TPOT of two tensor-parallel degrees, all else the same."""
    tpot: Choice
    """TPOT of all ways to serve a model with the same lengths and users."""
    per_gpu: Choice
    """Of the same, GPU seconds per output token."""


def ranking(rows: Sequence[Predicted]) -> Ranking:
    """How well the predicted figures of some rows order the measured ones."""
    kept = [each for each in rows if each.tpot and "duplicate" not in each.flagged.flags]
    return Ranking(
        len(kept),
        order(_engines(kept)),
        order(_degrees(kept)),
        choice(_ways(kept, per_gpu=False)),
        choice(_ways(kept, per_gpu=True)),
    )


def _engines(rows: Sequence[Predicted]) -> Iterator[Option]:
    for each in rows:
        row = each.flagged.row
        work = (*_work(each), row.system, row.gemm, each.flagged.split.gpus)
        yield _option(work, row.engine, each)


def _degrees(rows: Sequence[Predicted]) -> Iterator[Option]:
    for each in rows:
        row, split = each.flagged.row, each.flagged.split
        if split.data == 1:
            engine = (row.family, row.system, row.engine, row.version, row.gemm, split.expert > 1)
            yield _option((*_work(each), *engine), split.tensor, each)


def _ways(rows: Sequence[Predicted], *, per_gpu: bool) -> Iterator[Option]:
    for each in rows:
        row = each.flagged.row
        way = (row.system, row.engine, row.version, row.gemm, each.flagged.split)
        found = _option(_work(each), way, each)
        yield _gpu_seconds(found, each) if per_gpu else found


def _work(each: Predicted) -> tuple[object, ...]:
    row = each.flagged.row
    model = MODELS[row.model]
    return (_ONE_ARCHITECTURE.get(model, model), row.input, row.output, row.concurrency)


def _option(work: object, kind: object, each: Predicted) -> Option:
    assert each.tpot is not None
    return Option(work, kind, each.tpot.measured_s, each.tpot.predicted_s)


def _gpu_seconds(option: Option, each: Predicted) -> Option:
    """GPU seconds of an output token: GPUs × latency / (users × output)."""
    assert each.tpot is not None
    assert each.ttft is not None
    row = each.flagged.row
    share = each.flagged.split.gpus / (row.concurrency * row.output)
    later = row.output - 1
    return Option(
        option.work,
        option.kind,
        share * (each.ttft.measured_s + later * each.tpot.measured_s),
        share * (each.ttft.predicted_s + later * each.tpot.predicted_s),
    )
