"""Small models as a user writes them, and the graphs they make."""

from __future__ import annotations

from planner.errors import SpecError
from planner.graph.build import model_graph
from planner.graph.types import Block, ModelGraph
from planner.ops.types import Formats
from planner.spec.load import load_text
from planner.spec.types import ModelSpec

BF16 = Formats(weights="bf16", matmul="bf16", activations="bf16", kv_cache="bf16")
FP8 = Formats(weights="fp8", matmul="fp8", activations="bf16", kv_cache="fp8")

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

PIPE = """\
kind: model
name: pipe
title: One block in a row
dims: {hidden: 8}
inputs: {x: [batch, hidden]}
sequence:
  - {block: step}
blocks:
  step:
    name: step
    inputs: {x: [batch, hidden]}
    nodes:
      one: {op: linear, in: x, out: a, features: hidden}
      two: {op: relu, in: a, out: b}
      three: {op: add, in: [x, b], out: y}
    outputs: [y]
"""


def model(text: str) -> ModelSpec:
    spec = load_text(text, "m.yaml", "model")
    assert isinstance(spec, ModelSpec)
    return spec


def graph(text: str, formats: Formats = BF16, ranks: int = 1) -> ModelGraph:
    spec = model(text)
    return model_graph(spec, spec.blocks, formats, ranks)


def block(text: str, label: str, formats: Formats = BF16, ranks: int = 1) -> Block:
    [found] = [kind for kind in graph(text, formats, ranks).kinds if kind.label == label]
    return found


def changed(text: str, *changes: tuple[str, str]) -> str:
    """The text with each fragment, which stands in it once, replaced."""
    for old, new in changes:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    return text


def faults(text: str, formats: Formats = BF16, ranks: int = 1) -> list[str]:
    """The first line of each fault that building the model finds."""
    try:
        graph(text, formats, ranks)
    except SpecError as error:
        return [str(fault).splitlines()[0] for fault in error.faults]
    return []


def place(text: str, fragment: str) -> str:
    """file:line:column of a fragment that stands in the text once."""
    assert text.count(fragment) == 1, (fragment, text.count(fragment))
    before = text[: text.index(fragment)].split("\n")
    return f"m.yaml:{len(before)}:{len(before[-1]) + 1}"
