"""ATen's operators in ONNX's vocabulary, so that one set of patterns reads both."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.importers.exported.aten_several import join, pick, split
from planner.importers.exported.call import Call
from planner.importers.exported.types import Step

Reader = Callable[[Call], Iterator[Step]]

_SAME = {
    "Relu": "relu relu_",
    "Silu": "silu silu_",
    "Gelu": "gelu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Neg": "neg",
    "Abs": "abs",
    "Square": "square",
    "DepthToSpace": "pixel_shuffle",
    "SpaceToDepth": "pixel_unshuffle",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Rsqrt": "rsqrt",
    "Reciprocal": "reciprocal",
    "Erf": "erf",
    "Sin": "sin",
    "Cos": "cos",
    "Elu": "elu",
    "Softplus": "softplus",
    "Mish": "mish",
    "HardSwish": "hardswish hardswish_",
    "HardSigmoid": "hardsigmoid",
    "LeakyRelu": "leaky_relu leaky_relu_",
    "Clip": "clamp clamp_min clamp_max hardtanh hardtanh_",
    "Not": "logical_not bitwise_not",
    "Trilu": "tril triu",
    "CumSum": "cumsum",
    "Cast": "to _to_copy type_as float half bfloat16",
    "Identity": "clone alias detach lift_fresh_copy contiguous dropout dropout_ feature_dropout "
    "_assert_tensor_metadata",
    "Reshape": "view reshape _unsafe_view flatten unflatten unsqueeze squeeze",
    "Expand": "expand expand_as repeat repeat_interleave",
    "Slice": "slice select narrow",
    "Pad": "pad constant_pad_nd",
    "ResizeNearest": "upsample_nearest1d upsample_nearest2d upsample_nearest3d",
    "Glu": "glu",
    "Roll": "roll",
    "ReduceMean": "mean",
    "ReduceSum": "sum",
    "ReduceMax": "amax",
    "ReduceMin": "amin",
    "ReduceL2": "norm linalg_vector_norm",
    "ArgMax": "argmax",
    "ArgMin": "argmin",
    "Shape": "sym_size",
}
"""Calls of one tensor whose further arguments change no cost."""
_TWO = {
    "Add": "add add_",
    "Sub": "sub rsub",
    "Mul": "mul mul_",
    "Div": "div div_ true_divide",
    "Pow": "pow",
    "Max": "maximum",
    "Min": "minimum",
    "MatMul": "matmul bmm mm",
    "And": "logical_and bitwise_and __and__",
    "Or": "logical_or bitwise_or __or__",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
    "Equal": "eq ne",
    "PRelu": "prelu",
}


def _one(op: str) -> Reader:
    def read(call: Call) -> Iterator[Step]:
        if not hasattr(call.argument(0), "name"):
            return
        yield call.step(op, call.tensor(0))

    return read


def _two(op: str) -> Reader:
    def read(call: Call) -> Iterator[Step]:
        yield call.step(op, call.tensor(0), call.tensor(1))

    return read


def _many(op: str, count: int) -> Reader:
    def read(call: Call) -> Iterator[Step]:
        yield call.step(op, *(call.tensor(position) for position in range(count)))

    return read


def _softmax(call: Call) -> Iterator[Step]:
    yield call.step("Softmax", call.tensor(0), axis=call.argument(1, "dim", -1))


def _transpose(call: Call) -> Iterator[Step]:
    sides = call.values[call.tensor(0)].sides or ()
    order = list(range(len(sides)))
    if call.target.split(".")[1] == "permute":
        order = [axis % len(sides) for axis in call.argument(1, "dims")]
    elif sides:
        first, second = call.argument(1, "dim0", 0), call.argument(2, "dim1", 1)
        order[first], order[second] = order[second], order[first]
    yield call.step("Transpose", call.tensor(0), perm=tuple(order))


def _layer_norm(call: Call) -> Iterator[Step]:
    weight, bias = call.tensor(2, "weight"), call.tensor(3, "bias")
    yield call.step("LayerNormalization", call.tensor(0), weight, bias)


def _rms_norm(call: Call) -> Iterator[Step]:
    yield call.step("RMSNormalization", call.tensor(0), call.tensor(2, "weight"))


def _group_norm(call: Call) -> Iterator[Step]:
    yield call.step("GroupNorm", call.tensor(0), call.tensor(2, "weight"), call.tensor(3, "bias"))


def _embedding(call: Call) -> Iterator[Step]:
    yield call.step("Gather", call.tensor(0), call.tensor(1), axis=0)


def _index(call: Call) -> Iterator[Step]:
    """``x[ids]``: the indices of a first side alone, as a look-up."""
    indices = call.argument(1, "indices")
    held = [index for index in indices if index is not None]
    axis = next(place for place, index in enumerate(indices) if index is not None)
    if len(held) == 1:
        yield call.step("Gather", call.tensor(0), call.named(held[0]), axis=axis)
    else:
        yield call.step("aten.index with several indices", call.tensor(0))


def _attention(call: Call) -> Iterator[Step]:
    yield call.step(
        "Attention",
        *(call.tensor(position) for position in range(3)),
        call.tensor(3, "attn_mask"),
        is_causal=int(bool(call.argument(5, "is_causal", False))),
    )


def _convolution(call: Call) -> Iterator[Step]:
    group = {"conv_transpose1d": 6, "conv_transpose2d": 6, "convolution": 8}
    name = call.target.split(".")[1]
    groups = call.argument(group.get(name, 6), "groups", 1)
    turned = "transpose" in name or (name == "convolution" and bool(call.argument(6)))
    op = "ConvTranspose" if turned else "Conv"
    yield call.step(op, call.tensor(0), call.tensor(1), call.tensor(2, "bias"), group=groups)


def _pool(call: Call) -> Iterator[Step]:
    kernel = call.argument(1, "kernel_size")
    rank = len(call.values[call.tensor(0)].sides or ()) - 2
    window = tuple(kernel) if isinstance(kernel, list | tuple) else (kernel,)
    window = window if len(window) == rank else window * rank
    yield call.step("AveragePool", call.tensor(0), kernel_shape=window)


def _mixed(call: Call) -> Iterator[Step]:
    """Input + mat1·mat2, as a projection whose weights lie the other way round."""
    yield call.step("Gemm", call.tensor(1), call.tensor(2), call.tensor(0))


def _side(call: Call) -> Iterator[Step]:
    """What follows from sizes alone."""
    yield call.step("Shape")


def _nothing(call: Call) -> Iterator[Step]:
    del call
    yield from ()


_OWN: dict[str, Reader] = {
    "linear": _many("Linear", 3),
    "addmm": _mixed,
    "layer_norm": _layer_norm,
    "native_layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "batch_norm": _many("BatchNormalization", 5),
    "_native_batch_norm_legit_no_training": _many("BatchNormalization", 5),
    "embedding": _embedding,
    "index_select": lambda call: iter(
        [call.step("Gather", call.tensor(0), call.tensor(2), axis=call.argument(1))]
    ),
    "index": _index,
    "scaled_dot_product_attention": _attention,
    **dict.fromkeys(("cat", "concat", "stack"), join),
    "where": _many("Where", 3),
    "masked_fill": _many("Where", 3),
    "adaptive_avg_pool1d": _one("ReduceMean"),
    "adaptive_avg_pool2d": _one("ReduceMean"),
    **dict.fromkeys(("softmax", "_softmax", "log_softmax"), _softmax),
    **dict.fromkeys(("transpose", "permute", "t", "swapaxes", "movedim"), _transpose),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), _convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d"), _convolution),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d"), _pool),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unbind"), split),
    **dict.fromkeys(("arange", "full", "zeros", "ones", "scalar_tensor", "zeros_like"), _side),
    **dict.fromkeys(("ones_like", "full_like", "new_ones", "new_zeros", "eye"), _side),
}
_TABLE: dict[str, Reader] = {
    **{name: _one(op) for op, names in _SAME.items() for name in names.split()},
    **{name: _two(op) for op, names in _TWO.items() for name in names.split()},
    **_OWN,
}


def read_call(call: Call) -> Iterator[Step]:
    """The steps that a call becomes; one that has no reader keeps its own name, to be refused."""
    if "getitem" in call.target:
        return pick(call)
    space, _, rest = call.target.partition(".")
    name = rest.split(".")[0]
    if space != "aten":  # sizes' arithmetic, assertions
        held = call.node.meta.get("val")
        return _side(call) if not hasattr(held, "shape") else iter([call.step(call.target)])
    reader = _TABLE.get(name)
    if reader is None:
        return iter([call.step(f"aten.{name}", *call.tensors())])
    return reader(call)
