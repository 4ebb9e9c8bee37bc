"""Output of real runs of ``planner``, for examples in the documentation."""

from __future__ import annotations

import io
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

from planner.cli.main import main

ANSWERED = (0, 1)
"""Exit codes of a question that was answered: yes, or no."""


@cache
def run(command: str, root: Path) -> str:
    """What a command line prints, from the folder ``root``, with a new store.

    Raises RuntimeError when it ends with another code than 0 or 1.
    """
    program, *words = shlex.split(command)
    if program != "planner":
        raise ValueError(f"not a command of planner: {command}")
    out, errors = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "plans.db")
        with _inside(root, environment(root, store)), redirect_stdout(out), redirect_stderr(errors):
            code = _ended(words)
    if code not in ANSWERED:
        raise RuntimeError(f"{command} ended with {code}:\n{errors.getvalue()}")
    return out.getvalue().replace(str(store), store.name)


def _ended(words: list[str]) -> object:
    """The exit code of a command line, run in this process: a new one takes a second to start."""
    try:
        main(words)
    except SystemExit as ended:
        return ended.code


@contextmanager
def _inside(folder: Path, surroundings: Mapping[str, str]) -> Iterator[None]:
    """In a folder with environment variables of its own."""
    before = dict(os.environ)
    os.environ.update(surroundings)
    try:
        with chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def fenced(command: str, root: Path) -> str:
    """The command and what it prints, as a block of text."""
    lines = [line.rstrip() for line in run(command, root).splitlines()]
    return "\n".join(["```text", f"$ {command}", *lines, "```"])


def environment(root: Path, store: Path) -> dict[str, str]:
    """What a command line finds around it, so that it prints the same anywhere."""
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    fixed = {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONUTF8": "1", "PLANNER_DB": str(store)}
    return {**os.environ, **fixed, "PYTHONPATH": path}
