"""Output of real runs of ``planner``, for examples in the documentation."""

from __future__ import annotations

import shlex
import tempfile
from functools import cache
from pathlib import Path

from builders import process

ANSWERED = (0, 1)
"""Exit codes of a question that was answered: yes, or no."""


@cache
def printed(command: str, root: Path) -> process.Printed:
    """What a command line leaves behind, run in the folder ``root`` with a new store.

    Raises RuntimeError when it ends with another code than 0 or 1.
    """
    program, *words = shlex.split(command)
    if program != "planner":
        raise ValueError(f"not a command of planner: {command}")
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "plans.db")
        done = process.planner(words, root, store)
    if done.code not in ANSWERED:
        raise RuntimeError(f"{command} ended with {done.code}:\n{done.err}")
    return process.Printed(done.code, done.out.replace(str(store), store.name), done.err)


def run(command: str, root: Path) -> str:
    """What a command line prints (see ``printed``)."""
    return printed(command, root).out


def fenced(command: str, root: Path) -> str:
    """The command and what it prints, as a block of text."""
    lines = [line.rstrip() for line in run(command, root).splitlines()]
    return "\n".join(["```text", f"$ {command}", *lines, "```"])
