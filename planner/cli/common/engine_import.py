"""An engine's command line, given as it is or in a file, as a deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from planner.cli.common.importing import Imported
from planner.errors import PlannerError, UsageError
from planner.importers import engine
from planner.spec import overrides
from planner.spec.catalog import Catalog
from planner.spec.origin import Document
from planner.spec.source import absent, read_bytes

GIVEN = "command"
"""What a command line on the command line is called in messages."""


def engine_import(
    source: str,
    catalog: Catalog,
    *,
    gpu: str | None,
    step: str | None,
    environment: Sequence[str],
    which: int,
) -> Imported:
    """The deployment of one command in a source.

    Raises PlannerError where there is none, or a value in it cannot be read.
    """
    servers = _servers(*_text(source), _variables(environment))
    if which > len(servers):
        raise UsageError(f"it starts {len(servers)} engines", f"--which 1 to {len(servers)}")
    start = servers[which - 1]
    if gpu is not None:
        catalog.find("gpu", gpu)
    made = engine.deployment(start, catalog, gpu, _step(step), _beside(source))
    others = [
        f"another command stands at {each.at.where}: --which {number}"
        for number, each in enumerate(servers, 1)
        if number != which
    ]
    comments = {**made.comments, "": [*made.comments[""], *others]}
    facts = {"engine": start.engine, "model": made.data["model"]}
    rows = tuple({**asdict(row), "where": str(row.where)} for row in made.rows)
    return Imported("import-engine", made.data, comments, facts, (*made.notes, *others), rows)


def _servers(text: str, file: str, environment: dict[str, str]) -> list[engine.Start]:
    found = engine.starts(text, file, environment)
    if not found:
        hint = "known are vllm serve, vllm bench, sglang.launch_server, trtllm-serve"
        raise UsageError(f"{file} starts no engine", hint)
    servers = [start for start in found if start.verb != "bench serve"]
    if not servers:
        where = found[0].at.where
        raise UsageError(f"{where}: vllm bench serve is a client", "import the server's command")
    return servers


def _text(source: str) -> tuple[str, str]:
    """The text and its name: a file's where there is one."""
    path = Path(source)
    if not _is_file(source):
        if not source.strip():
            raise UsageError("there is no command line in this", "as in 'vllm serve MODEL'")
        if not any(c.isspace() for c in source.strip()) and len(source) < _LONGEST_PATH:
            raise absent(path)
        return source, GIVEN
    try:
        return read_bytes(path).decode("utf-8").removeprefix("\ufeff"), source
    except UnicodeDecodeError as error:
        raise PlannerError(f"{source} is no UTF-8 text") from error


_LONGEST_PATH = 1_000


def _beside(source: str) -> engine.Beside:
    """Reads files that a command line names: of a script, those in its folder too."""
    folder = Path(source).parent if _is_file(source) else Path()

    def read(path: str) -> engine.Places | None:
        for each in (folder / path, Path(path), folder / Path(path).name):
            if path and _is_file(str(each)):
                return engine.Places.of(*_text(str(each)))
        return None

    return read


def _is_file(path: str) -> bool:
    try:
        return len(path) < _LONGEST_PATH and Path(path).is_file()
    except (OSError, ValueError):
        return False


def _variables(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not (name.isidentifier() or name.isdecimal()):
            raise UsageError(f"--env {text[:60]!r} is no NAME=VALUE", "as in --env TP=8")
        found[name] = value
    return found


def _step(text: str | None) -> Any:
    """What ``--step`` says, read by the rules of a spec. Raises SpecError."""
    if text is None:
        return None
    data, _ = overrides.apply({}, Document("--step"), [f"step={text}"], "--step")
    return data["step"]
