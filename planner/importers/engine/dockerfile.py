"""Dockerfiles: the command of the last ENTRYPOINT and CMD, the image, what ENV and ARG set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from planner.importers.engine.shell import commands
from planner.importers.engine.words import Command, Places, Word

_INSTRUCTION = re.compile(r"^[ \t]*([A-Za-z]+)[ \t]+((?:.*\\\r?\n)*.*)$", re.MULTILINE)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ENV = re.compile(r'([A-Za-z_]\w*)(?:=|[ \t]+)("(?:[^"\\]|\\.)*"|[^\s\\]+)')


def is_dockerfile(text: str, file: str) -> bool:
    """Whether a text is a Dockerfile, by its name or its first instruction."""
    named = "dockerfile" in file.rsplit("/", 1)[-1].lower()
    opens = re.match(r"(?:\s|#.*\n|ARG .*\n)*FROM[ \t]+\S+", text, re.IGNORECASE)
    return named or opens is not None


def docker_commands(text: str, file: str, given: Mapping[str, str]) -> tuple[Command, ...]:
    """What the image runs when it is started, and each RUN before it."""
    places = Places.of(text, file)
    environment = dict(given)
    image: str | None = None
    found: list[Command] = []
    entry: tuple[Command, ...] = ()
    run: tuple[Command, ...] = ()
    for name, body, start in _instructions(text):
        if name == "FROM":
            image = _image(body, environment)
        elif name in ("ENV", "ARG"):
            pairs = {key: value.strip('"') for key, value in _ENV.findall(body)}
            environment.update({k: v for k, v in pairs.items() if name == "ENV" or k not in given})
        elif name == "RUN":
            found += commands(_part(places, start, body), environment)
        elif name == "ENTRYPOINT":
            entry, run = _command(places, start, body, environment), ()
        elif name == "CMD":
            run = _command(places, start, body, environment)
    started = (*entry, *run) if not (entry and run) else (_together(entry[-1], run),)
    return (*found, *(replace(each, image=image) for each in started))


def _image(body: str, environment: Mapping[str, str]) -> str:
    words = [word for word in body.split() if not word.startswith("--")]
    image = words[0] if words else ""
    return re.sub(r"\$\{?(\w+)\}?", lambda found: environment.get(found[1], found[0]), image)


def _instructions(text: str) -> Iterator[tuple[str, str, int]]:
    for found in _INSTRUCTION.finditer(text):
        if not found[0].lstrip().startswith("#"):
            yield found[1].upper(), found[2], found.start(2)


def _part(places: Places, start: int, body: str) -> Places:
    where = places.at(start)
    return Places.of(body, places.file, where.line, where.column)


def _command(
    places: Places, start: int, body: str, environment: Mapping[str, str]
) -> tuple[Command, ...]:
    if not body.lstrip().startswith("["):
        return commands(_part(places, start, body), environment)
    words = [
        Word(re.sub(r"\\(.)", r"\1", each[1]), places.at(start + each.start()))
        for each in _STRING.finditer(body)
    ]
    return (Command(tuple(words), environment),)


def _together(entry: Command, run: tuple[Command, ...]) -> Command:
    """An entry point with the words of CMD as its arguments."""
    words = [word for command in run for word in command.words]
    return replace(entry, words=(*entry.words, *words))
