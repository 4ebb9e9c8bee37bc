"""Plans for the rows of measured files: a deployment written in one line, and flags for it."""

from __future__ import annotations

from functools import cache

from planner.plan.types import Plan
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Question, ask


@cache
def catalog() -> Catalog:
    """The catalogue that ships."""
    return Catalog.standard()


def question_of(deployment: str, flags: str = "") -> Question:
    """The question of a row. ``flags`` are the backend's; or a backend, and its flags behind."""
    text = deployment
    if flags.startswith("backend: "):
        name, _, rest = flags.removeprefix("backend: ").partition(", ")
        text += f", backend: {{name: {name}, flags: {{{rest}}}}}"
    elif flags and "flags: {" in text:
        text = text.replace("flags: {", f"flags: {{{flags}, ", 1)
    elif flags:
        text = text.replace("backend: {", f"backend: {{flags: {{{flags}}}, ", 1)
    return ask(load_text(f"{{{text}}}\n", "measured", "deployment"), catalog())


@cache
def planned(deployment: str, flags: str = "") -> Plan:
    """The plan of a row."""
    return plan_question(question_of(deployment, flags))


def linked(case: str, address: str) -> str:
    """The name of a case, as a link to where it stands."""
    return f"[{case}]({address.partition(', ')[0]})" if address.startswith("https") else case
