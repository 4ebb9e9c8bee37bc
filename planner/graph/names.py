"""What names in a model stand for: dims, options, and the sizes only the load knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from planner.errors import Fault, SpecError
from planner.ops.types import LOAD_SYMBOLS, Dim, Shape, as_dim
from planner.registry import nearest
from planner.spec.expr import ExpressionError, evaluate, names_in, whole
from planner.spec.origin import Origin
from planner.spec.types import BlockSpec, BlockUse, Expression, ModelSpec, Scalar


@dataclass(frozen=True)
class Names:
    """The names in force at one place of a model."""

    values: Mapping[str, Any]
    """Whole numbers, truth values, texts or None."""
    symbols: frozenset[str]
    """Names bound by the load: tokens, sequences, or the dims of a graph that is no LLM."""

    def dims(self) -> dict[str, Fraction | Dim]:
        """Names that may stand in a shape."""
        found: dict[str, Fraction | Dim] = {name: Dim(symbols=(name,)) for name in self.symbols}
        for name, value in self.values.items():
            if isinstance(value, int) and not isinstance(value, bool):
                found[name] = Fraction(value)
        return found

    def whole_numbers(self) -> dict[str, int]:
        """Names that may stand in an attribute."""
        return {
            name: value
            for name, value in self.values.items()
            if isinstance(value, int) and not isinstance(value, bool)
        }

    def within(self, block: BlockSpec, use: BlockUse, origin: Origin, faults: list[Fault]) -> Names:
        """The names inside one use of a block: its options, the model's values, the use's own."""
        values = dict(block.options) | dict(self.values)
        for name, value in use.given.items():
            place = origin.at("with", name)
            word = self._is_word(values.get(name))
            values[name] = value if word else self._given(value, place, faults)
        return Names(values, self.symbols)

    def _is_word(self, default: Scalar) -> bool:
        """Whether an option's default is a text (``column``) and no arithmetic over dims."""
        needs = names_in_or_none(default) if isinstance(default, str) else set()
        return bool(needs) and not needs & self.whole_numbers().keys()

    def _given(self, value: Scalar, origin: Origin, faults: list[Fault]) -> Scalar:
        if not isinstance(value, str) or not names_in_or_none(value):
            return value
        try:
            return whole(value, self.whole_numbers())
        except ExpressionError as error:
            faults.append(origin.fault(error.message, error.hint))
            return 1


def names_in_or_none(text: str) -> set[str]:
    """Names of an expression; none where the text is no expression."""
    try:
        return names_in(text)
    except ExpressionError:
        return set()


def model_names(model: ModelSpec) -> Names:
    """Resolve a model's dims, which may refer to each other in any order.

    Raises SpecError for a name nobody defines, a circle, or a dim that is no whole number.
    """
    symbols = _load_symbols(model)
    resolved: dict[str, int] = {}
    faults: list[Fault] = []
    waiting = dict(model.dims)
    while waiting:
        ready = [name for name, value in waiting.items() if _names(value) <= resolved.keys()]
        if not ready:
            faults += [_unresolved(model, name, waiting, resolved) for name in waiting]
            break
        for name in ready:
            value = waiting.pop(name)
            try:
                resolved[name] = whole(value, resolved)
            except ExpressionError as error:
                faults.append(model.origin.at("dims", name).fault(error.message, error.hint))
                resolved[name] = 1
    if faults:
        raise SpecError(faults)
    return Names(dict(model.options) | resolved, symbols)


def _names(value: Expression) -> set[str]:
    return names_in_or_none(value) if isinstance(value, str) else set()


def _unresolved(
    model: ModelSpec, name: str, waiting: Mapping[str, Expression], resolved: Mapping[str, int]
) -> Fault:
    missing = sorted(_names(waiting[name]) - waiting.keys() - resolved.keys())
    origin = model.origin.at("dims", name)
    if missing:
        guess = nearest(missing[0], [*waiting, *resolved])
        return origin.fault(
            f"dim '{name}' needs '{missing[0]}', which is not defined",
            f"did you mean '{guess}'?" if guess else None,
        )
    return origin.fault(f"dim '{name}' is defined in a circle")


def _load_symbols(model: ModelSpec) -> frozenset[str]:
    """Names in the model's inputs that no dim defines are for the load to bind."""
    named = {name for sides in model.inputs.values() for side in sides for name in _names(side)}
    return frozenset(named - model.dims.keys()) | frozenset(LOAD_SYMBOLS)


def shape_of(
    sides: tuple[Expression, ...], names: Names, origin: Origin, faults: list[Fault]
) -> Shape:
    """A shape as written, with names resolved; faults are added at the side they stand in."""
    known = names.dims()
    shape = []
    for position, side in enumerate(sides):
        place = origin.at(position)
        try:
            dim = as_dim(evaluate(side, known))
        except ExpressionError as error:
            faults.append(place.fault(error.message, error.hint))
            continue
        except ValueError as error:
            faults.append(place.fault(str(error)))
            continue
        if dim.coefficient <= 0 or dim.coefficient.denominator != 1:
            faults.append(place.fault(f"'{side}' comes to {dim}, not to a whole number above 0"))
        shape.append(dim)
    return tuple(shape)
