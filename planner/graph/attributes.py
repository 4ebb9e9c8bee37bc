"""A node's attributes as written, turned into an operator."""

from __future__ import annotations

import dataclasses
import functools
import typing
from types import UnionType
from typing import Any, Literal

from planner.errors import Fault
from planner.graph.names import Names, shape_of
from planner.ops import OPERATORS
from planner.ops.types import Operator, Shape
from planner.registry import nearest
from planner.spec.expr import ExpressionError, whole
from planner.spec.origin import Origin
from planner.spec.types import NodeSpec


@dataclasses.dataclass(frozen=True)
class Attribute:
    """One attribute an operator takes."""

    name: str
    type: Any
    needed: bool
    default: Any
    zero: bool
    """Whether nought is a sensible value (a padding, not a width)."""


def attributes(kind: type[Operator]) -> dict[str, Attribute]:
    """The attributes of an operator, by name."""
    key: Any = kind  # a class is hashable, which typeshed doubts where its instances may not be
    return _attributes(key)


@functools.cache
def _attributes(kind: Any) -> dict[str, Attribute]:
    hints = typing.get_type_hints(kind)
    return {
        field.name: Attribute(
            field.name,
            hints[field.name],
            field.default is dataclasses.MISSING,
            field.default,
            bool(field.metadata.get("zero")),
        )
        for field in dataclasses.fields(kind)
    }


def make_operator(
    node: NodeSpec, origin: Origin, names: Names, faults: list[Fault]
) -> Operator | None:
    """The operator a node names, with its attributes resolved; None where faults were added."""
    kind = OPERATORS.get(node.op)
    if kind is None:
        guess = OPERATORS.nearest(node.op)
        hint = f"did you mean '{guess}'?" if guess else "see `planner catalog list ops`"
        faults.append(origin.at("op").fault(f"unknown operator '{node.op}'", hint))
        return None
    before = len(faults)
    fields = attributes(kind)
    values = {}
    meant = set()
    for name, value in (node.model_extra or {}).items():
        if name not in fields:
            guess = nearest(name, [*fields, "in", "out"])
            meant.add(guess)
            hint = f"did you mean '{guess}'?" if guess else _offer(node.op, list(fields))
            message = f"operator '{node.op}' has no attribute '{name}'"
            faults.append(origin.at(name).fault(message, hint, key=True))
            continue
        values[name] = _value(value, fields[name], origin.at(name), names, faults)
    for name, attribute in fields.items():
        if attribute.needed and name not in values and name not in meant:
            faults.append(origin.fault(f"operator '{node.op}' needs '{name}'", key=True))
    return kind(**values) if len(faults) == before else None


def _offer(op: str, fields: list[str]) -> str:
    return f"it has {', '.join(fields)}" if fields else f"'{op}' takes none"


def _value(
    value: Any, attribute: Attribute, origin: Origin, names: Names, faults: list[Fault]
) -> Any:
    """An attribute's value by its type; a text may name an option or be arithmetic over dims."""
    kind = attribute.type
    if kind == Shape:
        return _shape(value, origin, names, faults)
    choices = typing.get_args(kind)
    if isinstance(value, str) and value in names.values and value not in choices:
        value = names.values[value]
    if value is None and isinstance(kind, UnionType) and type(None) in choices:
        return None
    if kind is bool:
        return _truth(value, origin, faults)
    if typing.get_origin(kind) is Literal:
        return _choice(value, choices, origin, faults)
    if isinstance(value, bool) or not isinstance(value, int | str):
        faults.append(origin.fault(f"expected a whole number or dims, got {value!r}"))
        return 1
    return 0 if value == 0 and attribute.zero else _whole(value, origin, names, faults)


def _shape(value: Any, origin: Origin, names: Names, faults: list[Fault]) -> Shape:
    sides: list[Any] = list(value) if isinstance(value, list | tuple) else [None]
    if any(isinstance(side, bool) or not isinstance(side, int | str) for side in sides):
        faults.append(origin.fault(f"expected a list of sides, as in [tokens, 768]; got {value!r}"))
        return ()
    return shape_of(tuple(sides), names, origin, faults)


def _whole(value: int | str, origin: Origin, names: Names, faults: list[Fault]) -> int:
    try:
        return whole(value, names.whole_numbers())
    except ExpressionError as error:
        faults.append(origin.fault(error.message, error.hint))
        return 1


def _truth(value: Any, origin: Origin, faults: list[Fault]) -> bool:
    if not isinstance(value, bool):
        faults.append(origin.fault(f"expected true, false or the name of an option, got {value!r}"))
    return bool(value)


def _choice(value: Any, choices: tuple[Any, ...], origin: Origin, faults: list[Fault]) -> Any:
    if value not in choices:
        guess = nearest(str(value), [str(choice) for choice in choices])
        hint = f"did you mean '{guess}'?" if guess else None
        listed = ", ".join(map(str, choices))
        faults.append(origin.fault(f"expected one of {listed}; got {value!r}", hint))
    return value
