"""The lab's own file of a decode step it ran: ``planner lab run`` writes it as run.json.

Steps are timed one after another without a profiler, the host waiting for each.
"""

from __future__ import annotations

from typing import Any

from planner.importers.distribution import summary
from planner.importers.document import Document
from planner.importers.fields import Fields
from planner.importers.registry import Importer, register
from planner.plan.runs import Metric, Run

NAME = "planner_lab"
_MARK = "planner_lab_run"
_FORMAT = 1


def _claims(document: Document) -> bool:
    return bool(document.records) and _MARK in document.records[0]


def _read(document: Document) -> tuple[Run, ...]:
    record = document.only
    if record.number(_MARK) != _FORMAT:
        raise record.refusal(_MARK, "is of another version", "update inference-planner")
    samples = record.numbers("step_s")
    if not samples:
        raise record.refusal("step_s", "holds no step")
    for index, sample in enumerate(samples):
        record.checked(Metric("step", "mean", sample), f"step_s[{index}]")
    machine = record.inside("machine") or Fields({}, record.where)
    said = record.inside("context") or Fields({}, record.where)
    context = {path: _scalar(said, path) for path in said.values}
    notes = tuple(str(note) for note in record.array("notes"))
    torch = machine.text("torch")
    tool = f"planner lab, torch {torch}" if torch else "planner lab"
    metrics = summary("step", samples)
    return (Run(document.source(NAME, tool), metrics, {"step": samples}, context, notes=notes),)


def _scalar(said: Fields, path: str) -> Any:
    """A circumstance: a text, a number, true or false."""
    value = said.values[path]
    if isinstance(value, str | bool):
        return value
    number = said.number(path)
    return int(number) if number.is_integer() else number


register(Importer(NAME, "planner lab", "json", _claims, _read))
