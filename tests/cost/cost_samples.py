"""Small models, a round device, and random graphs to price."""

from __future__ import annotations

from hypothesis import strategies as st

from planner.cost.types import Device
from planner.graph.build import model_graph
from planner.graph.types import ModelGraph
from planner.ops.types import Formats
from planner.spec.load import load_text
from planner.spec.types import ModelSpec

BF16 = Formats(weights="bf16", matmul="bf16", activations="bf16", kv_cache="bf16")
FP8 = Formats(weights="fp8", matmul="fp8", activations="bf16", kv_cache="fp8")

DEVICE = Device(
    name="round",
    title="Round",
    bandwidth_bytes_per_s=1e12,
    matrix_flops_per_s={"bf16": 100e12, "fp8": 200e12},
    vector_flops_per_s=10e12,
    link_bytes_per_s=50e9,
    l2_bytes=32e6,
    visible_bytes=1e6,
    capacity_bytes=1.1e6,
)

TINY = """\
kind: model
name: tiny
title: Tiny decoder
dims: {hidden: 64, heads: 8, kv_heads: 2, head_dim: hidden / heads, wide: 3 * hidden, vocab: 96}
options: {window: null}
sequence:
  - {block: embed}
  - {block: layer, times: 3}
  - {block: head}
blocks:
  embed:
    name: embed
    inputs: {ids: [tokens]}
    nodes:
      embed_tokens: {op: embedding, in: ids, out: x, rows: vocab, features: hidden}
    outputs: [x]
  layer:
    name: layer
    inputs: {x: [tokens, hidden]}
    nodes:
      norm: {op: rms_norm, in: x, out: h}
      q_proj: {op: linear, in: h, out: q, features: heads * head_dim, unit: head_dim, shard: column}
      k_proj: {op: linear, in: h, out: k, features: kv_heads * head_dim, unit: head_dim, shard: kv}
      v_proj: {op: linear, in: h, out: v, features: kv_heads * head_dim, unit: head_dim, shard: kv}
      kv_cache_write: {op: kv_cache_write, in: [k, v], out: cache}
      attention: {op: attention, in: [q, cache], out: attended, heads: heads, kv_heads: kv_heads, head_dim: head_dim, window: window}
      o_proj: {op: linear, in: attended, out: projected, features: hidden, shard: row}
      residual: {op: add, in: [x, projected], out: middle}
      up_proj: {op: linear, in: middle, out: up, features: wide, shard: column}
      act: {op: gelu, in: up, out: activated}
      down_proj: {op: linear, in: activated, out: down, features: hidden, shard: row}
      mlp_residual: {op: add, in: [middle, down], out: y}
    outputs: [y]
  head:
    name: head
    inputs: {x: [tokens, hidden]}
    nodes:
      select_last: {op: select_last, in: x, out: last}
      lm_head: {op: linear, in: last, out: logits, features: vocab, shard: vocab, quantizable: false}
      sampling: {op: sampling, in: logits, out: next_ids}
    outputs: [next_ids]
"""

CNN = """\
kind: model
name: cnn
title: Convolution, view, projection
inputs: {image: [batch, 3, 8, 8]}
sequence: [{block: cnn}]
blocks:
  cnn:
    name: cnn
    inputs: {image: [batch, 3, 8, 8]}
    nodes:
      conv: {op: conv2d, in: image, out: c, channels: 4, kernel: 3, padding: 1}
      flatten: {op: flatten, in: c, out: flat}
      square: {op: mul, in: [flat, flat], out: squared}
      fc: {op: linear, in: squared, out: y, features: 10}
    outputs: [y]
"""


def graph(text: str, formats: Formats = BF16, ranks: int = 1) -> ModelGraph:
    spec = load_text(text, "m.yaml", "model")
    assert isinstance(spec, ModelSpec)
    return model_graph(spec, spec.blocks, formats, ranks)


@st.composite
def random_models(draw) -> ModelGraph:
    """A block of random wiring that may follow itself: one or two tensors in, as many out."""
    width = draw(st.integers(1, 2))
    names = [f"in{i}" for i in range(width)]
    inputs = ", ".join(f"{name}: [tokens, 8]" for name in names)
    nodes = []
    for number in range(draw(st.integers(2, 7))):
        op = draw(st.sampled_from(["relu", "add", "add", "linear", "rms_norm"]))
        first, second = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        read = f"[{first}, {second}]" if op == "add" else first
        features = ", features: 8" if op == "linear" else ""
        names.append(f"n{number}")
        nodes.append(f"      n{number}: {{op: {op}, in: {read}{features}}}\n")
    made = st.sampled_from(names[width:])
    outputs = draw(st.lists(made, min_size=width, max_size=width, unique=True))
    return graph(
        "kind: model\nname: r\ntitle: R\n"
        f"inputs: {{{inputs}}}\nsequence: [{{block: b, times: 2}}]\nblocks:\n  b:\n    name: b\n"
        f"    inputs: {{{inputs}}}\n    nodes:\n{''.join(nodes)}    outputs: [{', '.join(outputs)}]\n"
    )
