"""A block as the graph it is, with the kernels its nodes run in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.charts.files import altair
from planner.charts.frame import at
from planner.charts.theme import INKS, Hue, Theme, data, finish, hue
from planner.errors import UsageError
from planner.plan.types import KernelRow, Plan
from planner.plan.wiring import Wire
from planner.registry import nearest
from planner.units import show_bytes, show_seconds

_ACROSS, _DOWN = 158, 44
"""Pixels from node to node, and from row to row."""
_HALF_WIDE, _HALF_HIGH = 70, 14
_PAD = 6
_LISTED = 300
_HUES: tuple[Hue, ...] = ("blue", "orange", "green", "purple", "sky", "vermillion", "grey")


@dataclass(frozen=True)
class Box:
    """A node and its middle, in pixels."""

    node: str
    x: float
    y: float


def laid_out(nodes: Sequence[str], wires: Sequence[Wire]) -> tuple[Box, ...]:
    """Nodes in rows, each below all that it reads, near the middle of these."""
    before: dict[str, list[str]] = {node: [] for node in nodes}
    for wire in wires:
        if wire.source in before and wire.target in before:
            before[wire.target].append(wire.source)
    depth: dict[str, int] = {}
    for node in _sorted(nodes, before):
        depth[node] = max((depth[source] + 1 for source in before[node]), default=0)
    rows: dict[int, list[str]] = {}
    for node in nodes:
        rows.setdefault(depth[node], []).append(node)
    widest = max(map(len, rows.values()))
    middle: dict[str, float] = {}
    for level in sorted(rows):
        wanted = {node: _mean([middle[s] for s in before[node]], widest) for node in rows[level]}
        row = sorted(rows[level], key=wanted.__getitem__)
        for place, node in enumerate(row):
            middle[node] = (place + 0.5 + (widest - len(row)) / 2) * _ACROSS
    return tuple(Box(node, middle[node], (depth[node] + 0.5) * _DOWN) for node in nodes)


def _mean(values: Sequence[float], widest: int) -> float:
    return sum(values) / len(values) if values else widest * _ACROSS / 2


def _sorted(nodes: Sequence[str], before: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Each node after all that it reads; blocks have no circles."""
    done: set[str] = set()
    left = list(nodes)
    while left:
        ready = [node for node in left if all(source in done for source in before[node])]
        yield from ready
        done.update(ready)
        left = [node for node in left if node not in done]


def block_chart(
    plan: Plan, wires: Sequence[Wire], block: str | None = None, *, theme: Theme = "light"
) -> Any:
    """The block that takes most of the step, or the named one. Raises UsageError for an unknown
    block, or without Altair.
    """
    alt = altair()
    name = _named(plan, block)
    nodes = [row.id for row in plan.nodes if row.block == name and not row.composite]
    inside = [wire for wire in wires if wire.block == name]
    boxes = {box.node: box for box in laid_out(nodes, inside)}
    kernels, seldom = kernels_of(plan, name, nodes)
    layers = [
        *_groups(alt, kernels, boxes, theme),
        _lines(alt, inside, kernels, boxes, theme),
        *_boxes(alt, kernels, boxes, theme),
    ]
    wide = max(box.x for box in boxes.values()) + _ACROSS / 2
    high = max(box.y for box in boxes.values()) + _DOWN / 2
    high = max(high, 20.0 * (len(kernels) + len(seldom)) + 10)
    layers += list(_list(alt, kernels, seldom, wide, theme))
    chart = alt.layer(*layers).properties(width=wide + _LISTED, height=high)
    repeat = next(row.repeat for row in plan.nodes if row.block == name)
    subtitle = [
        f"{plan.described['model']} on {plan.described['device']}: block {name}, × {repeat}",
        "nodes of one number run as one kernel; thick lines stay on the chip",
    ]
    return finish(chart, "The block's graph and its kernels", subtitle, theme)


def _named(plan: Plan, block: str | None) -> str:
    shares: dict[str, float] = {}
    for kernel in plan.kernels:
        shares[kernel.block] = shares.get(kernel.block, 0.0) + kernel.share
    if block is None:
        return max(shares, key=shares.__getitem__)
    known = {row.block for row in plan.nodes}
    if block not in known:
        near = nearest(block, known)
        hint = f"did you mean {near!r}?" if near else f"one of {', '.join(sorted(known))}"
        raise UsageError(f"this plan has no block {block[:40]!r}", hint)
    return block


def kernels_of(
    plan: Plan, name: str, nodes: Sequence[str]
) -> tuple[list[KernelRow], list[KernelRow]]:
    """Kernels that run a block's nodes most often, from the top down; and those that run them where
    the block is the first or the last of its kind.
    """
    own = [
        kernel for kernel in plan.kernels if kernel.block == name and set(kernel.nodes) & set(nodes)
    ]
    usual: dict[str, KernelRow] = {}
    for kernel in sorted(own, key=lambda kernel: -kernel.repeat):
        for node in kernel.nodes:
            if node in nodes:
                usual.setdefault(node, kernel)
    place = {node: number for number, node in enumerate(nodes)}
    first = {kernel: min(place.get(n, len(nodes)) for n in kernel.nodes) for kernel in own}
    ordered = sorted(own, key=lambda kernel: (kernel.straddles, first[kernel]))
    most = [kernel for kernel in ordered if kernel in usual.values()]
    return most, [kernel for kernel in ordered if kernel not in most]


def _numbers(kernels: Sequence[KernelRow]) -> dict[str, int]:
    """The number of the kernel that each node runs in, most often."""
    found: dict[str, int] = {}
    for number, kernel in sorted(enumerate(kernels, 1), key=lambda item: -item[1].repeat):
        for node in kernel.nodes:
            found.setdefault(node, number)
    return found


def _hue(theme: Theme, number: int) -> str:
    return hue(theme, _HUES[(number - 1) % len(_HUES)])


def _groups(
    alt: Any, kernels: Sequence[KernelRow], boxes: Mapping[str, Box], theme: Theme
) -> Iterator[Any]:
    """A ground behind the nodes of each fused kernel: one where nothing else lies in it."""
    rows, numbers = [], _numbers(kernels)
    for number, kernel in enumerate(kernels, 1):
        own = [boxes[n] for n in kernel.nodes if n in boxes and numbers[n] == number]
        if len(own) < 2:  # noqa: PLR2004 - a node alone is no group
            continue
        others = [box for box in boxes.values() if box.node not in kernel.nodes]
        whole = _around(own)
        parts = [whole] if not any(_meet(whole, _around([o])) for o in others) else []
        for left, top, right, bottom in parts or [_around([box]) for box in own]:
            ends = {"px": left, "py": top, "px2": right, "py2": bottom}
            rows.append(ends | {"hue": _hue(theme, number), "kernel": kernel.name})
    marks = data(alt, rows).mark_rect(opacity=0.28, cornerRadius=7)
    color = alt.Color("hue:N", scale=None)
    yield marks.encode(**at(alt), x2="px2:Q", y2="py2:Q", color=color)


Sides = tuple[float, float, float, float]


def _around(own: Sequence[Box]) -> Sides:
    xs, ys = [box.x for box in own], [box.y for box in own]
    wide, high = _HALF_WIDE + _PAD, _HALF_HIGH + _PAD
    return min(xs) - wide, min(ys) - high, max(xs) + wide, max(ys) + high


def _meet(a: Sides, b: Sides) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _lines(
    alt: Any,
    wires: Sequence[Wire],
    kernels: Sequence[KernelRow],
    boxes: Mapping[str, Box],
    theme: Theme,
) -> Any:
    """From the bottom of the producer to the top of the reader; thick inside a kernel."""
    number, rows = _numbers(kernels), []
    for wire in wires:
        if wire.source in boxes and wire.target in boxes:
            same = number.get(wire.source, -1) == number.get(wire.target, -2)
            row: dict[str, Any] = {"wide": 4.0 if same else 1.2}
            row |= {"wire": f"{wire.source} {wire.tensor} {wire.target}", "tensor": wire.tensor}
            way = route(boxes[wire.source], boxes[wire.target], tuple(boxes.values()))
            rows += [row | {"px": x, "py": y, "order": n} for n, (x, y) in enumerate(way)]
    marks = data(alt, rows).mark_line(color=INKS[theme].faint, strokeJoin="round")
    return marks.encode(
        **at(alt),
        detail="wire:N",
        order="order:Q",
        strokeWidth=alt.StrokeWidth("wide:Q", scale=None),
        tooltip=alt.Tooltip("tensor:N"),
    )


def route(a: Box, b: Box, boxes: Sequence[Box]) -> list[tuple[float, float]]:
    """Corners of a line between nodes: straight, or past the right of what lies between them."""
    start, end = (a.x, a.y + _HALF_HIGH), (b.x, b.y - _HALF_HIGH)
    between = [box for box in boxes if a.y < box.y < b.y]
    hit = [box for box in between if abs(_at_height(start, end, box.y) - box.x) < _HALF_WIDE]
    if not hit:
        return [start, end]
    lane = max(box.x for box in between) + _HALF_WIDE + _LANE
    turn = (_DOWN - 2 * _HALF_HIGH) / 2
    return [start, (lane, start[1] + turn), (lane, end[1] - turn), end]


_LANE = 13
"""How far beside the nodes a line runs that goes past them."""


def _at_height(start: tuple[float, float], end: tuple[float, float], y: float) -> float:
    """Where a straight line is at a height."""
    return start[0] + (end[0] - start[0]) * (y - start[1]) / (end[1] - start[1])


def _boxes(
    alt: Any, kernels: Sequence[KernelRow], boxes: Mapping[str, Box], theme: Theme
) -> Iterator[Any]:
    """The nodes themselves: name in the middle, number of the kernel before it."""
    number, ink = _numbers(kernels), INKS[theme]
    rows = [
        {
            "px": box.x - _HALF_WIDE,
            "px2": box.x + _HALF_WIDE,
            "py": box.y - _HALF_HIGH,
            "py2": box.y + _HALF_HIGH,
            "middle": box.x,
            "centre": box.y,
            "hue": _hue(theme, number[box.node]) if box.node in number else ink.faint,
            "said": f"{number.get(box.node, '–')}  {_short(box.node)}",
        }
        for box in boxes.values()
    ]
    base = data(alt, rows)
    marks = base.mark_rect(fill=ink.ground, strokeWidth=2, cornerRadius=4)
    stroke = alt.Stroke("hue:N", scale=None)
    yield marks.encode(**at(alt), x2="px2:Q", y2="py2:Q", stroke=stroke)
    middle = alt.X("middle:Q", scale=None, axis=None)
    centre = alt.Y("centre:Q", scale=None, axis=None)
    yield base.mark_text(baseline="middle").encode(x=middle, y=centre, text="said:N")


def _short(node: str) -> str:
    most = 18
    if len(node) <= most:
        return node
    part = node.rpartition(".")[2]
    return f"….{part}" if part != node else f"{node[: most - 1]}…"


def _list(
    alt: Any, kernels: Sequence[KernelRow], seldom: Sequence[KernelRow], left: float, theme: Theme
) -> Iterator[Any]:
    """The kernels by number, with what each takes and saves; then those of single blocks."""
    named = [(f"{number}", kernel) for number, kernel in enumerate(kernels, 1)]
    named += [(f"in {kernel.repeat} of them:", kernel) for kernel in seldom]
    hues = [_hue(theme, number) for number in range(1, len(kernels) + 1)]
    hues += [INKS[theme].grid] * len(seldom)
    rows = [
        {"px": left + 14, "py": 20.0 * place, "hue": colour, "said": _entry(number, kernel)}
        for place, (colour, (number, kernel)) in enumerate(zip(hues, named, strict=True), 1)
    ]
    base, color = data(alt, rows), alt.Color("hue:N", scale=None)
    squares = base.mark_point(shape="square", filled=True, size=90, opacity=1)
    yield squares.encode(**at(alt), color=color)
    yield base.mark_text(align="left", dx=11, baseline="middle").encode(**at(alt), text="said:N")


def _entry(number: str, kernel: KernelRow) -> str:
    saved = f", saves {show_bytes(kernel.saved_bytes)}" if kernel.saved_bytes > 0 else ""
    with_next = " (with the next block)" if kernel.straddles else ""
    takes = show_seconds(kernel.time_s) if kernel.launches else "no launch"
    return f"{number}  {kernel.name}{with_next}: {takes}{saved}"
