"""What an engine's command line may say, and what each word of it becomes in a deployment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.registry import Registry
from planner.spec.types import BackendSpec, FlagSpec, Scalar

Shape = Literal["value", "switch", "many"]
"""How many words follow an option: one, none, or all up to the next option."""


@dataclass(frozen=True)
class Field:
    """Sets a field of the deployment. ``read`` raises ValueError with a sentence."""

    path: str
    read: Callable[[str], Any]


@dataclass(frozen=True)
class Flag:
    """Sets a flag that the catalogue describes: of several so spelt, the first with the value."""

    choices: tuple[tuple[str, FlagSpec], ...]


@dataclass(frozen=True)
class Turns:
    """Turns a flag of the catalogue where its value says so, and else changes nothing.

    ``says`` tells what to, True for on; it raises ValueError with a sentence where the value leaves
    it open.
    """

    flag: str
    says: Callable[[str], str | bool | None]


@dataclass(frozen=True)
class Silent:
    """Changes nothing that is planned."""


@dataclass(frozen=True)
class Unmodelled:
    """Changes a step or its memory, and no field of a deployment says it."""

    why: str


@dataclass(frozen=True)
class Nested:
    """JSON whose keys are options of their own, below this one's name."""


@dataclass(frozen=True)
class Included:
    """A file whose lines are options."""


Effect = Included | Field | Flag | Turns | Silent | Unmodelled | Nested


@dataclass(frozen=True)
class Option:
    """One option by its full name, without dashes in front."""

    name: str
    effect: Effect
    shape: Shape = "value"


@dataclass(frozen=True)
class Line:
    """The command line of one engine."""

    backend: str
    """Its name in the catalogue."""
    options: Mapping[str, Option]
    """By every spelling, normal form."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that stand for an option."""
    prefixes: tuple[str, ...] = ()
    """How names of the engine's own environment variables begin."""
    begins: tuple[str, ...] = ()
    """The words that start its server; the model follows."""
    package: str = ""
    """What is installed for it."""
    joint: str = "-"
    """What stands between the words of an option's name when it is written."""
    negates: bool = False
    """Whether it takes ``--no-NAME`` for a switch that is off."""
    replicas_cut_experts: bool = False
    """Whether data replicas cut routed experts among themselves where nothing else is asked."""
    spreads: str = ""
    """How one server is started on several nodes."""
    file_wins: bool = False
    """Whether options of a file come over those of the command line."""
    attention_in_all: bool = False
    """Whether data-parallel attention runs once in each of the tensor-parallel ranks."""
    fp8_cache: str = "fp8"
    """Its word for a KV cache in FP8."""


LINES: Registry[Line] = Registry("engine command line")


def register(line: Line) -> Line:
    """File a command line under its backend's name."""
    return LINES.register(line.backend)(line)


def normal(name: str) -> str:
    """An option's name without leading dashes; ``max_model_len`` and ``max-model-len`` are one."""
    return name.lstrip("-").replace("_", "-")


def options(effects: Mapping[str, Effect], shape: Shape = "value") -> Iterable[tuple[str, Option]]:
    """Options of one shape; the first of several spellings, ``a|b``, is the full name."""
    for spellings, effect in effects.items():
        first, *others = (normal(word) for word in spellings.split("|"))
        option = Option(first, effect, shape)
        yield from ((name, option) for name in (first, *others))


def silent(words: str, shape: Shape = "value") -> Iterable[tuple[str, Option]]:
    """Options that change nothing that is planned."""
    return options(dict.fromkeys(words.split(), Silent()), shape)


def unmodelled(why: str, words: str, shape: Shape = "value") -> Iterable[tuple[str, Option]]:
    """Options that matter and that no field says."""
    return options(dict.fromkeys(words.split(), Unmodelled(why)), shape)


def options_of(line: Line, backend: BackendSpec) -> dict[str, Option]:
    """All options of an engine: what is read in a way of its own first, then other flags of the
    catalogue.
    """
    own = {n: each for n, each in line.options.items() if isinstance(each.effect, Field | Turns)}
    return {**line.options, **_described(backend), **own}


def _described(backend: BackendSpec) -> dict[str, Option]:
    found: dict[str, Option] = {}
    for name, spec in backend.flags.items():
        if written := spelt(spec) or in_file(spec):
            shape: Shape = "switch" if spec.type == "bool" else "value"
            full = normal(written)
            same = found[full].effect if full in found else None
            before = same.choices if isinstance(same, Flag) else ()
            found[full] = Option(full, Flag((*before, (name, spec))), shape)
    return found


def spelt(spec: FlagSpec) -> str | None:
    """A flag as the command line writes it; None for one that stands in a file of options."""
    found = re.match(r"--?[\w.-]+", spec.spelling or "")
    return found[0] if found else None


def in_file(spec: FlagSpec) -> str | None:
    """A flag as a file of options has it, below others with dots; None for one that is in none."""
    found = re.match(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*(?=\s|$)", spec.spelling or "")
    return found[0] if found else None


def whole(text: str) -> int:
    """A whole number, also as vLLM takes it: ``32k`` is 32,000, ``32K`` 32,768, ``1.5M`` binary."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([kKmMgG]?)", text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no whole number")
    scale = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
    number = float(found[1]) * scale[found[2]]
    if number != int(number):
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(number)


def size(text: str) -> int:
    """A whole number of at least one. Raises ValueError with a sentence."""
    number = whole(text)
    if number < 1:
        raise ValueError("must be at least 1")
    return number


def share(text: str) -> float:
    """A share above nought and up to one."""
    if not re.fullmatch(r"\d*\.?\d{1,17}|1\.?", text) or not 0 < float(text) <= 1:
        raise ValueError(f"{text[:40]!r} is no share between 0 and 1")
    return float(text)


def truth(text: str) -> bool:
    """``true``, ``false``, ``1`` or ``0``."""
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise ValueError(f"{text[:40]!r} is neither true nor false")
    return words[text.lower()]


def flag_value(spec: FlagSpec, text: str) -> Scalar:
    """The value of a described flag. Raises ValueError with a sentence."""
    if spec.type == "bool":
        return truth(text)
    if spec.type == "int":
        return whole(text)
    if spec.type == "float":
        return share(text)
    if spec.choices and text not in spec.choices:
        words = ", ".join(map(str, spec.choices))
        raise ValueError(f"{text[:40]!r} is not described; known are {words}")
    return text
