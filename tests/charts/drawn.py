"""Plans to draw, each made once, and how tests read a chart."""

from __future__ import annotations

import functools
from typing import Any

from planner.plan.types import Plan
from planner.resources import folder
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.load import load_deployment, load_text
from planner.spec.question import Question, ask
from planner.spec.types import DeploymentSpec

CATALOG = Catalog.standard()
CHAT = "qwen2.5-7b-rtx4090"
PREFILL = """\
name: prompts
model: llama-3.1-8b-instruct
gpu: h100-sxm
step: {prefill: {batch: 4, tokens: 2048}}
"""
MOE = ("model=qwen3-30b-a3b", "gpu=h100-sxm", "step.decode.batch=64")


@functools.cache
def question(*sets: str) -> Question:
    """The chat of specs/, or a change of it."""
    return ask(load_deployment(folder("specs") / f"{CHAT}.yaml", sets), CATALOG)


@functools.cache
def plan(*sets: str) -> Plan:
    """Its plan."""
    return plan_question(question(*sets))


@functools.cache
def prefill_question() -> Question:
    """Prompts on an H100."""
    deployment = load_text(PREFILL, "prompts.yaml", "deployment")
    assert isinstance(deployment, DeploymentSpec)
    return ask(deployment, CATALOG)


@functools.cache
def prefill() -> Plan:
    """A plan bound by compute."""
    return plan_question(prefill_question())


def rows(spec: Any) -> list[dict[str, Any]]:
    """Every row of data in a chart's specification, those of equal layers once."""
    return [row for values in spec.get("datasets", {}).values() for row in values]


def titles(spec: Any) -> set[str]:
    """Titles of all axes."""
    found: set[str] = set()
    if isinstance(spec, dict):
        for channel in ("x", "y"):
            axis = spec.get("encoding", {}).get(channel)
            if isinstance(axis, dict) and axis.get("title"):
                found.add(axis["title"])
        found |= {title for inner in spec.values() for title in titles(inner)}
    elif isinstance(spec, list):
        found |= {title for inner in spec for title in titles(inner)}
    return found
