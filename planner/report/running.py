"""How an engine is started as chosen: what to type, how often, and what that leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType

from planner.report.cells import bullets, heading, typed


def running(command: Mapping[str, Any]) -> list[RenderableType]:
    """An `EngineCommand` with its ``line``, as `planner choose --json` has it."""
    servers, install = command["servers"], command["install"]
    copies = "" if servers == 1 else f", {servers} such servers"
    remarks = [*(f"not in the command: {text}" for text in command["unsaid"]), *command["notes"]]
    return [
        heading(f"To run the cheapest{copies}"),
        *([typed(f"pip install {install}")] if install else []),
        typed(command["line"]),
        *([bullets(remarks)] if remarks else []),
    ]
