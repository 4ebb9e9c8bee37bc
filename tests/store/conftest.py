"""Every test that asks for ``url`` or ``store`` runs against SQLite and against PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from store_postgresql import running

from planner.store.database import open_store


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server of our own."""
    with running() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Where no store is yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'plans.db'}"
    return request.getfixturevalue("server").fresh_schema()


@pytest.fixture
def store(url):
    """A new, empty store."""
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def file(tmp_path):
    """The file of a SQLite store that is not there yet."""
    return tmp_path / "plans.db"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 1 MiB. Skips where this user may mount none."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no permission to mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True, capture_output=True)


@pytest.fixture
def bound_by_permissions():
    """A folder in which permission bits bind, also for root, who acts as another user meanwhile."""
    folder = Path(tempfile.mkdtemp())  # not pytest's: others may not enter that one
    root = os.geteuid() == 0
    if root:
        shutil.chown(folder, "nobody")
        os.seteuid(folder.stat().st_uid)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o700)
    shutil.rmtree(folder)
