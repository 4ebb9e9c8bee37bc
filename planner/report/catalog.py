"""The catalogue as text: lists, one entry with its file, and the verdict of a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from planner.report.cells import bullets, facts, heading, small, words
from planner.report.tables import cell, header, rows_view


def catalog_view(kind: str, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The entries of one kind."""
    return Group(rows_view(rows), small(f"{len(rows)} {kind}; `planner catalog show {kind} NAME`"))


def kinds_view(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The kinds of entries."""
    return Group(rows_view(rows), small("`planner catalog list KIND` lists one"))


def entry_view(
    title: str, about: str | None, figures: Mapping[str, Any], text: Sequence[str]
) -> RenderableType:
    """One entry: its title, what follows from its figures, and its file with the sources."""
    parts: list[RenderableType] = [words(title, "bold")]
    if about:
        parts.append(words(about))
    parts += [
        words(""),
        facts((header(name), cell(name, value)) for name, value in figures.items()),
    ]
    if text:
        parts += [heading("The file, with the source of every figure"), *map(words, text)]
    return Group(*parts)


def check_view(
    counts: Mapping[str, int], worst: tuple[str, float] | None, faults: Sequence[str]
) -> RenderableType:
    """What a check of the catalogue looked at, and what it found."""
    looked = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    parts: list[RenderableType] = [words(f"checked {looked}")]
    if worst:
        name, error = worst
        parts.append(
            words(f"parameter totals: worst {name}, {100 * error:.4f} % from what is published")
        )
    if faults:
        parts += [words(f"{len(faults)} found wrong:", "bold red"), bullets(faults)]
    else:
        parts.append(words("nothing found wrong", "green"))
    return Group(*parts)


def deep_view(count: int, refused: Mapping[tuple[str, str], str]) -> RenderableType:
    """How many plans were made, and why the others were not: a line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for (model, gpu), reason in refused.items():
        by_reason.setdefault(reason, []).append(f"{model} on {gpu}")
    said = words(f"planned {count - len(refused)} of {count} models × GPUs")
    lines = [f"{reason}: {', '.join(names)}" for reason, names in by_reason.items()]
    return Group(said, bullets(lines))
