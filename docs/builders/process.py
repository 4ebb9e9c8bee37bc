"""Command lines of ``planner``, run in this process: what one has loaded, the next has at hand."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from planner.cli.main import main

FIXED = {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONUTF8": "1"}
"""What a command line finds around it, so that it prints the same anywhere."""
_ABSENT = ("PLANNER_CATALOG",)


@dataclass(frozen=True)
class Printed:
    """What a command line left behind: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


def planner(words: list[str], folder: Path, store: Path) -> Printed:
    """Run ``planner`` with these words in a folder, plans going to a store."""
    out, err = io.StringIO(), io.StringIO()
    with _environment(store), chdir(folder), redirect_stdout(out), redirect_stderr(err):
        code = _ended(words)
    return Printed(code, out.getvalue(), err.getvalue())


def _ended(words: list[str]) -> int:
    try:
        main(words)
    except SystemExit as ended:
        return int(ended.code or 0)


@contextmanager
def _environment(store: Path) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update({**FIXED, "PLANNER_DB": str(store)})
    for name in _ABSENT:
        os.environ.pop(name, None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
