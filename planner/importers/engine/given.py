"""Words after an engine's name to options with their values: who takes how many words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.importers.engine.table import Nested, Option, Unmodelled, normal
from planner.importers.engine.words import Word

_OPTION = re.compile(r"-{1,2}[A-Za-z]")
_SHORT = re.compile(r"-[A-Z]\d+")
_TRUTHS = frozenset(("true", "false"))
_LISTED = Unmodelled("what it changes in a step is not described")


@dataclass(frozen=True)
class Given:
    """One option as it was written, and what it is known as."""

    word: Word
    """The option itself; a positional argument is its own."""
    name: str
    values: tuple[Word, ...]
    option: Option | None
    """None for one that is not known."""
    switched: bool = True
    """False for ``--no-NAME``."""

    @property
    def text(self) -> str:
        """Its values as one text."""
        return " ".join(value.text for value in self.values)

    @property
    def missing(self) -> str | None:
        """A variable that the values need and nothing sets."""
        return next((value.missing for value in self.values if value.missing), None)


def read(words: Sequence[Word], known: Mapping[str, Option]) -> Iterator[Given]:
    """The options of a command line, in order. Positional arguments have the name ``""``."""
    index = 0
    while index < len(words):
        word = words[index]
        if not _OPTION.match(word.text):
            yield Given(word, "", (word,), None)
            index += 1
            continue
        given, used = _option(words, index, known)
        yield from nested(given, known)
        index += used


def _option(words: Sequence[Word], index: int, known: Mapping[str, Option]) -> tuple[Given, int]:
    word = words[index]
    name, equals, value = word.text.partition("=")
    if not equals and _SHORT.fullmatch(name):
        name, value, equals = name[:2], name[2:], "="
    found = normal(name)
    option, switched = known.get(found), True
    if option is None and found.startswith("no-") and found[3:] in known:
        option, switched = known[found[3:]], False
    if option is None:
        option = below(found, known)
    if equals:
        start = Word(value, word.where, word.missing)
        return Given(word, found, (start,), option, switched), 1
    following = _following(words[index + 1 :], option if switched else None, switched=switched)
    return Given(word, found, following, option, switched), 1 + len(following)


def below(name: str, known: Mapping[str, Option]) -> Option | None:
    """An option below one that takes JSON: ``-O.mode``, ``--compilation-config.mode``."""
    head, dot, rest = name.partition(".")
    above = known.get(head)
    if not dot or above is None or not isinstance(above.effect, Nested):
        return None
    full = f"{above.name}.{rest}"
    return known.get(full) or Option(full, _LISTED)


def _following(words: Sequence[Word], option: Option | None, *, switched: bool) -> tuple[Word, ...]:
    """The words that belong to an option; an unknown one takes one that is no option."""
    if not switched:
        return ()
    values: list[Word] = []
    for word in words:
        if _OPTION.match(word.text):
            break
        values.append(word)
    if option is None or option.shape == "value":
        return tuple(values[:1])
    if option.shape == "many":
        return tuple(values)
    return tuple(values[:1]) if values and values[0].text.lower() in _TRUTHS else ()


def nested(given: Given, known: Mapping[str, Option]) -> Iterator[Given]:
    """An option that takes JSON, as one for each key in it; others as they are."""
    option = given.option
    if option is None or not isinstance(option.effect, Nested):
        yield given
        return
    try:
        data = json.loads(given.text)
    except (ValueError, RecursionError):
        data = None
    if data == 0 and (eager := known.get("enforce-eager")):  # -O0 is another word for it
        yield Given(given.word, eager.name, (replace(given.values[0], text="true"),), eager)
        return
    if not isinstance(data, dict):
        yield replace(given, option=Option(option.name, _LISTED))
        return
    word = given.values[0]
    for path, value in _leaves(data, option.name):
        name = normal(path)
        text = value if isinstance(value, str) else json.dumps(value)
        found = known.get(name) or Option(name, _LISTED)
        yield Given(given.word, name, (replace(word, text=text),), found)


def _leaves(data: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{path}.{key}")
        else:
            yield f"{path}.{key}", value
