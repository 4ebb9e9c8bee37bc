"""Output of real runs of ``planner``, for examples in the documentation."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

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
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "plans.db")
        done = subprocess.run(  # noqa: S603 - the project's own pages name the command
            [sys.executable, "-m", "planner", *words],
            cwd=root,
            env=environment(root, store),
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in ANSWERED:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout.replace(str(store), store.name)


def fenced(command: str, root: Path) -> str:
    """The command and what it prints, as a block of text."""
    lines = [line.rstrip() for line in run(command, root).splitlines()]
    return "\n".join(["```text", f"$ {command}", *lines, "```"])


def environment(root: Path, store: Path) -> dict[str, str]:
    """What a command line finds around it, so that it prints the same anywhere."""
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    fixed = {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONUTF8": "1", "PLANNER_DB": str(store)}
    return {**os.environ, **fixed, "PYTHONPATH": path}
