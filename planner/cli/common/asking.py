"""Questions on the terminal, with names near to what was typed. They go to stderr."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import click

from planner.spec.catalog import Catalog, is_path

_SHOWN = 5


def name_of(kind: str, question: str, usual: str, catalog: Catalog) -> str:
    """A name of the catalogue, asked until it is one; an empty answer takes what is in brackets."""
    known, offered = catalog.names(kind), usual
    while True:
        answer = str(click.prompt(question, default=offered, err=True)).strip()
        if answer in known or (kind == "model" and is_path(answer)):
            return answer
        found = near(answer, known)
        said = f"; near it: {', '.join(found)}" if found else f"; as in {', '.join(known[:_SHOWN])}"
        click.echo(f"the catalogue has no {kind} {answer[:80]!r}{said}", err=True)
        offered = found[0] if found else usual


def near(word: str, known: Sequence[str]) -> list[str]:
    """Names that a word may stand for: those that hold all its parts, then those spelt like it."""
    parts = word.lower().replace("_", "-").replace(" ", "-").split("-")
    holding = [name for name in known if all(part in name for part in parts)]
    spelt = difflib.get_close_matches(word.lower(), known, n=_SHOWN, cutoff=0.5)
    return list(dict.fromkeys([*sorted(holding, key=len), *spelt]))[:_SHOWN]


def count(question: str, usual: int) -> int:
    """A whole number above zero."""
    return int(click.prompt(question, default=usual, type=click.IntRange(1, 100_000_000), err=True))


def count_or_auto(question: str) -> int | None:
    """A whole number above zero, or None for ``auto``."""
    while True:
        answer = str(click.prompt(question, default="auto", err=True)).strip()
        if answer == "auto":
            return None
        if answer.isascii() and answer.isdigit() and int(answer[:6]) > 0:
            return int(answer[:6])
        click.echo("a whole number above zero, or auto", err=True)
