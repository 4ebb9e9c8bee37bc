"""Which of a model's modules a rule of its precision means, and what holds for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from planner.dtypes import is_quantized
from planner.errors import Fault, SpecError
from planner.ops.types import Formats, Operator
from planner.registry import nearest
from planner.spec.origin import Origin
from planner.spec.types import MODULE_REGEX

Pair = tuple[str, str]
"""Formats of weights and of what matrix units are asked to multiply."""


@dataclass(frozen=True)
class Module:
    """Modules that are asked to run in formats of their own."""

    patterns: tuple[str, ...]
    layers: frozenset[int] | None
    """By number; None for all, and for blocks that are no layers."""
    asked: Pair
    origins: tuple[Origin, ...] = field(default=(), compare=False)
    """Where each pattern stands."""
    layers_origin: Origin = field(default_factory=Origin.unknown, compare=False)

    @property
    def described(self) -> str:
        """The modules in words, as in ``experts of layers 3 to 61``."""
        names = " and ".join(self.patterns)
        if self.layers is None:
            return names
        return f"{names} of layers {', '.join(_runs(sorted(self.layers)))}"

    def matches(self, label: str, name: str) -> tuple[int, ...]:
        """Positions of the patterns that mean the node of that name in the block so labelled."""
        names = (name, label, f"{label}.{name}")
        return tuple(
            position
            for position, pattern in enumerate(self.patterns)
            if any(_matches(pattern, each) for each in names)
        )

    def names(self, label: str, name: str) -> bool:
        """Whether a pattern spells the node out, without any wildcard."""
        return bool({name, f"{label}.{name}"} & set(self.patterns))


def _runs(numbers: list[int]) -> list[str]:
    """Whole numbers in ascending order, runs of them as `0..2`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs]


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith(MODULE_REGEX):
        return re.fullmatch(pattern.removeprefix(MODULE_REGEX), name) is not None
    return fnmatchcase(name, pattern)


class FormatsError(SpecError):
    """Rules for modules that mean nothing, or formats that the engine does not run."""


@dataclass(frozen=True)
class Runs:
    """What runs in one operator for formats asked for."""

    asked: Pair
    op: str
    formats: Formats
    note: str | None = None
    refusal: Fault | None = None


@dataclass(frozen=True)
class Scheme:
    """The formats of every module of a model, as they run."""

    formats: Formats
    """Of what no rule names."""
    asked: Pair = ("", "")
    modules: tuple[Module, ...] = ()
    """The first that matches counts."""
    running: tuple[Runs, ...] = ()
    """By formats asked for and operator; an operator without entries runs as linears do."""
    cache_note: str | None = None

    @property
    def one_scale(self) -> bool:
        """Whether FP8 activations of any module have one scale for all."""
        return any(runs.formats.scales == "tensor" for runs in self.running)

    def layered(self, layer: int) -> tuple[int, ...]:
        """Which of the rules that name layers hold in one, by position."""
        return tuple(
            position
            for position, module in enumerate(self.modules)
            if module.layers is not None and layer in module.layers
        )

    @property
    def by_layer(self) -> bool:
        """Whether any rule names layers."""
        return any(module.layers is not None for module in self.modules)


class Modules:
    """A scheme at work on one model; remembers which of its rules meant something."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        self.names: set[str] = set()
        self._met: set[tuple[int, int]] = set()
        self._refused: dict[Fault, None] = {}
        self._running = {(*runs.asked, runs.op): runs for runs in scheme.running}

    def at(
        self, label: str, layered: tuple[int, ...], name: str, op_name: str, op: Operator
    ) -> tuple[Operator, Formats]:
        """The operator and its formats. Naming an operator that engines keep at 16 bit frees it."""
        module = self._first(label, layered, name)
        asked = module.asked if module else self.scheme.asked
        runs = self._running.get((*asked, op_name)) or self._running.get((*asked, "linear"))
        if runs is None:
            return op, self.scheme.formats
        spelt = module is not None and module.names(label, name) and is_quantized(asked[0])
        if spelt and not getattr(op, "quantizable", True):
            free: Any = op
            op = replace(free, quantizable=True)
        if runs.refusal and getattr(op, "quantizable", False):
            self._refused[runs.refusal] = None
        return op, runs.formats

    def _first(self, label: str, layered: tuple[int, ...], name: str) -> Module | None:
        self.names |= {name, label}
        found = None
        for position, module in enumerate(self.scheme.modules):
            met = module.matches(label, name)
            self._met |= {(position, each) for each in met}
            if met and found is None and (module.layers is None or position in layered):
                found = module
        return found

    def faults(self, layers: int) -> Iterator[Fault]:
        """Formats that are refused, and rules that mean nothing in a model of so many layers."""
        yield from self._refused
        for position, module in enumerate(self.scheme.modules):
            for each, pattern in enumerate(module.patterns):
                if (position, each) not in self._met:
                    yield self._unmet(module, each, pattern)
            beyond = max(module.layers or {0}, default=0)
            if module.layers is not None and beyond >= layers:
                message = f"there is no layer {beyond}: the model has {layers}, the first is 0"
                yield module.layers_origin.fault(message)

    def _unmet(self, module: Module, position: int, pattern: str) -> Fault:
        guess = nearest(pattern, self.names)
        hint = f"did you mean '{guess}'?" if guess else f"nodes are {', '.join(sorted(self.names))}"
        message = f"no node and no block of the model matches '{pattern}'"
        return module.origins[position].fault(message, hint)
