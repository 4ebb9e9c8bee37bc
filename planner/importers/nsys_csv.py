"""``nsys stats`` kernel summaries as CSV: ``cuda_gpu_kern_sum`` and the older ``gpukernsum``.

Lines of nsys itself may come first. The header says the unit. Steps are not in the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping

from planner.errors import Where
from planner.importers.boundaries import ENDS_STEP
from planner.importers.document import Document
from planner.importers.fields import Fields
from planner.importers.refusal import ImportRefused
from planner.importers.registry import Importer, register
from planner.importers.trace import PROFILED, ranked
from planner.plan.runs import KernelTime, Run, TracedSteps
from planner.units import show_seconds

NAME = "nsys_kernel_summary"
_HEADER = re.compile(r"^\"?Time ?\(%\)\"?,\"?Total Time.*\bName\"?\s*$", re.MULTILINE)
_TOTAL = re.compile(r"Total Time \((?P<unit>\w+)\)")
_UNITS = {
    **dict.fromkeys(("ns", "nsec"), 1e-9),
    **dict.fromkeys(("us", "usec"), 1e-6),
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("s", "sec"), 1.0),
}


def _claims(document: Document) -> bool:
    return _HEADER.search(document.text) is not None


def _read(document: Document) -> tuple[Run, ...]:
    kernels = ranked(_kernels(document))
    if not kernels:
        raise ImportRefused(document.where, "the table holds no kernel", "was any GPU work traced?")
    traced = _steps(kernels)
    each_s = sum(kernel.total_s for kernel in kernels) / traced.count
    note = (
        f"steps are not in the file; {traced.found_by} ran {traced.count} times, and if it runs "
        f"once a step, kernels take {show_seconds(each_s)} a step"
    )
    source = document.source(NAME, "nsys stats")
    return (Run(source, (), kernels=kernels, notes=(PROFILED, note), traced=traced),)


def _steps(kernels: Iterable[KernelTime]) -> TracedSteps:
    """As many steps as the rarest kernel ran, of those whose name says sampler where there are."""
    rarest = min(kernels, key=lambda kernel: (not ENDS_STEP.search(kernel.name), kernel.calls))
    return TracedSteps(rarest.calls, rarest.calls, rarest.name)


def _kernels(document: Document) -> Iterator[KernelTime]:
    header: list[str] = []
    factor = 0.0
    for where, row in _rows(document):
        if not header:
            header, factor = row, _unit(where, row)
            continue
        if len(row) != len(header):
            raise ImportRefused(
                where, f"{len(row)} cells below {len(header)} columns", "was the file cut off?"
            )
        cells = Fields(_numbers(where, header, row), where)
        calls = cells.positive_count("Instances")
        total = cells.number(next(title for title in header if title.startswith("Total Time")))
        name = cells.text("Name")
        if calls is None or name is None:
            raise cells.refusal("Instances" if calls is None else "Name", "is missing")
        if total < 0:
            raise cells.refusal("Total Time", f"is {total:g}, which cannot be")
        yield KernelTime(name, calls, total * factor)


def _rows(document: Document) -> Iterator[tuple[Where, list[str]]]:
    """The header and its rows, up to the first empty line."""
    match = _HEADER.search(document.text)
    begin = match.start() if match else 0
    before = document.text.count("\n", 0, begin)
    reader = csv.reader(document.text[begin:].splitlines())
    try:
        for row in reader:
            if not row:
                return
            yield Where(document.file, before + reader.line_num, 1), row
    except csv.Error as error:
        where = Where(document.file, before + reader.line_num, 1)
        raise ImportRefused(where, f"no CSV: {error}") from error


def _unit(where: Where, header: list[str]) -> float:
    match = next(filter(None, map(_TOTAL.fullmatch, header)), None)
    if match is None or match["unit"] not in _UNITS:
        raise ImportRefused(where, "the header names no unit of time known here", "export in ns")
    if "Instances" not in header:
        raise ImportRefused(where, "no column Instances")
    return _UNITS[match["unit"]]


def _numbers(where: Where, header: list[str], row: list[str]) -> Mapping[str, float | str]:
    cells: dict[str, float | str] = {}
    for title, cell in zip(header, row, strict=True):
        if title == "Instances" or title.startswith("Total Time"):
            try:
                cells[title] = float(cell.replace(",", ""))
            except ValueError as error:
                raise ImportRefused(where, f"{cell!r} is no number of {title}") from error
        else:
            cells[title] = cell
    return cells


register(Importer(NAME, "nsys cuda_gpu_kern_sum CSV", "text", _claims, _read))
