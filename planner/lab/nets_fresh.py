"""A second set of held-out models, written before the rules were asked about any of them."""

from __future__ import annotations

from typing import Any

from planner.lab.net import Weights
from planner.lab.nets_decoders import TOKENS

_STEPS = 4
"""Of a recurrence that is written out."""


def densenet(w: Weights, image: Any) -> Any:
    """Two dense blocks: each layer reads all that came before it, then all is halved."""
    torch, f = w.torch, w.torch.nn.functional

    def normed(x: Any, name: str) -> Any:
        held = [w(f"{name}_{part}", x.shape[1]) for part in ("mean", "var", "scale", "shift")]
        return f.relu(f.batch_norm(x, *held))

    x = f.conv2d(image, w("stem", 16, 3, 3, 3), None, stride=2, padding=1)
    for block in range(2):
        for layer in range(3):
            name = f"block{block}_{layer}"
            h = normed(x, f"{name}_a_bn")
            h = f.conv2d(h, w(f"{name}_a", 32, x.shape[1], 1, 1), None)
            h = f.conv2d(normed(h, f"{name}_b_bn"), w(f"{name}_b", 8, 32, 3, 3), None, padding=1)
            x = torch.cat((x, h), 1)
        half = x.shape[1] // 2
        x = f.conv2d(normed(x, f"end{block}_bn"), w(f"end{block}", half, x.shape[1], 1, 1), None)
        x = f.avg_pool2d(x, 2)
    x = f.adaptive_avg_pool2d(normed(x, "norm"), 1).flatten(1)
    return w.linear(x, "head", 10, bias=True)


def vae(w: Weights, image: Any) -> Any:
    """An autoencoder of images: a mean and a spread in the middle, convolutions turned round."""
    torch, f = w.torch, w.torch.nn.functional
    x = image
    for level, width in enumerate((16, 32)):
        weight = w(f"down{level}", width, x.shape[1], 3, 3)
        x = f.leaky_relu(f.conv2d(x, weight, w(f"down{level}_bias", width), 2, 1), 0.2)
    flat = x.flatten(1)
    mean = w.linear(flat, "mean", 24, bias=True)
    spread = w.linear(flat, "spread", 24, bias=True)
    z = mean + torch.exp(0.5 * spread) * w("noise", 24)
    x = f.relu(w.linear(z, "up", flat.shape[1], bias=True)).view(x.shape)
    for level, width in enumerate((16, 3)):
        weight = w(f"up{level}", x.shape[1], width, 4, 4)
        x = f.conv_transpose2d(x, weight, w(f"up{level}_bias", width), 2, 1)
        x = f.relu(x) if level == 0 else torch.sigmoid(x)
    return x


def nerf(w: Weights, x: Any) -> Any:
    """A radiance field: places as sines and cosines, a skip half way, density and colour apart."""
    torch, f = w.torch, w.torch.nn.functional
    place, view = x[:, :3], x[:, 3:6]
    waves = [place]
    for octave in range(4):
        waves += [torch.sin(place * 2**octave), torch.cos(place * 2**octave)]
    known = torch.cat(waves, -1)
    h = known
    for layer in range(4):
        h = f.relu(w.linear(h, f"fc{layer}", 64, bias=True))
        if layer == 1:
            h = torch.cat((h, known), -1)
    density = f.softplus(w.linear(h, "density", 1, bias=True))
    h = torch.cat((w.linear(h, "feature", 64, bias=True), view), -1)
    h = f.relu(w.linear(h, "colour0", 32, bias=True))
    colour = torch.sigmoid(w.linear(h, "colour1", 3, bias=True))
    return torch.cat((colour, density), -1)


def pointnet(w: Weights, x: Any) -> Any:
    """Points through one MLP, the largest of each feature, joined to every point again."""
    torch, f = w.torch, w.torch.nn.functional
    for layer, width in enumerate((64, 128)):
        x = w.linear(x, f"point{layer}", width, bias=True)
        x = f.relu(w.layer_norm(x, f"point{layer}_norm"))
    whole = x.amax(1, keepdim=True)
    both = torch.cat((x, whole.expand(x.shape)), -1)
    h = f.relu(w.linear(both, "joined0", 64, bias=True))
    return torch.log_softmax(w.linear(h, "joined1", 12, bias=True), -1)


def retnet(w: Weights, x: Any) -> Any:
    """Two layers of retention: products without softmax, faded by distance, normed, gated."""
    torch, f, heads = w.torch, w.torch.nn.functional, 4
    n, length, width = x.shape
    places = torch.arange(length).float()
    far = (places[:, None] - places[None, :]).clamp(min=0)
    fade = torch.exp(far * -0.1).tril()
    for layer in range(2):
        name = f"layer{layer}"
        h = w.rms_norm(x, f"{name}_norm1")
        q, k, v = (
            w.linear(h, f"{name}_{part}", width).view(n, length, heads, 16).transpose(1, 2)
            for part in "qkv"
        )
        seen = (q @ k.transpose(2, 3) * 0.25 * fade) @ v
        seen = w.rms_norm(seen, f"{name}_head_norm").transpose(1, 2).reshape(n, length, width)
        gate = f.silu(w.linear(h, f"{name}_gate", width))
        x = x + w.linear(gate * seen, f"{name}_out", width)
        h = w.rms_norm(x, f"{name}_norm2")
        wide = f.gelu(w.linear(h, f"{name}_fc1", 128)) * w.linear(h, f"{name}_fc3", 128)
        x = x + w.linear(wide, f"{name}_fc2", width)
    return w.linear(w.rms_norm(x, "norm"), "head", 10)


def dcn(w: Weights, x: Any) -> Any:
    """A deep and cross network: x0 · (W x + b) + x, an MLP beside it."""
    torch, f = w.torch, w.torch.nn.functional
    crossed = x
    for layer in range(3):
        crossed = x * w.linear(crossed, f"cross{layer}", 64, bias=True) + crossed
    deep = x
    for layer, width in enumerate((96, 48)):
        deep = f.relu(w.layer_norm(w.linear(deep, f"deep{layer}", width, bias=True), f"n{layer}"))
    return torch.sigmoid(w.linear(torch.cat((crossed, deep), -1), "click", 1, bias=True))


def whisper(w: Weights, x: Any) -> Any:
    """An encoder of speech: two convolutions over time, learned places, attention both ways."""
    f, heads = w.torch.nn.functional, 4
    x = f.gelu(f.conv1d(x.transpose(1, 2), w("conv1", 64, 64, 3), w("conv1_bias", 64), padding=1))
    x = f.gelu(f.conv1d(x, w("conv2", 64, 64, 3), w("conv2_bias", 64), padding=1))
    x = x.transpose(1, 2) + w("places", TOKENS, 64)
    for layer in range(2):
        name = f"layer{layer}"
        h = w.layer_norm(x, f"{name}_norm1")
        q, k, v = (
            w.linear(h, f"{name}_{part}", 64, bias=part != "k")
            .view(-1, TOKENS, heads, 16)
            .transpose(1, 2)
            for part in "qkv"
        )
        seen = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + w.linear(seen, f"{name}_out", 64, bias=True)
        h = f.gelu(w.linear(w.layer_norm(x, f"{name}_norm2"), f"{name}_fc1", 256, bias=True))
        x = x + w.linear(h, f"{name}_fc2", 64, bias=True)
    return w.layer_norm(x, "norm")


def rwkv(w: Weights, x: Any) -> Any:
    """A block of RWKV: each token mixed with the one before, a sum that fades, squared ReLU."""
    torch, f = w.torch, w.torch.nn.functional
    x = w.layer_norm(x[:, :_STEPS], "first_norm")

    def mixed(h: Any, before: Any, name: str) -> Any:
        share = w(name, 64)
        return h * share + before * (1 - share)

    h = w.layer_norm(x, "norm1")
    before = f.pad(h, (0, 0, 1, 0))[:, :-1]
    k = w.linear(mixed(h, before, "mix_k"), "key", 64)
    v = w.linear(mixed(h, before, "mix_v"), "value", 64)
    r = torch.sigmoid(w.linear(mixed(h, before, "mix_r"), "receptance", 64))
    grown, fade, seen = torch.exp(k), torch.exp(-torch.exp(w("decay", 64))), []
    above, below = grown[:, 0] * v[:, 0], grown[:, 0]
    for step in range(_STEPS):
        if step:
            above = above * fade + grown[:, step] * v[:, step]
            below = below * fade + grown[:, step]
        seen.append(above / below)
    x = x + w.linear(r * torch.stack(seen, 1), "out", 64)
    h = w.layer_norm(x, "norm2")
    before = f.pad(h, (0, 0, 1, 0))[:, :-1]
    wide = f.relu(w.linear(mixed(h, before, "mix_in"), "wide", 128)).square()
    gate = torch.sigmoid(w.linear(mixed(h, before, "mix_gate"), "gate", 64))
    return w.linear(x + gate * w.linear(wide, "narrow", 64), "head", 10)
