"""Chrome traces of the PyTorch profiler, plain or packed: microseconds.

Events as written by Kineto's output_json.cpp. Only complete events (``ph`` X) of category kernel
are kernels; older versions write ``Kernel``. Flow, metadata and instant events lie among them. In
a trace of a CPU, operators (category cpu_op) take the place of kernels.
"""

from __future__ import annotations

from typing import Any

from planner.importers.cpu_ops import operators
from planner.importers.document import Document
from planner.importers.fields import Fields
from planner.importers.lengths import stated
from planner.importers.registry import Importer, register
from planner.importers.sequence import of_kernels, of_ranges
from planner.importers.trace import PROFILED, Span, busy, devices, is_step, span, steps, totals
from planner.plan.runs import Run

NAME = "torch_trace"
_TOOL = "PyTorch profiler"
_RANGES = ("user_annotation", "cpu_op")
_HINT = "profile with ProfilerActivity.CUDA"
_CPU = "the trace holds no GPU kernel: operators of the CPU stand for kernels"


def _claims(document: Document) -> bool:
    return bool(document.records) and "traceEvents" in document.records[0]


def _read(document: Document) -> tuple[Run, ...]:
    record = document.only
    kernels: list[Span] = []
    called: list[tuple[int, dict[str, Any]]] = []
    ranges: list[Span] = []
    for index, event in enumerate(record.array("traceEvents")):
        category = _category(event)
        if category == "kernel":
            kernels.append(_span(record, index, event))
        elif category in _RANGES and is_step(str(event.get("name"))):
            ranges.append(_span(record, index, event))
        elif category == "cpu_op":
            called.append((index, event))
    if sum(kernel.length_s for kernel in kernels) > 0:
        return (_of_gpu(document, kernels, ranges),)
    return (_of_cpu(document, [_span(record, *each) for each in called], ranges),)


def _of_gpu(document: Document, kernels: list[Span], ranges: list[Span]) -> Run:
    found = of_kernels(kernels, ranges)
    stepped = found.steps(steps(ranges))
    return Run(
        document.source(NAME, _TOOL),
        stepped.metrics,
        stepped.samples,
        stated({"gpu": _gpu(document.only), "step.decode.batch": stepped.batch}),
        totals(kernels),
        (PROFILED, busy(kernels), *devices(kernels), found.note),
        found.traced,
    )


def _of_cpu(document: Document, spans: list[Span], ranges: list[Span]) -> Run:
    """A trace without a GPU: its operators stand for kernels.

    Raises ImportRefused when there are none either.
    """
    kernels = operators(spans)
    if sum(one.length_s for one in kernels) <= 0:
        raise document.only.refusal("traceEvents", "holds no GPU kernel", _HINT)
    found = of_ranges(kernels, ranges) if ranges else of_kernels(kernels)
    stepped = found.steps(steps(ranges))
    return Run(
        document.source(NAME, _TOOL),
        stepped.metrics,
        stepped.samples,
        stated({"step.decode.batch": stepped.batch}),
        totals(kernels),
        (PROFILED, _CPU, found.note),
        found.traced,
    )


def _category(event: Any) -> str:
    if not isinstance(event, dict) or event.get("ph") != "X":
        return ""
    category = event.get("cat")
    return category.lower() if isinstance(category, str) else ""


def _span(record: Fields, index: int, event: dict[str, Any]) -> Span:
    fields = Fields(event, record.where, f"traceEvents[{index}].")
    name, start, length = fields.text("name"), fields.number("ts"), fields.number("dur")
    if name is None:
        raise fields.refusal("name", "is missing")
    if length < 0:
        raise fields.refusal("dur", f"is {length:g} us, which cannot be")
    return span(fields, name, start * 1e-6, length * 1e-6, _lane(fields))


def _lane(event: Fields) -> str:
    """The device of a kernel, the process and thread of a range."""
    arguments = event.values.get("args")
    device = arguments.get("device") if isinstance(arguments, dict) else None
    if device is not None:
        return str(device)
    return f"{event.values.get('pid')} {event.values.get('tid')}"


def _gpu(record: Fields) -> str | None:
    names = {device.text("name") for device in record.objects("deviceProperties")}
    return names.pop() if len(names) == 1 else None


register(Importer(NAME, "PyTorch profiler trace", "json", _claims, _read))
