"""A small file of serving measurements with the columns of the real one; every row is made up."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from planner.calibrate import silicon

INFERENCEX = "source_file=2026-04-06.csv; model=M; silicon_concurrency={users}; measured={day}"
ELSEWHERE = "source_file=/data/h100_sxm/runs.csv; silicon_concurrency={users}"
GENERATED = "source_file=/home/u/aic-auto-gap-analysis/data/M.csv; silicon_concurrency={users}"
SAMPLE: dict[str, Any] = {
    "id": "r",
    "silicon_data_source": ELSEWHERE,
    "backend": "vllm",
    "backend_version": "0.19.0",
    "model_path": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h100_sxm",
    "precision": "",
    "mode": "agg",
    "isl": 1024,
    "osl": 128,
    "gemm_quant_mode": "",
    "moe_quant_mode": "",
    "batch_size": 8,
    "tp_size": 1,
    "pp_size": 1,
    "attention_dp_size": "",
    "moe_tp_size": 1,
    "moe_ep_size": 1,
    "silicon_ttft_ms": 100.0,
    "silicon_tpot_ms": 10.0,
}


def cells(*, users: int | None = None, day: str = "2026-02-01", **given: Any) -> dict[str, Any]:
    """The cells of one row. ``users`` are those that its source states, by default its batch."""
    row = {**SAMPLE, **given}
    stated = row["batch_size"] if users is None else users
    source = row["silicon_data_source"].format(users=stated, day=day)
    return {**row, "silicon_data_source": source}


def text(*rows: dict[str, Any]) -> str:
    """The file of some rows."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(SAMPLE), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def read(folder: Path, *rows: dict[str, Any]) -> tuple[silicon.SiliconRow, ...]:
    """The rows as they are read from a file."""
    file = folder / silicon.FILE
    file.write_text(text(*rows), encoding="utf-8")
    return silicon.read(file)
