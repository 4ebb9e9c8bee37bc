"""Sessions in a shell: commands that stand in a page, run in turn against one new store."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from builders.outputs import environment

_MARK = "--- next command ---"
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b")
_SHOWN_MOMENT = "2026-12-01 09:00"
"""Every run is at another moment, so all are shown as one."""
_SHIM = '#!/bin/sh\nexec "{python}" -m planner "$@"\n'


def commands(body: str) -> tuple[str, ...]:
    """The lines of a part that follow a prompt."""
    return tuple(re.findall(r"^\$ (.+)$", body, re.MULTILINE))


def replayed(bodies: tuple[str, ...], folder: Path, root: Path) -> tuple[str, ...]:
    """Each part of a session again, with what its commands print now."""
    lines = tuple(commands(body) for body in bodies)
    printed = iter(_printed(tuple(line for part in lines for line in part), folder, root))
    return tuple(
        "\n".join(
            ["```console", *(line for c in part for line in (f"$ {c}", *next(printed))), "```"]
        )
        for part in lines
    )


@cache
def _printed(lines: tuple[str, ...], folder: Path, root: Path) -> tuple[tuple[str, ...], ...]:
    """What each command of one shell prints. Raises RuntimeError when the shell itself fails."""
    script = "".join(f"echo '{_MARK}'\n{line}\n" for line in lines)
    with tempfile.TemporaryDirectory() as made:
        shim, store = Path(made, "bin", "planner"), Path(made, "plans.db")
        shim.parent.mkdir()
        shim.write_text(_SHIM.format(python=sys.executable), encoding="utf-8")
        shim.chmod(0o755)
        surroundings = environment(root, store)
        surroundings["PATH"] = os.pathsep.join([str(shim.parent), surroundings["PATH"]])
        done = subprocess.run(
            ["/bin/sh"],
            input=script,
            cwd=folder,
            env=surroundings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        text = _MOMENT.sub(_SHOWN_MOMENT, done.stdout.replace(made, ""))
    outputs = text.split(f"{_MARK}\n")[1:]
    if len(outputs) != len(lines) or done.returncode:
        raise RuntimeError(f"a session of {folder} broke off:\n{text}")
    return tuple(tuple(map(str.rstrip, output.splitlines())) for output in outputs)
