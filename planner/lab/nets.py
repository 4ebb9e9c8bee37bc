"""Blocks of well-known models, small: what a compiler is asked to fuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from planner.lab.net import Weights, module

BATCH, TOKENS, VOCAB = 2, 24, 128


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


def _rotation(w: Weights, width: int) -> tuple[Any, Any]:
    places = w.torch.arange(TOKENS).float()
    speeds = 10_000.0 ** -(w.torch.arange(0, width, 2).float() / width)
    angles = w.torch.cat((places[:, None] * speeds, places[:, None] * speeds), -1)
    return angles.cos().to(w.dtype), angles.sin().to(w.dtype)


def _rotated(w: Weights, x: Any, turn: tuple[Any, Any]) -> Any:
    half = x.shape[-1] // 2
    return x * turn[0] + w.torch.cat((-x[..., half:], x[..., :half]), -1) * turn[1]


def _attention(w: Weights, x: Any, name: str, of: Decoder, turn: tuple[Any, Any]) -> Any:
    n, length, _ = x.shape
    parts = []
    for part, heads in (("q", of.heads), ("k", of.kv_heads), ("v", of.kv_heads)):
        made = w.linear(x, f"{name}_{part}_proj", heads * of.head_dim)
        made = made.view(n, length, heads, of.head_dim)
        if of.qk_norm and part != "v":
            made = w.rms_norm(made, f"{name}_{part}_norm", shift=of.shift)
        made = made.transpose(1, 2)
        parts.append(made if part == "v" else _rotated(w, made, turn))
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


def _mlp(w: Weights, x: Any, name: str, of: Decoder) -> Any:
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
    gate, up = (w.linear(x, f"{name}_{part}_proj", of.experts * of.inner) for part in ("gate", "up"))
    made = (torch.nn.functional.silu(gate) * up).unflatten(-1, (of.experts, of.inner))
    weighed = (made * kept[..., None]).flatten(-2)
    return w.linear(weighed, f"{name}_down_proj", of.hidden)


def _decoder(of: Decoder) -> Callable[..., Any]:
    def run(w: Weights, ids: Any) -> Any:
        x = w.embedding(ids, "embed_tokens", VOCAB, of.hidden)
        if of.sandwich:
            x = x * of.hidden**0.5
        turn = _rotation(w, of.head_dim)
        for layer in range(of.layers):
            name = f"layer{layer}"
            seen = _attention(
                w, w.rms_norm(x, f"{name}_in_norm", shift=of.shift), f"{name}_attn", of, turn
            )
            if of.sandwich:
                seen = w.rms_norm(seen, f"{name}_post_attn_norm", shift=of.shift)
            x = x + seen
            normed = w.rms_norm(x, f"{name}_mlp_norm", shift=of.shift)
            made = (_experts if of.experts else _mlp)(w, normed, f"{name}_mlp", of)
            if of.sandwich:
                made = w.rms_norm(made, f"{name}_post_mlp_norm", shift=of.shift)
            x = x + made
        return w.linear(w.rms_norm(x, "norm", shift=of.shift), "lm_head", VOCAB)

    return run


def _mlp_net(w: Weights, x: Any) -> Any:
    f = w.torch.nn.functional
    for layer, width in enumerate((256, 192, 128)):
        x = f.gelu(w.linear(x, f"fc{layer}", width, bias=True))
    return w.linear(x, "head", 10, bias=True)


def _cnn(w: Weights, x: Any) -> Any:
    f = w.torch.nn.functional

    def conv(x: Any, name: str, width: int, side: int, **said: int) -> Any:
        deep = x.shape[1] // said.get("groups", 1)
        made = f.conv2d(x, w(f"{name}_weight", width, deep, side, side), None, **said)
        held = [w(f"{name}_{part}", width) for part in ("mean", "var", "scale", "shift")]
        return f.batch_norm(made, *held)

    x = f.relu(conv(x, "stem", 16, 3, stride=2, padding=1))
    for block in range(2):
        name = f"block{block}"
        wide = f.relu(conv(x, f"{name}_a", 32, 1))
        wide = f.relu(conv(wide, f"{name}_b", 32, 3, padding=1, groups=32))
        x = f.relu(x + conv(wide, f"{name}_c", 16, 1))
    return w.linear(f.adaptive_avg_pool2d(x, 1).flatten(1), "head", 10, bias=True)


def _convnext(w: Weights, x: Any) -> Any:
    """Two blocks of ConvNeXt: the norm is over channels, which stand last for it alone."""
    f = w.torch.nn.functional
    x = f.conv2d(x, w("stem_weight", 32, 3, 4, 4), w("stem_bias", 32), stride=4)
    for block in range(2):
        name = f"block{block}"
        deep = w(f"{name}_depthwise_weight", 32, 1, 7, 7)
        y = f.conv2d(x, deep, w(f"{name}_depthwise_bias", 32), padding=3, groups=32)
        y = w.layer_norm(y.permute(0, 2, 3, 1), f"{name}_norm")
        y = f.gelu(w.linear(y, f"{name}_fc1", 128, bias=True))
        y = w.linear(y, f"{name}_fc2", 32, bias=True) * w(f"{name}_gamma", 32)
        x = x + y.permute(0, 3, 1, 2)
    return w.linear(w.layer_norm(x.mean((-2, -1)), "norm"), "head", 10, bias=True)


def _mbconv(w: Weights, x: Any) -> Any:
    """Two blocks of EfficientNet: SiLU, and a gate for each channel from the mean of an image."""
    f = w.torch.nn.functional
    x = f.silu(f.conv2d(x, w("stem_weight", 16, 3, 3, 3), w("stem_bias", 16), stride=2, padding=1))
    for block in range(2):
        name = f"block{block}"
        y = f.silu(f.conv2d(x, w(f"{name}_wide", 64, 16, 1, 1), w(f"{name}_wide_bias", 64)))
        deep = w(f"{name}_depthwise", 64, 1, 3, 3)
        y = f.silu(f.conv2d(y, deep, w(f"{name}_depthwise_bias", 64), padding=1, groups=64))
        mean = f.adaptive_avg_pool2d(y, 1)
        gate = f.silu(f.conv2d(mean, w(f"{name}_down", 4, 64, 1, 1), w(f"{name}_down_bias", 4)))
        gate = f.conv2d(gate, w(f"{name}_up", 64, 4, 1, 1), w(f"{name}_up_bias", 64))
        y = y * gate.sigmoid()
        x = x + f.conv2d(y, w(f"{name}_narrow", 16, 64, 1, 1), w(f"{name}_narrow_bias", 16))
    return w.linear(f.adaptive_avg_pool2d(x, 1).flatten(1), "head", 10, bias=True)


def _encoder_layer(w: Weights, x: Any, name: str, *, first: bool) -> Any:
    """One layer of an encoder; ``first``: norms stand in front of what they feed, as in a ViT."""
    f, heads = w.torch.nn.functional, 4
    n, length, hidden = x.shape

    def attend(x: Any) -> Any:
        q, k, v = (
            w.linear(x, f"{name}_{part}", hidden, bias=True)
            .view(n, length, heads, hidden // heads)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        seen = f.scaled_dot_product_attention(q, k, v)
        return w.linear(seen.transpose(1, 2).reshape(n, length, hidden), f"{name}_out", hidden, bias=True)

    def mlp(x: Any) -> Any:
        wide = f.gelu(w.linear(x, f"{name}_fc1", 4 * hidden, bias=True))
        return w.linear(wide, f"{name}_fc2", hidden, bias=True)

    if first:
        x = x + attend(w.layer_norm(x, f"{name}_norm1"))
        return x + mlp(w.layer_norm(x, f"{name}_norm2"))
    x = w.layer_norm(x + attend(x), f"{name}_norm1")
    return w.layer_norm(x + mlp(x), f"{name}_norm2")


def _vit(w: Weights, image: Any) -> Any:
    f = w.torch.nn.functional
    patches = f.conv2d(image, w("patch_weight", 64, 3, 8, 8), w("patch_bias", 64), stride=8)
    x = patches.flatten(2).transpose(1, 2)
    start = w("cls", 1, 1, 64).expand(x.shape[0], 1, 64)
    x = w.torch.cat((start, x), 1) + w("positions", 1, x.shape[1] + 1, 64)
    for layer in range(2):
        x = _encoder_layer(w, x, f"layer{layer}", first=True)
    return w.linear(w.layer_norm(x, "norm")[:, 0], "head", 10, bias=True)


def _bert(w: Weights, ids: Any) -> Any:
    x = w.embedding(ids, "words", VOCAB, 64) + w("positions", TOKENS, 64)
    x = w.layer_norm(x, "embeddings_norm")
    for layer in range(2):
        x = _encoder_layer(w, x, f"layer{layer}", first=False)
    return w.torch.tanh(w.linear(x[:, 0], "pooler", 64, bias=True))


def _gpt2(w: Weights, ids: Any) -> Any:
    x = w.embedding(ids, "wte", VOCAB, 64) + w("wpe", TOKENS, 64)
    for layer in range(2):
        x = _encoder_layer(w, x, f"layer{layer}", first=True)
    return w.linear(w.layer_norm(x, "norm"), "lm_head", VOCAB)


_GEMMA = Decoder(qk_norm=True, shift=1.0, sandwich=True, activation="gelu", kv_heads=1)
_RUNS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "llama": (_decoder(Decoder()), "ids", "bfloat16"),
    "qwen3": (_decoder(Decoder(qk_norm=True)), "ids", "bfloat16"),
    "gemma-3": (_decoder(_GEMMA), "ids", "bfloat16"),
    "gemma-2": (_decoder(replace(_GEMMA, qk_norm=False, kv_heads=2, capped=True)), "ids", "bfloat16"),
    "moe": (_decoder(Decoder(experts=8, inner=48)), "ids", "float32"),
    "mlp": (_mlp_net, "rows", "float32"),
    "cnn": (_cnn, "image", "float32"),
    "vit": (_vit, "image", "float32"),
    "bert": (_bert, "ids", "float32"),
    "convnext": (_convnext, "image", "float32"),
    "mbconv": (_mbconv, "image", "float32"),
    "gpt-2": (_gpt2, "ids", "float32"),
}
NETS = tuple(_RUNS)
"""Names of the models."""


def net(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model by name, and inputs for it. Needs torch."""
    import torch

    torch.manual_seed(0)
    run, kind, dtype_name = _RUNS[name]
    dtype = getattr(torch, dtype_name)
    made = {
        "ids": lambda: torch.randint(0, VOCAB, (BATCH, TOKENS)),
        "rows": lambda: torch.rand(BATCH * TOKENS, 64, dtype=dtype),
        "image": lambda: torch.rand(BATCH, 3, 32, 32, dtype=dtype),
    }[kind]()
    return module(torch, run, (made,), dtype), (made,)
