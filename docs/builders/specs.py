"""Tables of spec fields, operators, units and number formats, from the code that reads them."""

from __future__ import annotations

import inspect
from typing import Any

from builders.markup import code, table
from builders.source_text import field_texts, sentence
from builders.spec_words import ATTRIBUTES, FIELDS
from planner.dtypes import DTYPES, bytes_per_element
from planner.errors import SpecError
from planner.graph.attributes import Attribute, attributes
from planner.ops import OPERATORS
from planner.ops.types import Operator
from planner.spec import types
from planner.spec.load import load_text
from planner.units import DIMENSIONS

_SHOWN_AS = {"integer": "whole number", "number": "number", "boolean": "true or false"}


def fields(name: str) -> str:
    """The fields of one spec class: name, type, default, meaning.

    Raises ValueError for a field that neither the class nor ``spec_words`` describes.
    """
    kind: type[types.Spec] = getattr(types, name)
    schema = kind.model_json_schema(by_alias=True)
    needed = set(schema.get("required", ()))
    rows = [
        (
            code(field),
            _type(body, schema.get("$defs", {})),
            "**needed**" if field in needed else _default(body),
            _meaning(name, field, body),
        )
        for field, body in schema["properties"].items()
    ]
    return table(("field", "type", "default", "meaning"), rows)


def _meaning(name: str, field: str, body: dict[str, Any]) -> str:
    """The class's own description, else the words kept for it here."""
    if text := own_text(body) or FIELDS.get(f"{name}.{field}"):
        return text
    if "$ref" in body and "Figure_" not in body["$ref"]:
        return sentence(getattr(types, body["$ref"].rpartition("/")[2]).__doc__ or "")
    if field in FIELDS:
        return FIELDS[field]
    raise ValueError(f"nothing says what {name}.{field} means; give it a description in its class")


def own_text(body: dict[str, Any]) -> str:
    """What the class says of a field. What a quantity says of itself does not count."""
    text = str(body.get("description", ""))
    return "" if "with its unit" in text else text


def _default(body: dict[str, Any]) -> str:
    value = body.get("default")
    if value in (None, [], {}, ""):
        return ""
    return code(str(value).lower() if isinstance(value, bool) else _said(value))


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_said(inner)}" for key, inner in value.items()) + "}"
    return f"[{', '.join(map(_said, value))}]" if isinstance(value, list) else str(value)


def _type(body: dict[str, Any], defs: dict[str, Any]) -> str:
    """A field's type in words a reader of YAML knows."""
    if "$ref" in body:
        return _referred(body["$ref"].rpartition("/")[2], defs)
    if "const" in body:
        return code(body["const"])
    if "enum" in body:
        return "one of " + ", ".join(map(code, body["enum"]))
    choices = body.get("anyOf") or body.get("oneOf")
    if choices:
        return _any_of(choices, defs)
    if "examples" in body:
        return f"quantity, as {code(body['examples'][0])}"
    return _plain(body, defs)


def _plain(body: dict[str, Any], defs: dict[str, Any]) -> str:
    kind = body.get("type")
    if kind == "array":
        return f"list of {_type(body['items'], defs)}"
    if kind == "object":
        inner = body.get("additionalProperties", True)
        return "mapping" if inner is True else f"mapping of {_type(inner, defs)}"
    if kind == "string":
        return "name" if "pattern" in body else "text"
    return _SHOWN_AS.get(str(kind), "any") + _range(body)


def _range(body: dict[str, Any]) -> str:
    if "minimum" in body and "maximum" in body:
        return f", {body['minimum']} to {body['maximum']:,}"
    low = body.get("minimum", body.get("exclusiveMinimum"))
    word = "at least" if "minimum" in body else "above"
    return "" if low is None else f", {word} {low}"


def _any_of(choices: list[dict[str, Any]], defs: dict[str, Any]) -> str:
    kinds = {str(choice.get("type")) for choice in choices}
    if {"boolean", "number", "string"} <= kinds:
        return "any scalar" + (" or list of them" if "array" in kinds else "")
    named = [_type(choice, defs) for choice in choices if choice.get("type") != "null"]
    return " or ".join(dict.fromkeys(named))


def _referred(name: str, defs: dict[str, Any]) -> str:
    """A figure by its quantity, another class by its section."""
    if "Figure_" in name:
        bare = _type(defs[name]["anyOf"][0], defs)
        return f"figure: {bare}"
    kinds = {spec.__name__: kind for kind, spec in types.KINDS.items()}
    return f"[{name}](#{kinds.get(name, name.lower())})"


def operators() -> str:
    """Every operator: what it reads, its class and what it is."""
    rows = [
        (code(name), _arity(kind), code(kind.op_class.value), kind.about)
        for name, kind in OPERATORS
    ]
    return table(("op", "reads", "class", "what it is"), rows)


def _arity(kind: type[Operator]) -> str:
    fewest, most = kind.arity
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def operator_attributes() -> str:
    """Every attribute of every operator."""
    rows = [
        (code(name), code(attribute.name), _attribute_default(attribute), text)
        for name, kind in OPERATORS
        for attribute, text in _described(kind)
    ]
    return table(("op", "attribute", "default", "meaning"), rows)


def _described(kind: type[Operator]) -> list[tuple[Attribute, str]]:
    texts = field_texts(kind)
    found = attributes(kind).values()
    return [
        (attribute, texts.get(attribute.name) or ATTRIBUTES[attribute.name]) for attribute in found
    ]


def _attribute_default(attribute: Attribute) -> str:
    if attribute.needed:
        return "**needed**"
    value = attribute.default
    if value is None or value == () or (value == 0 and value is not False):
        return ""
    return code(str(value).lower() if isinstance(value, bool) else value)


def formulas() -> str:
    """What the code itself says of each operator's FLOPs and bytes."""
    rows = [(code(name), _doc(kind)) for name, kind in OPERATORS]
    return table(("op", "as the code counts it"), rows)


def _doc(kind: type[Operator]) -> str:
    text = inspect.getdoc(kind) or kind.about
    if text == kind.about:  # an elementwise operator without attributes
        flops = getattr(kind, "flops", 0)
        text = f"{kind.about}: {flops} vector FLOP{'s' * (flops != 1)} an element"
    return sentence(text)


def units() -> str:
    """Every dimension with all units that spell it."""
    rows = [
        (dimension.name, code(dimension.example), ", ".join(map(code, dimension.factors)))
        for dimension in DIMENSIONS
    ]
    return table(("quantity", "write", "units that are read"), rows)


def formats() -> str:
    """Bytes of an element in each number format."""
    rows = [(code(dtype), f"{bytes_per_element(dtype):g}") for dtype in DTYPES]
    return table(("format", "bytes an element"), rows)


_WRONG = """\
model: qwen2.5-7b-instruct
gpu: rtx-4090
step:
  decode: {batch: "16", contxt: 4096}
price: 0.69
"""


def faults() -> str:
    """A wrong deployment, and what is said of it."""
    try:
        load_text(_WRONG, "deploy.yaml")
    except SpecError as error:
        return f"```text\n{error}\n```"
    raise AssertionError("the wrong example is right")
