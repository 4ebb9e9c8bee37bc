"""A file of options that a command line names: vLLM's and SGLang's `--config`, TensorRT-LLM's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from planner.errors import Fault, SpecError
from planner.importers.engine.given import Given, below, nested
from planner.importers.engine.table import Nested, Option, Silent, Turns, Unmodelled, normal
from planner.importers.engine.words import Places, Refused, Word
from planner.spec.foreign import documents
from planner.spec.origin import Document, Path

Beside = Callable[[str], Places | None]
"""The text of a file by its path as the command has it, or None."""
_WHOLE = (Silent, Unmodelled, Turns)
"""What takes an object as one value, whatever is in it."""


def contents(path: str, files: Mapping[str, Places], beside: Beside | None) -> Places | None:
    """The text of a file: as a text around the command wrote it, else as it lies beside it.

    A file of a ConfigMap is known by its name alone: where it is mounted stands elsewhere.
    """
    name = PurePosixPath(path).name
    named = [text for key, text in files.items() if PurePosixPath(key).name == name]
    found = files.get(path) or (named[0] if len(named) == 1 else None)
    return found or (beside(path) if beside else None)


def options_in(text: Places, known: Mapping[str, Option]) -> Iterator[Given]:
    """The options of a file, each with its place. Raises Refused for one that is no YAML."""
    try:
        read = documents(text.text, text.file)
    except SpecError as error:
        faults = [
            Fault(text.place(each.where.line, each.where.column), each.message, each.hint)
            for each in error.faults
        ]
        raise Refused(faults) from error
    for data, document in read:
        if not isinstance(data, dict):
            raise Refused([Fault(text.place(1, 1), "options stand as NAME: VALUE, a line each")])
        for given in _Leaves(text, document, known).of(data, "", ()):
            yield from nested(given, known)


class _Leaves:
    """The options of one document: those below another's name with a dot between."""

    def __init__(self, text: Places, document: Document, known: Mapping[str, Option]) -> None:
        self.text = text
        self.document = document
        self.known = known

    def of(self, data: Mapping[str, Any], above: str, path: Path) -> Iterator[Given]:
        for key, value in data.items():
            name, at = f"{above}{normal(str(key))}", (*path, key)
            option = self.known.get(name) or below(name, self.known)
            if isinstance(value, dict) and value and self._opens(name, option):
                full = option.name if option else name
                yield from self.of(value, f"{full}.", at)
            elif value is None and (option is None or option.shape != "switch"):
                yield self._given(name, at, "null", Option(name, Silent()))
            else:
                yield self._given(name, at, self._words(value), option)

    def _opens(self, name: str, option: Option | None) -> bool:
        """Whether what stands below a name are options of their own."""
        if option is not None and isinstance(option.effect, _WHOLE):
            return False
        inside = any(key.startswith(f"{name}.") for key in self.known)
        return inside or (option is not None and isinstance(option.effect, Nested))

    def _words(self, value: Any) -> Any:
        if value is None:
            return "false"  # a switch that is nothing is off
        if isinstance(value, dict):
            return json.dumps(value) if value else "true"
        if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
            return [_word(item) for item in value]
        return _word(value) if not isinstance(value, list) else json.dumps(value)

    def _given(self, name: str, at: Path, words: Any, option: Option | None) -> Given:
        mark = self.document.marks.get(at)
        start = self.text.place(1, 1)
        key = self.text.place(mark.key_line, mark.key_column) if mark else start
        where = self.text.place(mark.value_line, mark.value_column) if mark else start
        texts = words if isinstance(words, list) else [words]
        return Given(Word(name, key), name, tuple(Word(each, where) for each in texts), option)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
