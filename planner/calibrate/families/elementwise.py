"""Streaming kernels, from tables of static FP8 quantisation: a row in, the same row out.

No table of the wheel times norms or activations. A cast with a known scale does what they do to
memory, one pass over each token's row, and stands for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from planner.calibrate import aiconfigurator, lint
from planner.calibrate.aiconfigurator import Table
from planner.calibrate.registry import register
from planner.calibrate.types import Family, Pick, Rows
from planner.cost.kernels.elementwise import MODEL, STREAM, ElementwiseShape

_READ, _WRITTEN = 2, 1
"""Bytes per element: BF16 in, FP8 out."""


def tables(root: Path, pick: Pick) -> Iterator[Rows]:
    """The newest table of each GPU and engine.

    SGLang's file times a chain of PyTorch operators where SGLang itself runs one kernel, so it is
    rejected and vLLM's, the same kind of kernel, read in its stead.
    """
    wider = dataclasses.replace(pick, engines=frozenset())
    for table in aiconfigurator.newest(root, "quantize", "scale_matrix_perf", wider):
        rows = _rows(table)
        if table.engine == "sglang":
            rows = dataclasses.replace(rows, rejected="a chain of operators, not one kernel")
        if pick.wants(table.gpu, table.engine):
            yield rows
        if table.engine == "vllm" and pick.wants(table.gpu, "sglang"):
            yield dataclasses.replace(rows, engine="sglang")


def _rows(table: Table) -> Rows:
    columns = aiconfigurator.read(table, ["m", "k"])
    merged = lint.merge([columns["m"], columns["k"]], columns["time_s"])
    m = columns["m"][merged.first].astype(np.float64)
    k = columns["k"][merged.first].astype(np.float64)
    flags = {
        "non-positive": lint.non_positive(merged.time_s),
        "foreign": columns["foreign"][merged.first],
        **lint.neighbours(merged.time_s, lint.runs([k], m)),
    }
    return Rows(
        family="elementwise",
        gpu=table.gpu,
        engine=table.engine,
        version=table.version,
        variant=STREAM.name,
        source=table.source,
        shape=ElementwiseShape(_READ * m * k, _WRITTEN * m * k, m),
        time_s=merged.time_s,
        lint=flags,
        kept=lint.kept(flags, len(m)),
        merged=merged.repeats,
    )


register(Family("elementwise", MODEL, tables))
