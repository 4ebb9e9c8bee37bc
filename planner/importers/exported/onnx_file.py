"""An ONNX file as an exported graph: structure and shapes, never the weights themselves."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from planner.errors import UsageError
from planner.importers.exported.infer import with_sides
from planner.importers.exported.masks import is_triangle, may_be_mask
from planner.importers.exported.types import Export, Sides, Step, Value, Weight

_DTYPES = {1: "fp32", 10: "fp16", 16: "bf16", 11: "fp64", 3: "int8", 2: "int8", 9: "bool"}
_FLOATS8 = (17, 18, 19, 20)
_FOURS = (21, 22)
_FEW = 64
"""Numbers of a stored tensor that are looked at: sides of a reshape, not weights."""


def onnx_export(file: Path) -> Export:
    """The graph of an ONNX file, with shapes inferred. External weight data is not read.

    Raises UsageError: no ``onnx`` installed, an unreadable file, one that is no ONNX model.
    """
    onnx = _package()
    model = _inferred(onnx, _loaded(onnx, file))
    graph = model.graph
    weights = {w.name: w for w in _weights(onnx, graph)}
    values = {v.name: v for v in _values([*graph.input, *graph.value_info, *graph.output])}
    steps = tuple(_steps(onnx, graph))
    inputs = tuple(value.name for value in graph.input if value.name not in weights)
    outputs = tuple(value.name for value in graph.output)
    if not steps or not outputs:
        raise UsageError(f"{file} holds no graph: it has no nodes or no outputs")
    return with_sides(Export("onnx", inputs, outputs, steps, values, weights))


def _package() -> Any:
    try:
        import onnx
    except ImportError:
        hint = "pip install 'inference-planner[onnx]'"
        raise UsageError("reading ONNX files needs the package onnx", hint) from None
    return onnx


def _loaded(onnx: Any, file: Path) -> Any:
    try:
        model = onnx.load(str(file), load_external_data=False)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    except Exception as error:
        raise UsageError(f"{file} is no ONNX model", "it cannot be decoded") from error
    if not model.graph.node and not model.opset_import:
        raise UsageError(f"{file} is no ONNX model", "it is empty or holds something else")
    return model


def _inferred(onnx: Any, model: Any) -> Any:
    """The model with its functions inlined and the shapes that ONNX can work out."""
    import onnx.inliner
    import onnx.shape_inference

    try:
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        return onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except Exception:  # noqa: BLE001 - a C++ library's own errors; the shapes stated still hold
        return model


def _values(infos: list[Any]) -> Iterator[Value]:
    for info in infos:
        tensor = info.type.tensor_type
        sides = _sides(tensor.shape) if tensor.HasField("shape") else None
        yield Value(info.name, sides, dtype_word(tensor.elem_type))


def _sides(shape: Any) -> Sides | None:
    sides: list[int | str] = []
    for dim in shape.dim:
        if dim.HasField("dim_value"):
            sides.append(int(dim.dim_value))
        elif dim.dim_param and not dim.dim_param.startswith("unk__"):
            sides.append(str(dim.dim_param))
        else:
            return None
    return tuple(sides)


def dtype_word(number: int) -> str:
    """ONNX's number of a type as the planner's word; ``int`` for indices."""
    if number in _FLOATS8:
        return "fp8"
    return "int4" if number in _FOURS else _DTYPES.get(number, "int")


def _weights(onnx: Any, graph: Any) -> Iterator[Weight]:
    for tensor in graph.initializer:
        yield _weight(onnx, tensor, tensor.name)
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        raise UsageError(f"the initializer '{name}' is sparse", "sparse weights are not planned")
    for node in graph.node:
        if node.op_type == "Constant":
            yield _constant(onnx, node)


def _weight(onnx: Any, tensor: Any, name: str) -> Weight:
    sides = tuple(int(side) for side in tensor.dims)
    count = prod(sides)
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    dtype, numbers, triangle = dtype_word(tensor.data_type), None, False
    if count <= _FEW and not external:
        array = onnx.numpy_helper.to_array(tensor).reshape(-1)
        numbers = tuple(float(number) for number in array)
    if may_be_mask(sides, dtype) and not external:
        triangle = is_triangle(onnx.numpy_helper.to_array(tensor))
    return Weight(name, sides, dtype, numbers=numbers, triangle=triangle)


def _constant(onnx: Any, node: Any) -> Weight:
    """What a Constant node holds, as a stored tensor."""
    attribute = node.attribute[0]
    held = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return _weight(onnx, held, node.output[0])
    numbers = held if isinstance(held, list | tuple) else [held]
    dtype = "fp32" if "float" in attribute.name else "int"
    sides = (len(numbers),) if isinstance(held, list | tuple) else ()
    read = tuple(float(n) for n in numbers) if dtype == "fp32" or "int" in attribute.name else None
    return Weight(node.output[0], sides, dtype, numbers=read)


def _steps(onnx: Any, graph: Any) -> Iterator[Step]:
    named: set[str] = set()
    for position, node in enumerate(graph.node):
        if node.op_type == "Constant":
            continue
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        name = node.name or f"{node.op_type}_{position}"
        name = f"{name}#{position}" if name in named else name
        named.add(name)
        _check(name, node, attributes)
        yield Step(name, _op(node), tuple(node.input), tuple(node.output), _plain(onnx, attributes))


_NEEDED = {
    "Concat": ("axis",),
    "GroupQueryAttention": ("num_heads", "kv_num_heads"),
    "MultiHeadAttention": ("num_heads",),
    "MatMulNBits": ("K", "N"),
}
_SOURCES = frozenset({"RandomNormal", "RandomUniform", "Constant"})
_TWO = frozenset({"MatMul", "Gemm", "Add", "Sub", "Mul", "Div", "Pow", "Gather", "Conv", "Expand"})


def _check(name: str, node: Any, attributes: dict[str, Any]) -> None:
    """Raise UsageError for a node without what its operator cannot be without."""
    lacking = [each for each in _NEEDED.get(node.op_type, ()) if each not in attributes]
    if lacking:
        raise UsageError(f"the node '{name}' ({node.op_type}) has no {' and no '.join(lacking)}")
    fewest = 2 if node.op_type in _TWO else 0 if node.op_type in _SOURCES else 1
    if len(list(filter(None, node.input[:fewest]))) < fewest or not any(node.output):
        raise UsageError(f"the node '{name}' ({node.op_type}) lacks inputs or outputs")


_OWN_DOMAINS = ("", "ai.onnx", "com.microsoft")


def _op(node: Any) -> str:
    """The operator's name: with its domain where two domains mean different things by it."""
    if node.domain == "com.microsoft" and node.op_type == "Attention":
        return "PackedAttention"
    return node.op_type if node.domain in _OWN_DOMAINS else f"{node.domain}.{node.op_type}"


def _plain(onnx: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes without graphs and tensors; texts as texts."""
    kept: dict[str, Any] = {}
    for name, value in attributes.items():
        if isinstance(value, onnx.TensorProto) and tuple(value.dims) in {(), (1,)}:
            kept[name] = float(onnx.numpy_helper.to_array(value).reshape(-1)[0])
        elif isinstance(value, bytes):
            kept[name] = value.decode("utf-8", "replace")
        elif isinstance(value, int | float | str):
            kept[name] = value
        elif isinstance(value, list) and all(isinstance(v, int | float) for v in value):
            kept[name] = tuple(value)
    return kept
