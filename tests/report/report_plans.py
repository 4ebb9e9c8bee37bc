"""Real plans for the tests of reports, each made once."""

from __future__ import annotations

import functools
import io
from collections import Counter

from rich.cells import cell_len
from rich.console import Console

from planner.plan.assemble import assemble
from planner.plan.types import Plan
from planner.resources import folder
from planner.spec.catalog import Catalog
from planner.spec.load import load_deployment
from planner.spec.question import Question, ask

CATALOG = Catalog.standard()
SPECS = sorted(
    path.stem for path in folder("specs").glob("*.yaml") if not path.stem.startswith("prices")
)
CHAT = "qwen2.5-7b-rtx4090"


@functools.cache
def question(spec: str = CHAT, *sets: str) -> Question:
    """The question in a file of specs/."""
    return ask(load_deployment(folder("specs") / f"{spec}.yaml", sets), CATALOG)


@functools.cache
def plan(spec: str = CHAT, *sets: str) -> Plan:
    """Its plan."""
    return assemble(question(spec, *sets))


def lines(view: object, width: int = 100) -> list[str]:
    """The view as the command prints it."""
    console = Console(
        file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False, no_color=True
    )
    console.print(view)
    return console.file.getvalue().splitlines()


def text(view: object, width: int = 100) -> str:
    """The view with every run of spaces and every line break as one space."""
    return " ".join(" ".join(lines(view, width)).split())


def assert_fits(view: object) -> None:
    """In 100 columns no line is longer, and no letter is lost that 500 columns show."""
    narrow = lines(view)
    assert max(map(cell_len, narrow)) <= 100
    assert letters(narrow) == letters(lines(view, 500))


def letters(shown: list[str]) -> Counter[str]:
    """What is printed, without spaces and rules."""
    return Counter(c for line in shown for c in line if not c.isspace() and c != "─")
