"""Encoders and networks of convolutions, small."""

from __future__ import annotations

from typing import Any

from planner.lab.net import Weights
from planner.lab.nets_decoders import TOKENS, VOCAB


def mlp_net(w: Weights, x: Any) -> Any:
    """Four projections with GELU between them."""
    f = w.torch.nn.functional
    for layer, width in enumerate((256, 192, 128)):
        x = f.gelu(w.linear(x, f"fc{layer}", width, bias=True))
    return w.linear(x, "head", 10, bias=True)


def cnn(w: Weights, x: Any) -> Any:
    """Residual blocks of convolutions, batch norms and ReLU."""
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


def convnext(w: Weights, x: Any) -> Any:
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


def mbconv(w: Weights, x: Any) -> Any:
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
        return w.linear(
            seen.transpose(1, 2).reshape(n, length, hidden), f"{name}_out", hidden, bias=True
        )

    def mlp(x: Any) -> Any:
        wide = f.gelu(w.linear(x, f"{name}_fc1", 4 * hidden, bias=True))
        return w.linear(wide, f"{name}_fc2", hidden, bias=True)

    if first:
        x = x + attend(w.layer_norm(x, f"{name}_norm1"))
        return x + mlp(w.layer_norm(x, f"{name}_norm2"))
    x = w.layer_norm(x + attend(x), f"{name}_norm1")
    return w.layer_norm(x + mlp(x), f"{name}_norm2")


def vit(w: Weights, image: Any) -> Any:
    """A small vision transformer."""
    f = w.torch.nn.functional
    patches = f.conv2d(image, w("patch_weight", 64, 3, 8, 8), w("patch_bias", 64), stride=8)
    x = patches.flatten(2).transpose(1, 2)
    start = w("cls", 1, 1, 64).expand(x.shape[0], 1, 64)
    x = w.torch.cat((start, x), 1) + w("positions", 1, x.shape[1] + 1, 64)
    for layer in range(2):
        x = _encoder_layer(w, x, f"layer{layer}", first=True)
    return w.linear(w.layer_norm(x, "norm")[:, 0], "head", 10, bias=True)


def bert(w: Weights, ids: Any) -> Any:
    """A small BERT with its pooler."""
    x = w.embedding(ids, "words", VOCAB, 64) + w("positions", TOKENS, 64)
    x = w.layer_norm(x, "embeddings_norm")
    for layer in range(2):
        x = _encoder_layer(w, x, f"layer{layer}", first=False)
    return w.torch.tanh(w.linear(x[:, 0], "pooler", 64, bias=True))


def gpt2(w: Weights, ids: Any) -> Any:
    """A small GPT-2; attention both ways."""
    x = w.embedding(ids, "wte", VOCAB, 64) + w("wpe", TOKENS, 64)
    for layer in range(2):
        x = _encoder_layer(w, x, f"layer{layer}", first=True)
    return w.linear(w.layer_norm(x, "norm"), "lm_head", VOCAB)
