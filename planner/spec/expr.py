"""Arithmetic over names, as specs write it: ``heads * head_dim``. Exact, never floating."""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

from planner.registry import nearest

T = TypeVar("T")

LONGEST = 200
"""Characters an expression may have."""

LARGEST = 10**15
"""The largest size an expression may come to."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "ceil": math.ceil}
_ALLOWED = re.compile(r"[A-Za-z0-9_+\-*/(), ]*")
_SYNTAX = "write + - * / //, ( ), min, max, ceil, whole numbers and names"


class ExpressionError(ValueError):
    """An expression that cannot be read, or has no usable value."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)


def evaluate(expression: int | str, names: Mapping[str, T]) -> T | Fraction:
    """The value of an expression. Whole numbers in it, and in ``names``, become fractions.

    Other values of ``names`` are used as they are, so that any type with these operators works.
    Raises ExpressionError: unknown name, syntax, division by zero, an operator a value lacks.
    """
    if isinstance(expression, int):
        return Fraction(expression)
    try:
        value: T | Fraction = _value(_parsed(expression), names)
    except ZeroDivisionError:
        raise ExpressionError(f"{expression!r} divides by zero") from None
    except TypeError as error:
        raise ExpressionError(f"{expression!r} cannot be computed: {error}") from None
    return value


def whole(expression: int | str, names: Mapping[str, int]) -> int:
    """The value of an expression that must be a whole number from 1 to 10**15.

    Raises ExpressionError as `evaluate`, and for a fraction, zero, a negative or a vast value.
    """
    value = Fraction(evaluate(expression, names))
    if value.denominator != 1:
        raise ExpressionError(f"{expression!r} comes to {value}, no whole number")
    if value <= 0:
        raise ExpressionError(f"{expression!r} comes to {value}, must be greater than 0")
    if value > LARGEST:
        raise ExpressionError(f"{expression!r} comes to more than 10**15")
    return value.numerator


def names_in(expression: int | str) -> set[str]:
    """The names an expression needs. Raises ExpressionError for bad syntax."""
    if isinstance(expression, int):
        return set()
    nodes = list(ast.walk(_parsed(expression)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called}


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression longer than {LONGEST} characters")
    allowed = _ALLOWED.match(text)
    stop = allowed.end() if allowed else 0
    if stop < len(text):
        raise ExpressionError(f"{text[stop]!r} cannot stand in the expression {text!r}", _SYNTAX)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of `2or 3`, which is refused below
            tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise ExpressionError(f"{text!r} is no expression", _SYNTAX) from None
    for node in ast.walk(tree):
        _check(node, text)
    return tree


def _check(node: ast.AST, text: str) -> None:
    """Refuse whatever is not on the list."""
    if isinstance(node, ast.Constant) and type(node.value) is not int:
        raise ExpressionError(f"{text!r} holds {node.value!r}, no whole number", _SYNTAX)
    if isinstance(node, ast.Call):
        known = isinstance(node.func, ast.Name) and node.func.id in _CALLS
        if not known or node.keywords or not node.args:
            raise ExpressionError(f"{text!r} calls what is no function here", _SYNTAX)
        return
    fine = (ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.expr_context, ast.USub)
    if not isinstance(node, fine) and type(node) not in _BINARY:
        raise ExpressionError(f"{text!r} uses an operator that is not read", _SYNTAX)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return Fraction(node.value)  # type: ignore[arg-type]
        case ast.Name():
            return _named(node.id, names)
        case ast.UnaryOp():
            return -_value(node.operand, names)
        case ast.BinOp():
            left, right = _value(node.left, names), _value(node.right, names)
            return _number(_BINARY[type(node.op)](left, right))
        case ast.Call(func=ast.Name(id=called)):
            arguments = [_value(argument, names) for argument in node.args]
            values = arguments if called == "ceil" or len(arguments) > 1 else [arguments]
            return _number(_CALLS[called](*values))
    raise AssertionError(ast.dump(node))


def _named(name: str, names: Mapping[str, Any]) -> Any:
    if name not in names:
        near = nearest(name, list(names))
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(names)) or 'none'}"
        raise ExpressionError(f"unknown name {name!r}", hint)
    return _number(names[name])


def _number(value: Any) -> Any:
    return Fraction(value) if isinstance(value, int) else value
