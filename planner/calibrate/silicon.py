"""Reads the public serving measurements that the aiconfigurator-core wheel carries.

`silicon_sample.csv` holds runs of servers: a model, a system, an engine with its version, what the
labels say of precision and parallelism, lengths, users, TTFT and TPOT. It is test data: nothing
here or elsewhere is fitted to it. Who looks for a mistake looks at the even half alone; the odd
half is for figures.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from planner.calibrate import aiconfigurator
from planner.errors import UsageError

FILE = "silicon_sample.csv"
Half = Literal["even", "odd"]
HALVES: tuple[Half, ...] = ("even", "odd")
INFERENCEX, GENERATED, OTHER = "InferenceX", "aiconfigurator", "other"
COLUMNS = (
    "id",
    "silicon_data_source",
    "backend",
    "backend_version",
    "model_path",
    "system",
    "precision",
    "mode",
    "isl",
    "osl",
    "gemm_quant_mode",
    "moe_quant_mode",
    "batch_size",
    "tp_size",
    "pp_size",
    "attention_dp_size",
    "moe_tp_size",
    "moe_ep_size",
    "silicon_ttft_ms",
    "silicon_tpot_ms",
)
"""Those that are read; the file has more, of disaggregated rows."""

_CONCURRENCY = re.compile(r"silicon_concurrency=(\d+)")
_MEASURED = re.compile(r"measured=(\d{4}-\d{2}-\d{2})")
_SPLIT_IN_ID = re.compile(r"_tp(\d+)(?:_\d)?_ep(\d+)(?:_|$)")
_GENERATED = "aic-auto-"
_INFERENCEX = re.compile(r"db-dump/|source_file=(?:\d{4}-\d{2}-\d{2}|[^/;]*)\.csv;")


@dataclass(frozen=True)
class Split:
    """How a label says that GPUs share the work."""

    tensor: int
    data: int
    """Ranks of data-parallel attention."""
    moe_tensor: int
    expert: int

    @property
    def gpus(self) -> int:
        """GPUs that attention takes."""
        return self.tensor * self.data


@dataclass(frozen=True)
class SiliconRow:
    """One aggregated run as the file has it: figures parsed, labels as they are."""

    id: str
    source: str
    engine: str
    """As the file spells it, as are version, model and system."""
    version: str
    model: str
    system: str
    precision: str
    gemm: str
    moe: str
    input: int
    output: int
    batch: int
    """Users; of each rank where attention is data-parallel."""
    split: Split
    ttft_ms: float
    tpot_ms: float

    @property
    def half(self) -> Half:
        """By the SHA-1 of the id: even or odd."""
        return "odd" if hashlib.sha1(self.id.encode()).digest()[-1] % 2 else "even"  # noqa: S324

    @property
    def family(self) -> str:
        """Whose run it is: of InferenceX (InferenceMAX), of aiconfigurator's own automation, whose
        configurations its generator writes, or another's.
        """
        if _INFERENCEX.match(self.source):
            return INFERENCEX
        return GENERATED if _GENERATED in self.source else OTHER

    @property
    def measured(self) -> str | None:
        """The day, as in 2025-10-29."""
        found = _MEASURED.search(self.source)
        return found[1] if found else None

    @property
    def stated_concurrency(self) -> int | None:
        """Users as the source states them, of all servers."""
        found = _CONCURRENCY.search(self.source)
        return int(found[1]) if found else None

    @property
    def concurrency(self) -> int:
        """Users of one server over all its ranks.

        A stated number that is some times as many is of several servers behind one router; else
        it counts, not the batch.
        """
        users = self.batch * self.split.data
        stated = self.stated_concurrency or users
        return users if stated % users == 0 else stated

    @property
    def split_in_id(self) -> tuple[int, int] | None:
        """GPUs and expert-parallel ranks as the id spells them, where it does."""
        found = _SPLIT_IN_ID.search(self.id)
        return (int(found[1]), int(found[2])) if found else None


def path() -> Path:
    """Where the installed wheel has the file. Raises UsageError where there is none."""
    found = aiconfigurator.root().parent / FILE
    if not found.is_file():
        message = f"{aiconfigurator.PACKAGE} {aiconfigurator.installed_version()} has no {FILE}"
        raise UsageError(message, aiconfigurator.INSTALL)
    return found


def read(file: Path) -> tuple[SiliconRow, ...]:
    """Its aggregated rows (one pool of GPUs for prefill and decode), in the file's order.

    Raises UsageError where a column is missing or a figure is no number.
    """
    with file.open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise UsageError(f"{file} has no column {', '.join(missing)}")
        return tuple(
            _row(cells, f"{file}:{reader.line_num}") for cells in reader if cells["mode"] == "agg"
        )


def _row(cells: Mapping[str, str], place: str) -> SiliconRow:
    try:
        return SiliconRow(
            cells["id"],
            cells["silicon_data_source"],
            cells["backend"],
            cells["backend_version"],
            cells["model_path"],
            cells["system"],
            cells["precision"],
            cells["gemm_quant_mode"],
            cells["moe_quant_mode"],
            int(cells["isl"]),
            int(cells["osl"]),
            int(cells["batch_size"]),
            _split(cells),
            float(cells["silicon_ttft_ms"]),
            float(cells["silicon_tpot_ms"]),
        )
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from None


def _split(cells: Mapping[str, str]) -> Split:
    """Sizes; nothing, and nought, say that there is no such split."""
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    return Split(*(int(cells[name] or 1) or 1 for name in names))
