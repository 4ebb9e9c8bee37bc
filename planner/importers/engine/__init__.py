"""Engines' command lines as deployments, wherever they stand: shell, Dockerfile, manifest."""

from __future__ import annotations

from planner.importers.engine import sglang, trtllm, vllm
from planner.importers.engine.command import engine_command, sayable
from planner.importers.engine.config_file import Beside
from planner.importers.engine.draft import Row
from planner.importers.engine.find import Start, starts
from planner.importers.engine.spec import Engine, deployment
from planner.importers.engine.table import LINES
from planner.importers.engine.words import Places, Refused

__all__ = [
    "LINES",
    "Beside",
    "Engine",
    "Places",
    "Refused",
    "Row",
    "Start",
    "deployment",
    "engine_command",
    "sayable",
    "sglang",
    "starts",
    "trtllm",
    "vllm",
]
