"""Plans side by side: what was asked differently, then what follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType

from planner.plan.diff import BoundFlip, GpuColumn, GroupChange, PlanDiff
from planner.report.cells import (
    DASH,
    bullets,
    heading,
    node_names,
    optional_count,
    rate,
    ratio,
    share,
    small,
    table,
    words,
)
from planner.report.headline import tokens_per_s
from planner.units import show_bytes, show_seconds

_SAME = 0.0005
"""Ratios this near to one are shown as no difference."""


def diff_view(change: PlanDiff) -> RenderableType:
    """Two plans: the verdict, the parts that differ, the figures, bounds and groupings."""
    parts: list[RenderableType] = [words(verdict(change), "bold")]
    if change.result_only:
        parts.append(
            words(
                "the question is the same, the answer is not: planner's own model has changed",
                "yellow",
            )
        )
    elif not change.parts:
        return Group(*parts, small("both answer the same question with the same result"))
    parts += [_parts(change), _figures(change)]
    if change.flips:
        parts += [
            heading("Kernels bound by something else"),
            bullets(map(flip_words, change.flips)),
        ]
    if change.groups:
        parts += [heading("Other groupings"), _groupings(change.groups, change.a, change.b)]
    return Group(*parts)


def verdict(change: PlanDiff) -> str:
    """Both steps, and which is faster by how much."""
    times = f"{show_seconds(change.step_a_s)} → {show_seconds(change.step_b_s)} a step"
    if abs(change.speed_up - 1) < _SAME:
        return f"{times}: no difference"
    faster = change.speed_up > 1
    by = ratio(change.speed_up if faster else 1 / change.speed_up)
    return f"{times}: {change.b} is {by}× {'faster' if faster else 'slower'} than {change.a}"


def _parts(change: PlanDiff) -> RenderableType:
    found = table(("what differs", change.a, change.b), left=(0, 1, 2))
    for row in part_rows(change):
        found.add_row(*map(words, row))
    return Group(words(""), found)


def part_rows(change: PlanDiff) -> Iterator[tuple[str, str, str]]:
    """What was asked differently: a part of the question, before, after."""
    yield "name", change.name_a, change.name_b
    for part in change.parts:
        same = part.before == part.after
        after = f"{part.after} (differs in its details)" if same else part.after
        yield part.part.replace("_", " "), part.before, after


def _figures(change: PlanDiff) -> RenderableType:
    found = table(("a step", change.a, change.b, "a ÷ b"))
    for row in figure_rows(change):
        found.add_row(*map(words, row))
    return Group(words(""), found)


def figure_rows(change: PlanDiff) -> Iterator[tuple[str, ...]]:
    """What follows: a figure, before, after, before ÷ after."""
    times = map(show_seconds, (change.step_a_s, change.step_b_s))
    sizes, counts, rooms = change.hbm_bytes, change.kernels, change.kv_tokens
    yield "time", *times, ratio(change.speed_up)
    yield "time without fixed costs", DASH, DASH, ratio(change.roofline_speed_up)
    yield "HBM bytes", *map(show_bytes, sizes), _over(*sizes)
    yield "kernels", *(f"{count:,}" for count in counts), _over(*counts)
    yield "CUDA Graph", *change.modes, ""
    yield "fits", *map(yes_no, change.fits), ""
    yield "room for KV, tokens", *(f"{room:,}" for room in rooms), _over(*rooms)
    yield "most sequences", *map(optional_count, change.sequences), ""


def _over(a: float, b: float) -> str:
    return ratio(a / b) if b else DASH


def yes_no(value: bool) -> str:
    """A truth as a word."""
    return "yes" if value else "NO"


def flip_words(flip: BoundFlip) -> str:
    """A kernel whose bound changed."""
    return f"{node_names(flip.nodes)} of {flip.block}: {flip.before} → {flip.after}"


def _groupings(groups: Iterable[GroupChange], a: str, b: str) -> RenderableType:
    found = table(("block", f"{a} alone", f"{b} alone"), left=(0, 1, 2))
    for group in groups:
        found.add_row(words(group.block), _kernels(group.before), _kernels(group.after))
    return found


def _kernels(kernels: Iterable[Sequence[str]]) -> RenderableType:
    lines = [node_names(nodes, " + ") for nodes in kernels]
    return words("\n".join(lines) or DASH)


def gpus_view(columns: Sequence[GpuColumn]) -> RenderableType:
    """One deployment on several GPUs, each held against the first."""
    first = columns[0]
    lines: list[RenderableType] = [words(_best(columns), "bold"), words(_asked(first)), words("")]
    lines += [_speeds(columns), small(_speed_key(first)), heading("Bounds, memory and cost")]
    lines.append(_rest(columns))
    for column in columns[1:]:
        if column.flips or column.groups:
            lines.append(heading(f"{column.gpu} against {first.gpu}"))
        if column.flips:
            lines.append(bullets(map(flip_words, column.flips)))
        if column.groups:
            lines.append(_groupings(column.groups, first.gpu, column.gpu))
    return Group(*lines)


def _best(columns: Sequence[GpuColumn]) -> str:
    fitting = [column for column in columns if column.plan.memory.fits]
    if not fitting:
        return "it fits none of these GPUs"
    best = min(fitting, key=lambda column: column.plan.step.time_s)
    time = show_seconds(best.plan.step.time_s)
    return f"fastest that fits: {best.gpu}, {time} a step, {rate(tokens_per_s(best.plan))} tokens/s"


def _asked(first: GpuColumn) -> str:
    said = first.plan.described
    return f"{said['model']}, {said['backend']}: {said['workload']}"


def _speeds(columns: Sequence[GpuColumn]) -> RenderableType:
    found = table(
        ("GPU", "step", "tokens/s", "speed-up", "by bandwidth", "by peak", "mode", "overhead"),
        left=(0, 6),
    )
    for column in columns:
        step = column.plan.step
        found.add_row(
            words(column.gpu),
            show_seconds(step.time_s),
            rate(tokens_per_s(column.plan)),
            f"{ratio(column.speed_up)}×",
            f"{ratio(column.bandwidth_ratio)}×",
            f"{ratio(column.peak_ratio)}×",
            words(step.mode),
            share(step.modes[step.mode].launch_share),
        )
    return found


def _speed_key(first: GpuColumn) -> str:
    return (
        f"Speed-up is against {first.gpu}. By bandwidth: what it would be were every byte and "
        "nothing else paid for; by peak: were every FLOP. Overhead: launches, gaps, kernel starts."
    )


def _rest(columns: Sequence[GpuColumn]) -> RenderableType:
    found = table(
        ("GPU", "memory-bound", "compute-bound", "fits", "room for KV", "most sequences", "cost"),
        left=(0, 3),
    )
    for column in columns:
        plan = column.plan
        cost = plan.cost.per_million_tokens
        found.add_row(
            words(column.gpu),
            share(_bound_share(column, "memory")),
            share(_bound_share(column, "compute")),
            yes_no(plan.memory.fits),
            f"{plan.memory.kv_tokens:,} tokens",
            optional_count(plan.memory.max_batch),
            DASH if cost is None else f"{cost:.2f} USD/Mtok",
        )
    return found


def _bound_share(column: GpuColumn, name: str) -> float:
    return sum(kernel.share for kernel in column.plan.kernels if kernel.bound == name)
