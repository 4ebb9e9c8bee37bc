"""Lists of captured sizes as people read them: what a step costs with each, and the flag."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from planner.plan.captured_types import CaptureList, CaptureSearch
from planner.report.cells import DASH, heading, share, small, table, words
from planner.units import show_bytes, show_seconds

_SHOWN = 8
"""Best lists in the table: the first ones, and then those that halve the loss."""
_NOTHING = 0.0005
"""What one decimal of a percentage shows as nothing."""


def captured_view(found: CaptureSearch) -> RenderableType:
    """The chosen list, its flag, and the lists beside it."""
    parts: list[RenderableType] = [words(line) for line in _headline(found)]
    parts.append(heading("Lists of captured sizes"))
    parts.append(_lists((*found.versions, *_some(found)), found.chosen))
    if found.paste:
        parts += [heading("To paste"), words(found.paste)]
    parts += [small(f"- {note}") for note in found.notes]
    parts.append(
        small(
            "loss: expected step over that with a graph for every batch. padding: rows of padding "
            "by rows of batches. no graph: steps larger than any size. memory and start-up: by "
            "the number of graphs; what one takes differs tenfold between reports "
            "(docs/cuda-graphs.md)."
        )
    )
    return Group(*parts)


def _headline(found: CaptureSearch) -> tuple[str, ...]:
    chosen, default = found.chosen, found.default
    many = f"{found.smallest:,} to {found.largest:,}" if found.batches > 1 else f"{found.largest:,}"
    sizes = f"{len(chosen.sizes)} captured sizes" if len(chosen.sizes) > 1 else "one captured size"
    return (
        (
            f"{found.model} on {found.gpu}, {found.engine} {found.version}, {found.mode} graphs: "
            f"batches of {many} sequences at {found.context:,} tokens{_cut(found)}"
        ),
        (
            f"{sizes}: {show_seconds(chosen.step_s)} a step, {_signed(chosen, default)} the "
            f"engine's {len(default.sizes)} sizes ({show_seconds(default.step_s)}); without graphs "
            f"{show_seconds(found.uncaptured_s)}"
        ),
    )


def _cut(found: CaptureSearch) -> str:
    """How steps differ from one token a sequence in one piece."""
    parts = [""]
    if found.stages > 1:
        parts.append(f"in micro-batches of {found.stages} stages")
    if found.drafts:
        by = f" of {found.draft}" if found.draft else ""
        parts.append(f"{found.drafts} drafts{by} verified a step")
    return ", ".join(parts)


def _signed(chosen: CaptureList, default: CaptureList) -> str:
    change = chosen.step_s / default.step_s - 1
    if abs(change) < _NOTHING:
        return "as fast as with"
    return f"{abs(change):.1%} {'faster' if change < 0 else 'slower'} than with"


def _some(found: CaptureSearch) -> list[CaptureList]:
    """The shortest lists, those that halve what is lost, and the chosen one."""
    shown = list(found.best[:_SHOWN])
    for each in found.best[_SHOWN:]:
        if each.loss > _NOTHING and each.loss < shown[-1].loss / 2:
            shown.append(each)
    if found.chosen not in shown:
        shown.append(found.chosen)
    return sorted(shown, key=lambda each: len(each.sizes))


def _lists(lists: Sequence[CaptureList], chosen: CaptureList) -> Table:
    columns = ("list", "sizes", "largest", "graphs", "step", "loss", "padding", "no graph")
    shown = table((*columns, "memory", "start-up"), left=(0,))
    for each in lists:
        shown.add_row(
            words(each.name + (", chosen" if each == chosen else "")),
            f"{len(each.sizes):,}",
            f"{each.sizes[-1]:,}",
            f"{each.graphs:,}",
            show_seconds(each.step_s, 4),
            share(each.loss),
            share(each.padding_share),
            share(each.uncaptured_share),
            show_bytes(each.graphs_bytes) if each.graphs_bytes else DASH,
            show_seconds(each.capture_s) if each.capture_s else DASH,
        )
    return shown
