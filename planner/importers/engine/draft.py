"""Options of a command line to the fields of a deployment, each with what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.errors import Fault, Where
from planner.importers.engine.given import Given
from planner.importers.engine.table import (
    Field,
    Flag,
    Included,
    Option,
    Silent,
    Turns,
    Unmodelled,
    flag_value,
)
from planner.registry import nearest

Kind = Literal["set", "silent", "unmodelled", "unknown"]
_NO_FILE = "that file is not here, and its options are not read"
_SILENT = "changes nothing that is planned"


@dataclass(frozen=True)
class Row:
    """One word of the command line and what became of it."""

    where: Where
    word: str
    value: str
    kind: Kind
    becomes: str


@dataclass
class Fields:
    """What was read so far."""

    known: Mapping[str, Option]
    values: dict[str, Any] = field(default_factory=dict)
    """By dotted path of the deployment, or a word of this importer (``dtype``)."""
    flags: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def take(self, given: Given) -> None:
        """Note one option. A value that cannot be read is a fault at its place."""
        option = given.option
        if option is None:
            self._unknown(given)
        elif isinstance(option.effect, Silent):
            self._note(given, "silent", _SILENT)
        elif isinstance(option.effect, Unmodelled):
            self._note(given, "unmodelled", option.effect.why)
        elif isinstance(option.effect, Included):
            self._note(given, "unmodelled", _NO_FILE)
        elif isinstance(option.effect, Turns):
            self._turn(given, option.effect)
        elif isinstance(option.effect, Field | Flag):
            self._set(given, option, option.effect)

    def _set(self, given: Given, option: Option, effect: Field | Flag) -> None:
        name = f"--{option.name}"
        if given.missing:
            hint = f"--env {given.missing.strip('${}()')}=VALUE"
            self._fault(given, f"{name}: {given.missing} is not set in this text", hint)
            return
        text = given.values[0].text if option.shape == "many" and given.values else given.text
        if option.shape == "switch":
            text = (text or "true") if given.switched else "false"
        elif not given.values:
            self._fault(given, f"{name} has no value")
            return
        if isinstance(effect, Flag):
            self._flag(given, effect, text)
            return
        try:
            value = effect.read(text)
        except ValueError as error:
            self._fault(given, f"{name}: {error}")
            return
        self.values[effect.path] = value
        self._note(given, "set", _becomes(effect.path, value))

    def _turn(self, given: Given, effect: Turns) -> None:
        try:
            value = effect.says(given.text)
        except ValueError as error:
            self._note(given, "unmodelled", str(error))
            return
        if value:
            self.flags[effect.flag] = value
            self._note(given, "set", _becomes(f"backend.flags.{effect.flag}", value))
        else:
            self._note(given, "silent", _SILENT)

    def _flag(self, given: Given, effect: Flag, text: str) -> None:
        refusals = []
        for name, spec in effect.choices:
            try:
                self.flags[name] = value = flag_value(spec, text)
            except ValueError as error:
                refusals.append((spec.type, str(error)))
                continue
            self._note(given, "set", f"backend.flags.{name}: {_shown(value)}")
            return
        kind, reason = refusals[0]
        if kind == "str" or text in _OPEN:
            self._note(given, "unmodelled", reason)
        else:
            self._fault(given, f"--{given.name}: {reason}")

    def _unknown(self, given: Given) -> None:
        if not given.name:
            self._note(given, "unknown", "a word that belongs to no option")
            return
        near = nearest(given.name, self.known)
        dashes = "--" if given.word.text.startswith("-") else ""
        hint = f"unknown; did you mean {dashes}{near}?" if near else "unknown"
        self._note(given, "unknown", hint)

    def _note(self, given: Given, kind: Kind, becomes: str) -> None:
        value = given.text if given.name else ""
        word = given.word.text.split("=")[0] if given.name else given.word.text
        if "." in given.name and "." not in word:
            word = f"--{given.name}" if word.startswith("-") else given.name
        self.rows.append(Row(given.word.where, word, value, kind, becomes))

    def _fault(self, given: Given, message: str, hint: str | None = None) -> None:
        where = given.values[0].where if given.values else given.word.where
        self.faults.append(Fault(where, message, hint))


def _becomes(path: str, value: Any) -> str:
    if value is None:
        return "as the checkpoint has it"
    if isinstance(value, tuple):
        words = ("precision.weights", value[0]), ("precision.activations", value[1])
        return ", ".join(f"{name}: {word}" for name, word in words if word)
    return f"{_PATHS.get(path, path)}: {_shown(value)}"


_OPEN = ("auto", "-1")
"""Values that leave a number to the engine."""
_PATHS = {
    "dtype": "precision.activations",
    "expert_parallel": "parallel.expert",
    "attention_dp": "parallel.data",
}


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
