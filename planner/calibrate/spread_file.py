"""Writes a spread to ``catalog/spreads/NAME.yaml``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from planner.calibrate.scalars import flow, quoted
from planner.spec.types import SpreadSpec


def write(folder: Path, spec: SpreadSpec) -> Path:
    """The file, made anew."""
    file = folder / f"{spec.name}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(_lines(spec)) + "\n", encoding="utf-8")
    return file


def _lines(spec: SpreadSpec) -> Iterator[str]:
    yield "kind: spread"
    for name in ("name", "title", "about", "date", "script"):
        yield f"{name}: {quoted(getattr(spec, name))}"
    yield f"vendors: [{', '.join(map(quoted, spec.vendors))}]"
    for part in ("figures", "others"):
        if figures := getattr(spec, part):
            yield f"{part}:"
            for name, figure in figures.items():
                yield f"  {name}: {flow(figure.model_dump().items())}"
