"""The command line, run in this process, against a store of its own."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

import planner
from planner.cli.main import main

CHAT = """\
name: small chat
model: qwen2.5-0.5b-instruct
gpu: rtx-4090
step: {decode: {batch: 4, context: 1024}}
"""


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    """Commands run as processes of their own find the package, and reports are of one width."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("PLANNER_CATALOG", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(planner.__file__).parent.parent))


@pytest.fixture
def deployment(tmp_path, monkeypatch):
    """A small deployment in the working directory, named as a user would name it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat.yaml").write_text(CHAT, encoding="utf-8")
    return "chat.yaml"


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Runs a command line; plans go to a store in the test's own folder."""
    monkeypatch.setenv("PLANNER_DB", str(tmp_path / "plans.db"))

    def _run(*words: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        return Outcome(ended.value.code, captured.out, captured.err)

    return _run


@pytest.fixture
def hears_ctrl_c():
    """Processes started in the background of a shell begin deaf to it, and so do their own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
