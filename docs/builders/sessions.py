"""Sessions in a shell: commands that stand in a page, run in turn against one new store.

The shell is a real one. Its ``planner`` hands its words over to this process, which runs them and
hands back what they print.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from builders import process

_MARK = "--- next command ---"
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b")
_SHOWN_MOMENT = "2026-12-01 09:00"
"""Every run is at another moment, so all are shown as one."""
_SHIM = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    line.sendall(json.dumps([os.getcwd(), *sys.argv[1:]]).encode())
    line.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: line.recv(65536), b""))
code, out, err = json.loads(answer)
for stream, text in ((2, err), (1, out)):
    try:
        os.write(stream, text.encode())
    except BrokenPipeError:
        pass
os._exit(code)
"""
_LOOK_S = 0.02
"""How often an idle server looks whether the shell has ended."""


def commands(body: str) -> tuple[str, ...]:
    """The lines of a part that follow a prompt."""
    return tuple(re.findall(r"^\$ (.+)$", body, re.MULTILINE))


def replayed(bodies: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """Each part of a session again, with what its commands print now."""
    lines = tuple(commands(body) for body in bodies)
    printed = iter(_printed(tuple(line for part in lines for line in part), folder))
    return tuple(
        "\n".join(
            ["```console", *(line for c in part for line in (f"$ {c}", *next(printed))), "```"]
        )
        for part in lines
    )


@cache
def _printed(lines: tuple[str, ...], folder: Path) -> tuple[tuple[str, ...], ...]:
    """What each command of one shell prints. Raises RuntimeError when the shell itself fails."""
    script = "".join(f"echo '{_MARK}'\n{line}\n" for line in lines)
    with tempfile.TemporaryDirectory() as made:
        code, text = _shell(script, folder, Path(made))
        text = _MOMENT.sub(_SHOWN_MOMENT, text.replace(made, ""))
    outputs = text.split(f"{_MARK}\n")[1:]
    if len(outputs) != len(lines) or code:
        raise RuntimeError(f"a session of {folder} broke off:\n{text}")
    return tuple(tuple(map(str.rstrip, output.splitlines())) for output in outputs)


def _shell(script: str, folder: Path, made: Path) -> tuple[int, str]:
    """The exit code of a shell and what it printed; ``planner`` in it is this process."""
    shim, store, said = made / "bin" / "planner", made / "plans.db", made / "said"
    shim.parent.mkdir()
    shim.write_text(_SHIM.format(python=sys.executable, address=f"{made}/line"), encoding="utf-8")
    shim.chmod(0o755)
    path = os.pathsep.join([str(shim.parent), os.environ["PATH"]])
    with socket.socket(socket.AF_UNIX) as server, said.open("wb") as output:
        server.bind(f"{made}/line")
        server.listen()
        server.settimeout(_LOOK_S)
        shell = subprocess.Popen(  # noqa: S603 - the commands are those of the project's pages
            ["/bin/sh", "-c", script],
            cwd=folder,
            env={**os.environ, **process.FIXED, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        while shell.poll() is None:
            _serve(server, store)
    return shell.returncode, said.read_text(encoding="utf-8")


def _serve(server: socket.socket, store: Path) -> None:
    """Run the next command line that the shell hands over, if it does within a moment."""
    try:
        line, _ = server.accept()
    except TimeoutError:
        return
    with line:
        line.settimeout(None)
        folder, *words = json.loads(b"".join(iter(lambda: line.recv(65536), b"")))
        done = process.planner(words, Path(folder), store)
        line.sendall(json.dumps([done.code, done.out, done.err]).encode())
