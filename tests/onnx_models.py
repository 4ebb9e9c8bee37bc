"""Small ONNX models, built node by node, whose sizes the tests work out by hand."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


class Builder:
    """Nodes and weights as they are written down."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(7)

    def add(self, op: str, *inputs: str, out: str, domain: str = "", **attributes) -> str:
        name = attributes.pop("name", f"{op}_{len(self.nodes)}")
        self.nodes.append(
            helper.make_node(op, inputs, [out], name=name, domain=domain, **attributes)
        )
        return out

    def weight(self, name: str, *sides: int) -> str:
        array = self.random.random(sides, dtype=np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def constant(self, name: str, values, dtype=np.int64) -> str:
        if name not in {held.name for held in self.weights}:
            self.weights.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def linear(self, x: str, name: str, depth: int, features: int, *, bias: bool = False) -> str:
        y = self.add("MatMul", x, self.weight(f"{name}.weight", depth, features), out=f"{name}.y")
        if bias:
            y = self.add("Add", y, self.weight(f"{name}.bias", features), out=f"{name}.z")
        return y

    def model(self, inputs: dict, outputs: dict, *domains: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "graph",
            [helper.make_tensor_value_info(n, t, sides) for n, (t, sides) in inputs.items()],
            [helper.make_tensor_value_info(n, FLOAT, sides) for n, sides in outputs.items()],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
        return helper.make_model(graph, opset_imports=opsets)


def mlp(width: int = 32, layers: int = 4, classes: int = 10) -> onnx.ModelProto:
    b, x = Builder(), "x"
    for layer in range(layers):
        y = b.linear(x, f"layers.{layer}.fc", width, width, bias=True)
        x = b.add("Relu", y, out=f"r{layer}")
    b.linear(x, "head", width, classes, bias=True)
    return b.model({"x": (FLOAT, ["batch", width])}, {"head.z": ["batch", classes]})


def rms_norm(b: Builder, x: str, name: str, hidden: int) -> str:
    """Written out: x · (mean(x²) + ε)^(−1/2) · w."""
    square = b.add("Pow", x, b.constant("two", 2.0, np.float32), out=f"{name}.square")
    mean = b.add("ReduceMean", square, out=f"{name}.mean", axes=[-1])
    total = b.add("Add", mean, b.constant("epsilon", 1e-6, np.float32), out=f"{name}.shifted")
    root = b.add("Sqrt", total, out=f"{name}.root")
    inverse = b.add("Reciprocal", root, out=f"{name}.inverse")
    scaled = b.add("Mul", x, inverse, out=f"{name}.scaled")
    return b.add("Mul", b.weight(f"{name}.weight", hidden), scaled, out=f"{name}.y")


def heads_of(b: Builder, x: str, name: str, heads: int, dim: int) -> str:
    split = b.add(
        "Reshape", x, b.constant(f"heads{heads}", [0, 0, heads, dim]), out=f"{name}.split"
    )
    return b.add("Transpose", split, out=f"{name}.heads", perm=[0, 2, 1, 3])


def rotated(b: Builder, x: str, name: str, dim: int) -> str:
    """x · cos + (−x₂, x₁) · sin, with tables that come in by position."""
    first = b.add(
        "Slice", x, b.constant("zero", [0]), b.constant("half", [dim // 2]), b.constant("last", [3]),
        out=f"{name}.first",
    )  # fmt: skip
    second = b.add(
        "Slice", x, b.constant("half", [dim // 2]), b.constant("end", [2**62]), b.constant("last", [3]),
        out=f"{name}.second",
    )  # fmt: skip
    turned = b.add(
        "Concat", b.add("Neg", second, out=f"{name}.neg"), first, out=f"{name}.turned", axis=-1
    )
    plain = b.add("Mul", x, "cos", out=f"{name}.plain")
    other = b.add("Mul", turned, "sin", out=f"{name}.other")
    return b.add("Add", plain, other, out=f"{name}.rotated")


def tables(b: Builder, dim: int) -> None:
    """cos and sin of the positions that come in: nothing of a weight product."""
    frequencies = np.concatenate([10000.0 ** -(np.arange(0, dim, 2) / dim)] * 2).astype(np.float32)
    b.weights.append(numpy_helper.from_array(frequencies.reshape(1, 1, dim), "frequencies"))
    cast = b.add("Cast", "position_ids", out="positions", to=FLOAT)
    column = b.add("Unsqueeze", cast, b.constant("minus_one", [-1]), out="column")
    angles = b.add("Mul", column, "frequencies", out="angles")
    wide = b.add("Unsqueeze", angles, b.constant("one", [1]), out="angles_by_head")
    b.add("Cos", wide, out="cos")
    b.add("Sin", wide, out="sin")


def causal_mask(b: Builder) -> None:
    """0 where a token looks back, −10⁹ where it would look ahead, of the length that comes in."""
    shape = b.add("Shape", "token_ids", out="shape")
    length = b.add("Gather", shape, b.constant("place", 1), out="length")
    span = b.add("Range", b.constant("start", 0), length, b.constant("step", 1), out="span")
    row = b.add("Unsqueeze", span, b.constant("zero", [0]), out="row")
    column = b.add("Unsqueeze", span, b.constant("one", [1]), out="column_of_ids")
    ahead = b.add("Greater", row, column, out="ahead")
    b.add(
        "Where", ahead, b.constant("low", -1e9, np.float32), b.constant("nought", 0.0, np.float32),
        out="mask",
    )  # fmt: skip


def decoder(
    vocab: int = 100, hidden: int = 32, heads: int = 4, inner: int = 48, layers: int = 3, **options
) -> onnx.ModelProto:
    """Pre-norm layers with RoPE, attention and SwiGLU, everything written out."""
    b, dim = Builder(), hidden // heads
    tables(b, dim)
    if options.get("causal", True):
        causal_mask(b)
    else:
        b.constant("mask", 0.0, np.float32)
    x = b.add("Gather", b.weight("embed_tokens.weight", vocab, hidden), "token_ids", out="embedded")
    for layer in range(layers):
        x = _layer(b, x, f"layers.{layer}", (hidden, heads, dim, inner))
    final = rms_norm(b, x, "norm", hidden)
    b.add("MatMul", final, b.weight("lm_head.weight", hidden, vocab), out="logits")
    ids = (INT, ["batch", "length"])
    return b.model({"token_ids": ids, "position_ids": ids}, {"logits": ["batch", "length", vocab]})


def _layer(b: Builder, x: str, name: str, dims: tuple[int, int, int, int]) -> str:
    hidden, heads, dim, inner = dims
    h = rms_norm(b, x, f"{name}.input_norm", hidden)
    q, k, v = (
        heads_of(
            b, b.linear(h, f"{name}.{part}_proj", hidden, hidden), f"{name}.{part}", heads, dim
        )
        for part in "qkv"
    )
    q, k = rotated(b, q, f"{name}.q", dim), rotated(b, k, f"{name}.k", dim)
    turned = b.add("Transpose", k, out=f"{name}.kt", perm=[0, 1, 3, 2])
    scores = b.add("MatMul", q, turned, out=f"{name}.scores")
    scaled = b.add("Div", scores, b.constant("root", dim**0.5, np.float32), out=f"{name}.scaled")
    masked = b.add("Add", scaled, "mask", out=f"{name}.masked")
    weights = b.add("Softmax", masked, out=f"{name}.softmax", axis=-1)
    values = b.add("MatMul", weights, v, out=f"{name}.values")
    back = b.add("Transpose", values, out=f"{name}.back", perm=[0, 2, 1, 3])
    joined = b.add("Reshape", back, b.constant("rows", [0, 0, hidden]), out=f"{name}.joined")
    middle = b.add(
        "Add", x, b.linear(joined, f"{name}.o_proj", hidden, hidden), out=f"{name}.middle"
    )
    m = rms_norm(b, middle, f"{name}.post_norm", hidden)
    gate, up = (b.linear(m, f"{name}.{part}_proj", hidden, inner) for part in ("gate", "up"))
    sigmoid = b.add("Sigmoid", gate, out=f"{name}.sigmoid")
    activated = b.add("Mul", gate, sigmoid, out=f"{name}.activated")
    product = b.add("Mul", activated, up, out=f"{name}.product")
    down = b.linear(product, f"{name}.down_proj", inner, hidden)
    return b.add("Add", middle, down, out=f"{name}.y")


def grouped(
    hidden: int = 64, heads: int = 8, kv_heads: int = 2, layers: int = 2, vocab: int = 50
) -> onnx.ModelProto:
    """As onnxruntime's exporters write decoders: contrib operators, caches in and out."""
    b, dim = Builder(), hidden // heads
    b.weight("cos_cache", 16, dim // 2)
    b.weight("sin_cache", 16, dim // 2)
    x = b.add("Gather", b.weight("embed.weight", vocab, hidden), "input_ids", out="embedded")
    h = b.add("SimplifiedLayerNormalization", x, b.weight("l0.norm.weight", hidden), out="h0")
    width = (heads + 2 * kv_heads) * dim
    inputs = {"input_ids": (INT, ["batch", "length"])}
    for layer in range(layers):
        past = [f"past.{layer}.{part}" for part in ("key", "value")]
        inputs |= {name: (FLOAT, ["batch", kv_heads, "past", dim]) for name in past}
        qkv = b.linear(h, f"l{layer}.qkv_proj", hidden, width)
        b.nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [qkv, "", "", *past, "seqlens_k", "total", "cos_cache", "sin_cache"],
                [f"a{layer}", f"present.{layer}.key", f"present.{layer}.value"],
                name=f"/l{layer}/attn/GroupQueryAttention", domain="com.microsoft",
                num_heads=heads, kv_num_heads=kv_heads, do_rotary=1, local_window_size=128,
            )
        )  # fmt: skip
        o = b.linear(f"a{layer}", f"l{layer}.o_proj", hidden, hidden)
        b.nodes.append(
            helper.make_node(
                "SkipSimplifiedLayerNormalization",
                [x, o, b.weight(f"l{layer + 1}.norm.weight", hidden)],
                [f"h{layer + 1}", "", "", f"x{layer + 1}"],
                name=f"/l{layer}/skip", domain="com.microsoft",
            )
        )  # fmt: skip
        x, h = f"x{layer + 1}", f"h{layer + 1}"
    b.linear(h, "lm_head", hidden, vocab)
    outputs = {"lm_head.y": ["batch", "length", vocab]}
    outputs |= {
        f"present.{layer}.key": ["batch", kv_heads, "total", dim] for layer in range(layers)
    }
    inputs |= {"seqlens_k": (INT, ["batch"]), "total": (INT, [])}
    return b.model(inputs, outputs, "com.microsoft")


def tower(hidden: int = 16, heads: int = 2, patches: int = 4) -> onnx.ModelProto:
    """A convolution to patches, positions, one layer of attention in both directions, a mean."""
    b, dim, count = Builder(), hidden // heads, patches**2
    b.add(
        "Conv", "pixels", b.weight("patch.weight", hidden, 3, 8, 8), b.weight("patch.bias", hidden),
        out="image", kernel_shape=[8, 8], strides=[8, 8],
    )  # fmt: skip
    flat = b.add("Reshape", "image", b.constant("flat", [0, hidden, count]), out="flat_image")
    rows = b.add("Transpose", flat, out="rows_of_patches", perm=[0, 2, 1])
    x = b.add("Add", rows, b.weight("positions", 1, count, hidden), out="placed")
    q, k, v = (
        heads_of(b, b.linear(x, f"{part}_proj", hidden, hidden, bias=True), part, heads, dim)
        for part in "qkv"
    )
    turned = b.add("Transpose", k, out="kt", perm=[0, 1, 3, 2])
    weights = b.add("Softmax", b.add("MatMul", q, turned, out="scores"), out="softmax", axis=-1)
    values = b.add("MatMul", weights, v, out="values")
    back = b.add("Transpose", values, out="back", perm=[0, 2, 1, 3])
    joined = b.add("Reshape", back, b.constant("joined_rows", [0, 0, hidden]), out="joined")
    y = b.add("Add", x, b.linear(joined, "o_proj", hidden, hidden, bias=True), out="y")
    norm = b.add(
        "LayerNormalization", y, b.weight("norm.weight", hidden), b.weight("norm.bias", hidden),
        out="normed",
    )  # fmt: skip
    b.add("ReduceMean", norm, out="pooled", axes=[1], keepdims=0)
    side = 8 * patches
    return b.model({"pixels": (FLOAT, ["n", 3, side, side])}, {"pooled": ["n", hidden]})


def stored(model: onnx.ModelProto) -> int:
    """Numbers in all initializers that are weights: floats of more than one element."""
    return sum(
        int(np.prod(tensor.dims))
        for tensor in model.graph.initializer
        if tensor.data_type == FLOAT and np.prod(tensor.dims) > 1
    )
