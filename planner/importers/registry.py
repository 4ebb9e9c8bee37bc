"""Where importers register themselves, each under the name of its format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from planner.importers.document import Document
from planner.plan.runs import Run
from planner.registry import Registry

Shape = Literal["bytes", "text", "json"]


@dataclass(frozen=True)
class Importer:
    """One family of files: how it is told from others by its content, and how it is read."""

    name: str
    title: str
    """For people, as in ``vllm bench serve``."""
    shape: Shape
    """What the file must be before ``claims`` is asked."""
    claims: Callable[[Document], bool]
    """Whether the content is of this family. Raises ImportRefused for JSON that is none."""
    read: Callable[[Document], tuple[Run, ...]]
    """Every run in the file. Raises ImportRefused."""


IMPORTERS: Registry[Importer] = Registry("importer")


def register(importer: Importer) -> Importer:
    """File an importer under its name. Raises ValueError when the name is taken."""
    return IMPORTERS.register(importer.name)(importer)
