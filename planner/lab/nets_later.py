"""A third set of held-out models, written before the rules were asked about any of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.lab.net import Weights
from planner.lab.nets_decoders import TOKENS, VOCAB, Decoder, attention, gated_mlp, rotation


def edsr(w: Weights, image: Any) -> Any:
    """Super-resolution: residual blocks scaled down, one long skip, pixels put in place."""
    f = w.torch.nn.functional

    def conv(x: Any, name: str, width: int) -> Any:
        return f.conv2d(x, w(name, width, x.shape[1], 3, 3), w(f"{name}_bias", width), padding=1)

    first = x = conv(image, "stem", 24)
    for block in range(3):
        x = x + 0.1 * conv(f.relu(conv(x, f"block{block}_a", 24)), f"block{block}_b", 24)
    x = first + conv(x, "body", 24)
    return conv(f.pixel_shuffle(conv(x, "wide", 48), 2), "end", 3)


def wavenet(w: Weights, x: Any) -> Any:
    """Dilated convolutions over time, gated by a sigmoid, with skips summed up."""
    torch, f = w.torch, w.torch.nn.functional
    x = f.conv1d(x.transpose(1, 2), w("stem", 32, 64, 1), w("stem_bias", 32))
    skips = None
    for layer in range(3):
        name, reach = f"layer{layer}", 2**layer
        h = f.pad(x, (reach, 0))
        filtered = f.conv1d(h, w(f"{name}_f", 32, 32, 2), w(f"{name}_fb", 32), dilation=reach)
        gate = f.conv1d(h, w(f"{name}_g", 32, 32, 2), w(f"{name}_gb", 32), dilation=reach)
        h = torch.tanh(filtered) * torch.sigmoid(gate)
        skip = f.conv1d(h, w(f"{name}_s", 48, 32, 1), w(f"{name}_sb", 48))
        skips = skip if skips is None else skips + skip
        x = x + f.conv1d(h, w(f"{name}_r", 32, 32, 1), w(f"{name}_rb", 32))
    h = f.relu(f.conv1d(f.relu(skips), w("end0", 48, 48, 1), w("end0_bias", 48)))
    return f.conv1d(h, w("end1", 16, 48, 1), w("end1_bias", 16))


def highway(w: Weights, x: Any) -> Any:
    """Highway layers: a gate between what is computed and what goes by."""
    torch, f = w.torch, w.torch.nn.functional
    for layer in range(3):
        gate = torch.sigmoid(w.linear(x, f"gate{layer}", 64, bias=True))
        x = gate * f.relu(w.linear(x, f"fc{layer}", 64, bias=True)) + (1 - gate) * x
    return torch.softmax(w.linear(x, "head", 10, bias=True), -1)


def deepfm(w: Weights, ids: Any, dense: Any) -> Any:
    """Factors of each pair of fields by sums and squares, an MLP over all of them."""
    torch, f = w.torch, w.torch.nn.functional
    rows = [w.embedding(ids[:, place], f"table{place}", 100, 16) for place in range(3)]
    fields = torch.stack((*rows, w.linear(dense, "dense", 16, bias=True)), 1)
    total = fields.sum(1)
    pairs = 0.5 * (total * total - (fields * fields).sum(1)).sum(-1, keepdim=True)
    deep = fields.flatten(1)
    for layer, width in enumerate((48, 24)):
        deep = f.relu(w.linear(deep, f"deep{layer}", width, bias=True))
    return torch.sigmoid(w.linear(deep, "out", 1, bias=True) + pairs)


def nbeats(w: Weights, x: Any) -> Any:
    """Blocks that explain part of a series, take it off, and add their forecasts up."""
    f = w.torch.nn.functional
    forecast = None
    for block in range(3):
        h = x
        for layer in range(2):
            h = f.relu(w.linear(h, f"block{block}_fc{layer}", 96, bias=True))
        x = x - w.linear(h, f"block{block}_back", 64, bias=True)
        ahead = w.linear(h, f"block{block}_ahead", 12, bias=True)
        forecast = ahead if forecast is None else forecast + ahead
    return forecast


def granite(w: Weights, ids: Any) -> Any:
    """A decoder whose embeddings, residual branches and logits are scaled by constants."""
    of = replace(Decoder(), kv_heads=1)
    x, turn = w.embedding(ids, "embed_tokens", VOCAB, of.hidden) * 12.0, rotation(w, of.head_dim)
    for layer in range(2):
        name = f"layer{layer}"
        x = x + 0.22 * attention(w, w.rms_norm(x, f"{name}_in_norm"), f"{name}_attn", of, turn)
        x = x + 0.22 * gated_mlp(w, w.rms_norm(x, f"{name}_mlp_norm"), f"{name}_mlp", of)
    return w.linear(w.rms_norm(x, "norm"), "lm_head", VOCAB) / 8.0


def deit(w: Weights, x: Any) -> Any:
    """A transformer over patches: norms on queries and keys, branches weighed by channel."""
    f, heads = w.torch.nn.functional, 4
    x = w.linear(x, "patch", 64, bias=True) + w("places", TOKENS, 64)
    for layer in range(2):
        name = f"layer{layer}"
        h = w.layer_norm(x, f"{name}_norm1")
        q, k, v = (
            w.linear(h, f"{name}_{part}", 64, bias=True).view(-1, TOKENS, heads, 16)
            for part in "qkv"
        )
        q, k = w.layer_norm(q, f"{name}_q_norm"), w.layer_norm(k, f"{name}_k_norm")
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        seen = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + w.linear(seen, f"{name}_out", 64, bias=True) * w(f"{name}_gamma1", 64)
        h = f.gelu(w.linear(w.layer_norm(x, f"{name}_norm2"), f"{name}_fc1", 256, bias=True))
        x = x + w.linear(h, f"{name}_fc2", 64, bias=True) * w(f"{name}_gamma2", 64)
    return w.linear(w.layer_norm(x, "norm").mean(1), "head", 10, bias=True)


def mobilenet(w: Weights, image: Any) -> Any:
    """MobileNet v3: hard swish, channels weighed by a hard sigmoid of their mean, batch norms."""
    f = w.torch.nn.functional

    def conv(x: Any, name: str, width: int, side: int, **said: int) -> Any:
        deep = x.shape[1] // said.get("groups", 1)
        made = f.conv2d(x, w(name, width, deep, side, side), None, padding=side // 2, **said)
        held = [w(f"{name}_{part}", width) for part in ("mean", "var", "scale", "shift")]
        return f.batch_norm(made, *held)

    x = f.hardswish(conv(image, "stem", 16, 3, stride=2))
    for block in range(2):
        name = f"block{block}"
        y = f.hardswish(conv(x, f"{name}_a", 48, 1))
        y = f.hardswish(conv(y, f"{name}_b", 48, 5, groups=48))
        mean = f.adaptive_avg_pool2d(y, 1)
        mean = f.relu(f.conv2d(mean, w(f"{name}_down", 12, 48, 1, 1), w(f"{name}_down_b", 12)))
        mean = f.conv2d(mean, w(f"{name}_up", 48, 12, 1, 1), w(f"{name}_up_b", 48))
        x = x + conv(y * f.hardsigmoid(mean), f"{name}_c", 16, 1)
    x = f.adaptive_avg_pool2d(f.hardswish(conv(x, "last", 64, 1)), 1).flatten(1)
    return w.linear(f.hardswish(w.linear(x, "fc", 48, bias=True)), "head", 10, bias=True)
