"""A kernel's time as a calculation that somebody can follow: each figure from those above it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType

from planner.plan.explained import Explained, ModelTerm, NodeTerm
from planner.report.cells import (
    DASH,
    bullets,
    facts,
    flops,
    heading,
    node_names,
    share,
    small,
    table,
    times,
    words,
)
from planner.units import (
    show_bandwidth,
    show_bytes,
    show_flops,
    show_flops_per_s,
    show_seconds,
)

_DIGITS = 4
"""Of figures that go on into others."""


def explained_view(
    found: Explained, others: Sequence[str] = (), notes: Sequence[str] = ()
) -> RenderableType:
    """A kernel, its work, its roofline, its model, its start, and the row they add up to."""
    parts: list[RenderableType] = [words(_headline(found), "bold"), words(_where(found))]
    parts += [_flops(found), _bytes(found), _roofline(found), _models(found), _time(found)]
    if others:
        parts.append(small(f"the word names others too: {', '.join(others)}"))
    return Group(*parts, *map(small, notes))


def _headline(found: Explained) -> str:
    row = found.kernel
    called = row.engine_name or row.name
    whole = show_seconds(row.repeat * row.time_s)
    each = show_seconds(row.time_s)
    return f"{called}: {each} each, {whole} of a step, {share(row.share)}, bound by {row.bound}"


def _where(found: Explained) -> str:
    row = found.kernel
    return f"{times(row.block, row.repeat)}: {node_names(row.nodes, ' + ')}, on {found.device}"


def _flops(found: Explained) -> RenderableType:
    rows = table(("node", "operator", "FLOPs as executed", "matrix", "vector"), left=(0, 1, 2))
    for node in found.nodes:
        rows.add_row(
            words(node.id),
            words(node.op),
            words(node.arithmetic or DASH),
            flops(node.matmul_flops),
            flops(node.vector_flops),
        )
    rows.add_row("sum", "", "", flops(found.kernel.matmul_flops), flops(found.kernel.vector_flops))
    formulas = dict.fromkeys(f"{node.op}: {node.formula}" for node in found.nodes)
    return Group(heading("1. FLOPs"), rows, bullets(formulas))


def _bytes(found: Explained) -> RenderableType:
    rows = table(("what crosses the border of the kernel, once", "sides", "bytes"), left=(0, 1))
    for tensor in found.tensors:
        said = f"{tensor.name}, {tensor.way}"
        rows.add_row(words(said), words(f"{tensor.shape} {tensor.dtype}"), _size(tensor.hbm_bytes))
    for node in found.nodes:
        for said, size in _private(node):
            rows.add_row(words(said), "", _size(size))
    rows.add_row("sum", "", _size(found.kernel.hbm_bytes))
    kept = found.kernel.saved_bytes
    alone = [f"run alone, its nodes move {_size(found.kernel.unfused_bytes)}"] if kept else []
    return Group(heading("2. Bytes of HBM"), rows, *map(small, alone))


def _private(node: NodeTerm) -> Iterator[tuple[str, float]]:
    sizes = {"weights": node.weight_bytes, "cache": node.cache_bytes, "scratch": node.scratch_bytes}
    for name, size in sizes.items():
        if size:
            yield f"{name} of {node.id}", size


def _size(value: float) -> str:
    return show_bytes(value, _DIGITS)


def _seconds(value: float) -> str:
    return show_seconds(value, _DIGITS)


def _roofline(found: Explained) -> RenderableType:
    row = found.kernel
    matmul, vector = (show_flops(n, _DIGITS) for n in (row.matmul_flops, row.vector_flops))
    units = show_flops_per_s(found.vector_flops_per_s, _DIGITS)
    bandwidth = show_bandwidth(found.bandwidth_bytes_per_s, _DIGITS)
    lines = [
        ("matrix units", f"{matmul} / {_peaks(found)}", found.matmul_s),
        ("vector units", f"{vector} / {units}", found.vector_s),
        ("memory", f"{_size(row.hbm_bytes)} / {bandwidth}", found.memory_s),
    ]
    if row.link_bytes and found.link_bytes_per_s:
        link = show_bandwidth(found.link_bytes_per_s, _DIGITS)
        lines.append(("link", f"{_size(row.link_bytes)} / {link}", found.network_s))
    quotients = [(name, f"{said} = {_seconds(time_s)}") for name, said, time_s in lines if time_s]
    longest = ("the longest", _seconds(found.roofline_s))
    return Group(heading("3. Roofline, at the datasheet's rates"), facts([*quotients, longest]))


def _peaks(found: Explained) -> str:
    """The matrix rate, or all of them where nodes multiply different formats."""
    rates = {node.matmul_dtype: node.peak_flops_per_s for node in found.nodes if node.matmul_dtype}
    said = [f"{show_flops_per_s(rate, _DIGITS)} ({dtype})" for dtype, rate in rates.items()]
    return " and ".join(said) or DASH


def _models(found: Explained) -> RenderableType:
    if not found.models:
        return Group(heading("4. Kernel model"), small("none: its work is its roofline"))
    parts = [part for model in found.models for part in _model(model)]
    return Group(heading("4. Kernel model, with its fitted constants"), *parts)


def _model(model: ModelTerm) -> Iterator[RenderableType]:
    yield words(f"{model.family}.{model.variant}", "bold")
    yield words("\n".join(f"    {line}" for line in model.formula.splitlines()))
    measured = f", measured on {model.gpu}" if model.gpu else ""
    asked = ", ".join(f"{name} {_plain(value)}" for name, value in model.shape.items() if value)
    yield facts([("constants", f"{model.source} ({model.evidence}){measured}"), ("asked", asked)])
    rows = table(("constant", "value", "unit", "meaning"), left=(0, 2, 3))
    for each in model.constants:
        rows.add_row(words(each.name), _plain(each.value), words(each.unit), words(each.meaning))
    yield rows
    yield words(_answer(model))


def _answer(model: ModelTerm) -> str:
    answer, counted = _seconds(model.time_s), _seconds(abs(model.counted_s))
    if model.counted_s < 0:
        return f"answer {answer}: taken off, as it is a kernel of its own here"
    return f"answer {answer}, less its floor {_seconds(model.floor_s)} = {counted} of work"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"  # noqa: PLR2004 - beyond it a float counts no ones


def _time(found: Explained) -> RenderableType:
    row = found.kernel
    lines = [("work", _work(found)), ("start", _start(found))]
    fixed, core, time = map(_seconds, (found.fixed_s, found.core_s, found.time_s))
    lines.append(("time", f"{fixed} + {core} = {time}"))
    if row.low_s is not None and row.high_s is not None:
        low, high = show_seconds(row.low_s), show_seconds(row.high_s)
        logs = f"e^{found.log_low:+.3f} and e^{found.log_high:+.3f}"
        lines.append(("80 % interval", f"{low} to {high}: the time × {logs}"))
    whole = _seconds(row.repeat * found.time_s)
    busy = f"{share(row.share)} of the {_seconds(found.busy_s)} that all kernels take"
    lines.append(("in the step", f"{row.repeat} × {time} = {whole}, {busy}"))
    lines.append(("host", _launch(found)))
    over = found.time_s / found.roofline_s if found.roofline_s else 0.0
    lines.append(("against roofline", f"{over:.2f} × {_seconds(found.roofline_s)}"))
    return Group(heading("5. Its time"), facts(lines))


def _work(found: Explained) -> str:
    if not found.models:
        return f"the roofline = {_seconds(found.core_s)}"
    counted = [model.counted_s for model in found.models]
    said = _seconds(counted[0])
    said += "".join(f" {'-' if s < 0 else '+'} {_seconds(abs(s))}" for s in counted[1:])
    said += f" + {_seconds(found.beyond_s)} between nodes or starts" if found.beyond_s else ""
    said += f", × {found.efficiency:.3f} as runs here say" if found.efficiency else ""
    return f"{said} = {_seconds(found.core_s)}, not below the roofline"


def _start(found: Explained) -> str:
    if not found.starts:
        return "nothing is launched"
    how = "graph node" if found.kernel.in_graph else "launched kernel"
    said = (
        f"floor {_seconds(found.floor_s)} + {found.starts} × {_seconds(found.start_s)} a {how}"
        f" - {_seconds(found.held_s)} that the floor holds"
    )
    if found.collective_s:
        said += f" + {found.starts} × {_seconds(found.collective_s)} a collective"
    return f"{said} = {_seconds(found.fixed_s)}"


def _launch(found: Explained) -> str:
    if found.kernel.in_graph:
        return "in a CUDA Graph: no launch of its own"
    return f"{_seconds(found.launch_s)} for its launches, beside the GPU's time"
