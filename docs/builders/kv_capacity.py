"""Start-up logs that others have published, beside the KV cache that is planned for them today.

The rows of docs/measured/kv-capacity.csv; those that cannot be planned yet are in
docs/measured/kv-capacity-later.csv with what they need.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from builders.markup import code, table
from planner.plan.assemble import assemble
from planner.plan.memory_types import MemoryPlan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Question, ask

FOLDER = Path(__file__).resolve().parents[1] / "measured"
LOGS, LATER = FOLDER / "kv-capacity.csv", FOLDER / "kv-capacity-later.csv"
_GIB = 2**30


@dataclass(frozen=True)
class Log:
    """One start-up log and its plan."""

    cells: dict[str, str]
    memory: MemoryPlan

    @property
    def logged(self) -> float:
        """KV tokens, or GiB where the log has no tokens."""
        return float(self.cells["logged.kv_tokens"] or self.cells["logged.kv_gib"])

    @property
    def planned(self) -> float:
        """The same figure by the plan."""
        if self.cells["logged.kv_tokens"]:
            return self.memory.start.kv_tokens if self.memory.start else 0
        return self.memory.kv_available_bytes / _GIB

    @property
    def error(self) -> float | None:
        """Of the plan, relative; None where nothing was left for KV."""
        return self.planned / self.logged - 1 if self.logged > 0 else None

    @property
    def starts_right(self) -> bool:
        """Whether plan and log agree on the start."""
        planned = self.memory.start is not None and self.memory.start.starts
        return planned == (self.cells["logged.starts"] == "yes")

    @property
    def held_out(self) -> bool:
        """Whether no figure of the catalogue was read from this log."""
        return not self.cells["calibrates"]


def logged() -> list[dict[str, str]]:
    """Every log, unplanned."""
    with LOGS.open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def logs() -> tuple[Log, ...]:
    """Every log, planned."""
    return tuple(Log(row, assemble(_question(row)).memory) for row in logged())


def _question(row: dict[str, str]) -> Question:
    flags = ", ".join(pair.replace("=", ": ") for pair in row["flags"].split())
    precision = {name: row[name] for name in ("weights", "kv_cache") if row[name]}
    share = f"memory: {{utilization: {row['utilization']}}}" if row["utilization"] else ""
    ranks = f"tensor: {row['tensor']}, pipeline: {row['pipeline']}"
    text = (
        f"model: {row['model']}\ngpu: {row['gpu']}\nparallel: {{{ranks}}}\n"
        f"precision: {{{', '.join(f'{k}: {v}' for k, v in precision.items())}}}\n"
        f"backend: {{name: {row['backend']}, version: '{row['version']}', flags: {{{flags}}}}}\n"
        f"{share}\nstep: {{decode: {{batch: 1, context: 16}}}}\n"
    )
    question = ask(load_text(text, row["id"], "deployment"), Catalog.standard())
    memory, seen = question.gpu.memory, row["visible_gib"]
    if not seen or memory.visible is None:
        return question
    visible = memory.visible.model_copy(update={"value": float(seen) * _GIB})
    memory = memory.model_copy(update={"visible": visible})
    return replace(question, gpu=question.gpu.model_copy(update={"memory": memory}))


def errors(rows: Iterable[Log]) -> tuple[float, float]:
    """Median and worst size of the error. Raises StatisticsError without any."""
    sizes = [abs(row.error) for row in rows if row.error is not None]
    return statistics.median(sizes), max(sizes)


def summary() -> str:
    """Errors by what the logs were used for."""
    every = logs()
    kinds = {
        "all": every,
        "held out: no figure of the catalogue comes from them": [r for r in every if r.held_out],
        "non-torch memory, or which GPUs it holds for, was read from them": [
            r for r in every if not r.held_out
        ],
    }
    header = ("logs", "number", "median error", "worst", "starts or not: right")
    rows = []
    for name, chosen in kinds.items():
        median, worst = errors(chosen)
        right = sum(row.starts_right for row in chosen)
        rows.append(
            (name, str(len(chosen)), f"{median:.1%}", f"{worst:.1%}", f"{right} of {len(chosen)}")
        )
    return table(header, rows)


def listed() -> str:
    """Every log beside its plan."""
    header = ("log", "model", "GPU", "engine", "flags", "KV logged", "planned", "error", "starts")
    return table((*header, "assumed"), _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    for log in logs():
        cells = log.cells
        gpus = int(cells["tensor"]) * int(cells["pipeline"])
        formats = " ".join(filter(None, (cells["weights"], cells["kv_cache"] and "KV FP8")))
        yield (
            _linked(cells),
            f"{cells['model']} {formats}".strip(),
            f"{gpus} × {cells['gpu']}" if gpus > 1 else cells["gpu"],
            f"{cells['backend']} {cells['version']}",
            " ".join(filter(None, (cells["utilization"], cells["flags"]))),
            _figure(log, log.logged),
            _figure(log, log.planned),
            f"{log.error:+.1%}" if log.error is not None else "",
            cells["logged.starts"] + ("" if log.starts_right else ", planned otherwise"),
            cells["assumed"],
        )


def _linked(cells: dict[str, str]) -> str:
    address = cells["source"]
    return f"[{cells['id']}]({address})" if address.startswith("https") else cells["id"]


def _figure(log: Log, value: float) -> str:
    return f"{value:,.0f} tokens" if log.cells["logged.kv_tokens"] else f"{value:.2f} GiB"


def later() -> str:
    """Logs and reports that cannot be planned yet."""
    with LATER.open(newline="") as file:
        rows = [(code(r["id"]), r["model"], r["logged"], r["why"]) for r in csv.DictReader(file)]
    return table(("report", "model", "logged", "why not yet"), rows)


PARTS = {"summary": summary, "logs": listed, "later": later}
