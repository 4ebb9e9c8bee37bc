"""Kubernetes manifests and docker-compose files: the command of every container in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from planner.errors import Where
from planner.importers.engine.shell import commands
from planner.importers.engine.variables import Variables
from planner.importers.engine.words import Command, Places, Word
from planner.spec.foreign import documents
from planner.spec.origin import Document, Path

_RUNS = ("command", "args", "entrypoint")
_DEEPEST = 40


def is_manifest(text: str, file: str) -> bool:
    """Whether a text is YAML of Kubernetes or compose, by its name or its first keys."""
    named = file.endswith((".yaml", ".yml"))
    return named or re.search(r"^(?:apiVersion|services|kind):", text, re.MULTILINE) is not None


def manifest_commands(text: str, file: str, given: Mapping[str, str]) -> tuple[Command, ...]:
    """The command of every container. Raises SpecError for text that is no YAML."""
    found: list[Command] = []
    read = documents(text, file)
    files: dict[str, Places] = {}
    for data, document in read:
        files |= _config_map(data, document)
    for data, document in read:
        for container, path in _containers(data, (), 0):
            commands_of = _Container(container, path, document, given).commands()
            found += (replace(each, files={**files, **each.files}) for each in commands_of)
    return tuple(found)


def _config_map(data: Any, document: Document) -> dict[str, Places]:
    """The files of a ConfigMap, by their names."""
    held = data.get("data") if isinstance(data, dict) and data.get("kind") == "ConfigMap" else None
    pairs = held.items() if isinstance(held, dict) else ()
    return {
        str(name): _places(document, text, ("data", name))
        for name, text in pairs
        if isinstance(text, str)
    }


def _containers(data: Any, path: Path, depth: int) -> Iterator[tuple[dict[str, Any], Path]]:
    if depth > _DEEPEST:
        return
    if isinstance(data, dict):
        if any(isinstance(data.get(key), list | str) for key in _RUNS):
            yield data, path
        for key, value in data.items():
            yield from _containers(value, (*path, key), depth + 1)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _containers(value, (*path, index), depth + 1)


class _Container:
    """One mapping with a command, arguments, or both."""

    def __init__(
        self, data: dict[str, Any], path: Path, document: Document, given: Mapping[str, str]
    ) -> None:
        self.data = data
        self.path = path
        self.document = document
        self.environment = {**_environment(data), **given}

    def commands(self) -> tuple[Command, ...]:
        """The command, or those of the script that it hands to a shell."""
        keys = ("entrypoint", "command") if "entrypoint" in self.data else ("command", "args")
        words = [word for key in keys for word in self._words(key)]
        image = self.data.get("image")
        shown = image if isinstance(image, str) else None
        command = Command(tuple(words), self.environment, shown)
        return tuple(replace(each, image=shown) for each in self._unwrapped(command))

    def _words(self, key: str) -> Iterator[Word]:
        value = self.data.get(key)
        if isinstance(value, str):
            for command in commands(self._places(value, (*self.path, key)), self.environment):
                yield from command.words
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict | list) or item is None:
                    continue
                text = item if isinstance(item, str) else _as_written(item)
                yield self._word(text, (*self.path, key, index))

    def _word(self, text: str, path: Path) -> Word:
        if re.search(r"\s", text):  # a script for `sh -c`, whose variables the shell puts in
            return Word(text, self._where(path))
        expanded, missing = Variables(self.environment).expand(text)
        return Word(expanded, self._where(path), missing)

    def _where(self, path: Path) -> Where:
        return _where(self.document, path)

    def _places(self, text: str, path: Path) -> Places:
        return _places(self.document, text, path)

    def _unwrapped(self, command: Command) -> tuple[Command, ...]:
        """The commands of ``sh -c SCRIPT``; the command itself where it is none."""
        texts = [word.text for word in command.words]
        at = next((i for i, text in enumerate(texts) if re.fullmatch(r"-\w*c", text)), None)
        shell = at is not None and at > 0 and re.search(r"(?:^|/)(?:ba|da|z)?sh$", texts[0])
        if not shell or at is None or at + 1 >= len(texts):
            return (command,)
        script = command.words[at + 1]
        path = next(
            (
                (*self.path, key, index)
                for key in _RUNS
                if isinstance(self.data.get(key), list)
                for index, item in enumerate(self.data[key])
                if item == script.text
            ),
            self.path,
        )
        return commands(self._places(script.text, path), self.environment)


def _where(document: Document, path: Path) -> Where:
    mark = document.marks.get(path)
    if mark is None:
        return Where(document.file)
    return Where(document.file, mark.value_line, mark.value_column)


def _places(document: Document, text: str, path: Path) -> Places:
    """Where the characters of a scalar stand, as near as YAML's folding lets one tell."""
    where, lines = _where(document, path), document.lines
    line = lines[where.line - 1] if 0 < where.line <= len(lines) else ""
    written = line[where.column - 1 :]
    if written.startswith("|"):
        first = next((row for row in lines[where.line :] if row.strip()), "")
        indent = len(first) - len(first.lstrip(" "))
        return Places.of(text, where.file, where.line + 1, 1 + indent, indent)
    shift = 1 if written[:1] in ("'", '"') else 0
    return Places.of(text, where.file, where.line, where.column + shift)


def _environment(data: Mapping[str, Any]) -> dict[str, str]:
    """What ``env`` (Kubernetes) or ``environment`` (compose) sets."""
    found: dict[str, str] = {}
    for key in ("env", "environment"):
        given = data.get(key)
        if isinstance(given, dict):
            found |= {str(k): _as_written(v) for k, v in given.items() if _is_plain(v)}
        for item in given if isinstance(given, list) else ():
            if isinstance(item, str) and "=" in item:
                name, _, value = item.partition("=")
                found[name] = value
            elif isinstance(item, dict) and _is_plain(item.get("value")):
                found[str(item.get("name"))] = _as_written(item["value"])
    return found


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _as_written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
