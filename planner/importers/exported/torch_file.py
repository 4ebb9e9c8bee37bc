"""A torch.export program as an exported graph, in ONNX's vocabulary."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.errors import UsageError
from planner.importers.exported.aten import read_call
from planner.importers.exported.call import Call
from planner.importers.exported.masks import is_triangle, may_be_mask
from planner.importers.exported.types import Export, Side, Sides, Step, Value, Weight

_DTYPES = {
    "torch.float32": "fp32",
    "torch.float16": "fp16",
    "torch.bfloat16": "bf16",
    "torch.float64": "fp64",
    "torch.int8": "int8",
    "torch.uint8": "int8",
    "torch.bool": "bool",
    "torch.float8_e4m3fn": "fp8",
    "torch.float8_e5m2": "fp8",
}
_FEW = 64


def torch_export(file: Path) -> Export:
    """The graph of a program that torch.export.save wrote.

    Raises UsageError: no torch installed, an unreadable file, one that holds no such program.
    """
    torch = _package()
    if not file.is_file():
        raise UsageError(f"{file} cannot be read: no such file")
    try:
        with _quiet():
            program = torch.export.load(file)
    except Exception as error:
        hint = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise UsageError(
            f"{file} is no torch.export program that this torch reads", hint
        ) from error
    return program_export(program)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's log of what it could not read to itself: the error says it again."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _package() -> Any:
    try:
        import torch.export
    except ImportError:
        hint = "pip install 'inference-planner[lab]'"
        raise UsageError("reading torch.export programs needs torch", hint) from None
    return torch


def program_export(program: Any) -> Export:
    """The graph of a program in memory."""
    nodes = list(program.graph.nodes)
    signature = program.graph_signature
    stored = {
        **dict.fromkeys(signature.inputs_to_parameters, True),
        **dict.fromkeys(signature.inputs_to_buffers, False),
        **dict.fromkeys(signature.inputs_to_lifted_tensor_constants, False),
    }
    values = {node.name: _value(node.name, node.meta.get("val")) for node in nodes}
    weights = _weights(program, stored)
    steps = list(_steps(nodes, values, weights))
    inputs = tuple(n for n in signature.user_inputs if isinstance(n, str))
    outputs = tuple(n for n in signature.user_outputs if isinstance(n, str))
    named = {name: _full_names(signature).get(name, name) for name in weights}
    return _renamed(Export("torch", inputs, outputs, tuple(steps), values, weights), named)


def _full_names(signature: Any) -> dict[str, str]:
    return {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }


def _renamed(export: Export, named: dict[str, str]) -> Export:
    """Weights under the names that the module gives them."""
    steps = tuple(
        Step(s.name, s.op, tuple(named.get(t, t) for t in s.inputs), s.outputs, s.attributes)
        for s in export.steps
    )
    weights = {named[name]: replace(w, name=named[name]) for name, w in export.weights.items()}
    return Export(export.format, export.inputs, export.outputs, steps, export.values, weights)


def _value(name: str, held: Any) -> Value:
    if isinstance(held, tuple | list):
        held = held[0] if held else None
    if held is None or not hasattr(held, "shape"):
        return Value(name, () if isinstance(held, int | float) else None, "int")
    return Value(name, sides_of(held), _DTYPES.get(str(held.dtype), "int"))


def sides_of(tensor: Any) -> Sides:
    """Sides of a tensor; those the caller chooses by torch's names for them."""
    return tuple(_side(side) for side in tensor.shape)


def _side(side: Any) -> Side:
    return side if isinstance(side, int) else str(side)


def _weights(program: Any, stored: dict[str, bool]) -> dict[str, Weight]:
    found = {}
    for node in program.graph.nodes:
        if node.op != "placeholder" or node.name not in stored:
            continue
        held = node.meta["val"]
        full = _full_names(program.graph_signature)[node.name]
        found[node.name] = Weight(
            node.name,
            tuple(int(side) for side in held.shape),
            _DTYPES.get(str(held.dtype), "int"),
            stored[node.name],
            _numbers(program, full, held),
            _triangle(program, full, held),
        )
    return found


def _stored(program: Any, name: str) -> Any:
    return program.state_dict.get(name, program.constants.get(name))


def _triangle(program: Any, name: str, held: Any) -> bool:
    tensor = _stored(program, name)
    dtype = _DTYPES.get(str(held.dtype), "int")
    if tensor is None or not may_be_mask(tuple(held.shape), dtype):
        return False
    return is_triangle(tensor.float().numpy())


def _numbers(program: Any, name: str, held: Any) -> tuple[float, ...] | None:
    if held.numel() > _FEW:
        return None
    tensor = _stored(program, name)
    return None if tensor is None else tuple(float(n) for n in tensor.reshape(-1).tolist())


def _steps(
    nodes: list[Any], values: dict[str, Value], weights: dict[str, Weight]
) -> Iterator[Step]:
    """Steps of calls; numbers among their operands become stored tensors of one element."""
    parts: dict[str, list[str]] = {}
    for node in nodes:
        if node.op != "call_function":
            continue
        call = Call(node, str(node.target).removesuffix(".default"), values, weights, parts)
        yield from read_call(call)
