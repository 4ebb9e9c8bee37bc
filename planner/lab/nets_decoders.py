"""Decoders of well-known models, small: what a compiler is asked to fuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.lab.net import Weights

TOKENS, VOCAB = 24, 128


@dataclass(frozen=True)
class Decoder:
    """What sets decoders apart."""

    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    inner: int = 160
    layers: int = 2
    qk_norm: bool = False
    shift: float = 0.0
    """Added to norm weights."""
    sandwich: bool = False
    """Norms behind attention and MLP too, and a scaled embedding."""
    activation: str = "silu"
    experts: int = 0
    capped: bool = False
    """Attention written out, with its scores capped by a tanh as Gemma 2 does."""


def rotation(w: Weights, width: int) -> tuple[Any, Any]:
    """Cosines and sines of each place, for heads of this width."""
    places = w.torch.arange(TOKENS).float()
    speeds = 10_000.0 ** -(w.torch.arange(0, width, 2).float() / width)
    angles = w.torch.cat((places[:, None] * speeds, places[:, None] * speeds), -1)
    return angles.cos().to(w.dtype), angles.sin().to(w.dtype)


def rotated(w: Weights, x: Any, turn: tuple[Any, Any]) -> Any:
    """The second half turned against the first, by each place's angle."""
    half = x.shape[-1] // 2
    return x * turn[0] + w.torch.cat((-x[..., half:], x[..., :half]), -1) * turn[1]


def attention(w: Weights, x: Any, name: str, of: Decoder, turn: tuple[Any, Any]) -> Any:
    """Rotated, grouped attention over earlier tokens."""
    n, length, _ = x.shape
    parts = []
    for part, heads in (("q", of.heads), ("k", of.kv_heads), ("v", of.kv_heads)):
        made = w.linear(x, f"{name}_{part}_proj", heads * of.head_dim)
        made = made.view(n, length, heads, of.head_dim)
        if of.qk_norm and part != "v":
            made = w.rms_norm(made, f"{name}_{part}_norm", shift=of.shift)
        made = made.transpose(1, 2)
        parts.append(made if part == "v" else rotated(w, made, turn))
    q, k, v = parts
    k, v = (each.repeat_interleave(of.heads // of.kv_heads, 1) for each in (k, v))
    seen = _capped(w, q, k, v) if of.capped else _flash(w, q, k, v)
    joined = seen.transpose(1, 2).reshape(n, length, of.heads * of.head_dim)
    return w.linear(joined, f"{name}_o_proj", of.hidden)


def _flash(w: Weights, q: Any, k: Any, v: Any) -> Any:
    return w.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _capped(w: Weights, q: Any, k: Any, v: Any) -> Any:
    scores = w.torch.tanh(q @ k.transpose(2, 3) * 0.25 / 50.0) * 50.0
    hidden = w.torch.ones(TOKENS, TOKENS, dtype=w.torch.bool).triu(1)
    scores = scores.masked_fill(hidden, -1e9)
    return w.torch.softmax(scores.float(), -1).to(q.dtype) @ v


def gated_mlp(w: Weights, x: Any, name: str, of: Decoder) -> Any:
    """Gate, up and down projections."""
    f = w.torch.nn.functional
    gate, up = (w.linear(x, f"{name}_{part}_proj", of.inner) for part in ("gate", "up"))
    turned = f.silu(gate) if of.activation == "silu" else f.gelu(gate, approximate="tanh")
    return w.linear(turned * up, f"{name}_down_proj", of.hidden)


def _experts(w: Weights, x: Any, name: str, of: Decoder) -> Any:
    """The two best experts of each token; all run, side by side, and the others count nothing."""
    torch = w.torch
    odds = torch.softmax(w.linear(x, f"{name}_router", of.experts).float(), -1)
    best = odds.amax(-1, keepdim=True)
    second = torch.where(odds >= best, 0.0, odds).amax(-1, keepdim=True)
    kept = torch.where(odds >= second, odds, 0.0)
    kept = (kept / kept.sum(-1, keepdim=True)).to(x.dtype)
    gate, up = (
        w.linear(x, f"{name}_{part}_proj", of.experts * of.inner) for part in ("gate", "up")
    )
    made = (torch.nn.functional.silu(gate) * up).unflatten(-1, (of.experts, of.inner))
    weighed = (made * kept[..., None]).flatten(-2)
    return w.linear(weighed, f"{name}_down_proj", of.hidden)


def decoder(of: Decoder) -> Callable[..., Any]:
    """A whole decoder, from ids to logits."""

    def run(w: Weights, ids: Any) -> Any:
        x = w.embedding(ids, "embed_tokens", VOCAB, of.hidden)
        if of.sandwich:
            x = x * of.hidden**0.5
        turn = rotation(w, of.head_dim)
        for layer in range(of.layers):
            name = f"layer{layer}"
            seen = attention(
                w, w.rms_norm(x, f"{name}_in_norm", shift=of.shift), f"{name}_attn", of, turn
            )
            if of.sandwich:
                seen = w.rms_norm(seen, f"{name}_post_attn_norm", shift=of.shift)
            x = x + seen
            normed = w.rms_norm(x, f"{name}_mlp_norm", shift=of.shift)
            made = (_experts if of.experts else gated_mlp)(w, normed, f"{name}_mlp", of)
            if of.sandwich:
                made = w.rms_norm(made, f"{name}_post_mlp_norm", shift=of.shift)
            x = x + made
        return w.linear(w.rms_norm(x, "norm", shift=of.shift), "lm_head", VOCAB)

    return run
