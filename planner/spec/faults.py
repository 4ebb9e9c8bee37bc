"""What pydantic found wrong, as sentences for people at their places in the text."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from planner.errors import Fault
from planner.registry import nearest
from planner.spec.origin import Document, Origin, Path

MOST_FAULTS = 100
"""Faults shown of one text; nobody reads the hundred-and-first."""

_FEW_FIELDS = 12
_LONGEST = 60

_NOUNS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_BOUNDS = {
    "greater_than": ("must be greater than", "gt"),
    "greater_than_equal": ("must be at least", "ge"),
    "less_than": ("must be less than", "lt"),
    "less_than_equal": ("must be at most", "le"),
}


@dataclass(frozen=True)
class _Problem:
    """One error of pydantic, with the path the document has for it."""

    kind: str
    loc: Path
    path: Path
    input: Any
    context: dict[str, Any]


def translate(
    error: ValidationError, spec: type[BaseModel], document: Document, root: Path = ()
) -> list[Fault]:
    """One fault per thing that is wrong; the members of a union speak as one."""
    found = [_problem(entry, document, root) for entry in error.errors(include_url=False)[:1000]]
    groups = _grouped(found)
    guesses = {
        (problem.path[:-1], nearest(str(problem.loc[-1]), fields_at(spec, problem.loc[:-1])))
        for problem in found[:MOST_FAULTS]
        if problem.kind == "extra_forbidden"
    }
    faults = []
    for group in groups[:MOST_FAULTS]:
        first = group[0]
        if first.kind == "missing" and (first.path, str(first.loc[-1])) in guesses:
            continue  # the misspelt key beside it says so already
        faults.append(_fault(group, spec, Origin(document, first.path)))
    return faults


def _problem(entry: Any, document: Document, root: Path) -> _Problem:
    loc: Path = entry["loc"]
    path = root
    for part in loc[:-1] if entry["type"] == "missing" else loc:
        # tags of unions, and the `value` of a figure written bare, stand in no document
        if (*path, part) in document.marks:
            path = (*path, part)
    return _Problem(entry["type"], loc, path, entry["input"], entry.get("ctx", {}))


def _grouped(problems: list[_Problem]) -> list[list[_Problem]]:
    """Type errors at one place together; those with an error further inside give way to it."""
    above = {problem.path[:length] for problem in problems for length in range(len(problem.path))}
    groups: dict[Any, list[_Problem]] = {}
    for problem in problems:
        whole = isinstance(problem.input, tuple) and len(problem.input) > 0
        if problem.kind == "too_short" and whole:
            continue  # pydantic counts the items that were right
        if problem.kind in _NOUNS and problem.path in above:
            continue
        by_type = (problem.path, "type")
        key = by_type if problem.kind in _NOUNS else (problem.path, problem.kind, problem.loc)
        groups.setdefault(key, []).append(problem)
    return list(groups.values())


def _fault(group: list[_Problem], spec: type[BaseModel], origin: Origin) -> Fault:
    problem = group[0]
    name = str(problem.loc[-1]) if problem.loc else ""
    if problem.kind == "missing":
        return origin.fault(said(origin.path, f"missing field {name!r}"), key=True)
    if problem.kind == "extra_forbidden":
        hint = _known(name, fields_at(spec, problem.loc[:-1]))
        return origin.fault(said(origin.path, "unknown field"), hint, key=True)
    if problem.kind in _NOUNS:
        message, hint = _wrong_type(group, spec, origin)
    elif problem.kind == "literal_error":
        message, hint = _wrong_choice(problem)
    else:
        message, hint = _wrong_value(problem), None
    return origin.fault(said(origin.path, message), hint, key=name == "[key]")


def said(path: Path, message: str) -> str:
    """The message, after the dotted path it is about."""
    if not path:
        return message
    dotted = ".".join(str(part)[:_LONGEST] for part in path)
    return f"{dotted}: {message}"


def shown(value: object) -> str:
    """A value as a message quotes it, never long."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def did_you_mean(word: str, words: Iterable[str]) -> str | None:
    """A hint that names the nearest of ``words``, if any is near."""
    near = nearest(word, list(words))
    return f"did you mean {near!r}?" if near else None


def _known(name: str, fields: tuple[str, ...]) -> str | None:
    guess = did_you_mean(name, fields)
    if guess or not fields:
        return guess
    more = ", …" if len(fields) > _FEW_FIELDS else ""
    return f"known here: {', '.join(fields[:_FEW_FIELDS])}{more}"


def _wrong_type(
    group: list[_Problem], spec: type[BaseModel], origin: Origin
) -> tuple[str, str | None]:
    value = group[0].input
    nouns = list(dict.fromkeys(_NOUNS[problem.kind] for problem in group))
    if nouns == ["a whole number", "text"]:
        nouns = ["a whole number", "an expression"]
    if "a number" in nouns and "a whole number" in nouns:
        nouns.remove("a whole number")
    expected = f"{', '.join(nouns[:-1])} or {nouns[-1]}" if nouns[1:] else nouns[0]
    return f"expected {expected}, got {shown(value)}", _type_hint(group, spec, origin)


def _type_hint(group: list[_Problem], spec: type[BaseModel], origin: Origin) -> str | None:
    kinds, value = {problem.kind for problem in group}, group[0].input
    if kinds == {"string_type"} and isinstance(value, int | float):
        return f"put it in quotes: '{origin.word()}'"
    if "model_type" in kinds:
        return f"with {', '.join(fields_at(spec, group[0].loc)[:_FEW_FIELDS])}"
    if kinds == {"bool_type"}:
        return "write true or false" if isinstance(value, str) else None
    if kinds <= {"int_type", "float_type"} and isinstance(value, str) and _is_number(value):
        return "without quotes"
    return "write [a, b]" if "tuple_type" in kinds and isinstance(value, str) else None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+(\.\d*)?", text) is not None


def _wrong_choice(problem: _Problem) -> tuple[str, str | None]:
    choices = re.findall(r"'([^']*)'", problem.context["expected"])
    got = shown(problem.input)
    if len(choices) == 1:
        return f"must be {choices[0]!r}, got {got}", None
    guess = did_you_mean(str(problem.input)[:_LONGEST], choices)
    return f"must be one of {', '.join(choices)}, got {got}", guess


def _wrong_value(problem: _Problem) -> str:
    context, got = problem.context, shown(problem.input)
    if problem.kind in _BOUNDS:
        words, key = _BOUNDS[problem.kind]
        return f"{words} {_trimmed(context[key])}, got {got}"
    if problem.kind == "too_short":
        return f"needs at least {context['min_length']}, has {len(problem.input)}"
    if problem.kind == "string_too_long":
        return f"longer than {context['max_length']} characters"
    if problem.kind == "string_pattern_mismatch":
        return f"a name holds lower-case letters, digits and . _ + - alone, got {got}"
    if problem.kind == "value_error":
        return str(context["error"])
    return f"not accepted, got {got}"


def _trimmed(limit: float) -> str:
    return f"{int(limit):,}" if limit == int(limit) else str(limit)


def fields_at(spec: type[BaseModel], loc: Path) -> tuple[str, ...]:
    """Names, as written, of the fields that the model at pydantic's ``loc`` has."""
    places: list[Any] = [spec]
    for part in loc:
        # a part that leads nowhere is a union's tag and leaves us where we are
        places = [inner for place in places for inner in members_at(place, part)] or places
    models = [flat for place in places for flat in flat_members(place) if _is_model(flat)]
    return tuple(
        info.alias or name for model in models for name, info in model.model_fields.items()
    )


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def flat_members(annotation: Any) -> Iterator[Any]:
    """The members of a union of types, however it is wrapped."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from flat_members(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            tagged = any(isinstance(extra, Tag) for extra in getattr(member, "__metadata__", ()))
            yield from [member] if tagged else flat_members(member)
    else:
        yield annotation


def members_at(annotation: Any, part: str | int) -> Iterator[Any]:
    """Annotations that a field, key or position of ``annotation`` leads to."""
    for flat in flat_members(annotation):
        tags = [extra.tag for extra in getattr(flat, "__metadata__", ()) if isinstance(extra, Tag)]
        inner = get_args(flat)
        if tags:
            yield from inner[:1] if part in tags else ()
        elif _is_model(flat):
            for name, info in flat.model_fields.items():
                if part == (info.alias or name):
                    yield info.annotation
        elif get_origin(flat) is tuple and isinstance(part, int):
            yield inner[0]
        elif get_origin(flat) is dict:
            yield inner[1]
