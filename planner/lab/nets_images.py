"""Held-out models of images and tables: skip connections, gates, dot products."""

from __future__ import annotations

from typing import Any

from planner.lab.net import Weights


def unet(w: Weights, image: Any) -> Any:
    """A U-Net: two levels down, two up, what was put by joined again on the way."""
    torch, f = w.torch, w.torch.nn.functional

    def block(x: Any, name: str, width: int) -> Any:
        for part in "ab":
            weight = w(f"{name}_{part}", width, x.shape[1], 3, 3)
            x = f.conv2d(x, weight, None, padding=1)
            x = f.group_norm(x, 4, w(f"{name}_{part}_n", width), w(f"{name}_{part}_n_bias", width))
            x = f.relu(x)
        return x

    kept, x = [], image
    for level, width in enumerate((16, 32)):
        x = block(x, f"down{level}", width)
        kept.append(x)
        x = f.max_pool2d(x, 2)
    x = block(x, "middle", 64)
    for level, width in ((1, 32), (0, 16)):
        x = f.interpolate(x, scale_factor=2, mode="nearest")
        x = f.conv2d(x, w(f"up{level}", width, x.shape[1], 1, 1), w(f"up{level}_bias", width))
        x = block(torch.cat((kept[level], x), 1), f"back{level}", width)
    return f.conv2d(x, w("end", 3, 16, 1, 1), w("end_bias", 3))


def nafnet(w: Weights, image: Any) -> Any:
    """Two blocks of NAFNet: halves multiplied for an activation, channels weighed by their mean."""
    f = w.torch.nn.functional
    x = f.conv2d(image, w("stem", 16, 3, 3, 3), w("stem_bias", 16), padding=1)

    def convolved(x: Any, name: str, width: int, side: int = 1, groups: int = 1) -> Any:
        weight = w(name, width, x.shape[1] // groups, side, side)
        return f.conv2d(x, weight, w(f"{name}_bias", width), padding=side // 2, groups=groups)

    def norm(x: Any, name: str) -> Any:
        return w.layer_norm(x.permute(0, 2, 3, 1), name).permute(0, 3, 1, 2)

    for block in range(2):
        name = f"block{block}"
        y = convolved(norm(x, f"{name}_norm1"), f"{name}_a", 32)
        left, right = convolved(y, f"{name}_b", 32, 3, 32).chunk(2, 1)
        y = left * right
        y = y * convolved(y.mean((2, 3), keepdim=True), f"{name}_weigh", 16)
        x = x + convolved(y, f"{name}_c", 16) * w(f"{name}_beta", 1, 16, 1, 1)
        left, right = convolved(norm(x, f"{name}_norm2"), f"{name}_d", 32).chunk(2, 1)
        x = x + convolved(left * right, f"{name}_e", 16) * w(f"{name}_gamma", 1, 16, 1, 1)
    return image + convolved(x, "end", 3, 3)


def dlrm(w: Weights, ids: Any, dense: Any) -> Any:
    """A recommender: tables and an MLP, the dot product of each pair, another MLP."""
    torch, f = w.torch, w.torch.nn.functional
    x = f.relu(w.linear(dense, "bottom0", 32, bias=True))
    x = f.relu(w.linear(x, "bottom1", 16, bias=True))
    rows = [w.embedding(ids[:, place], f"table{place}", 100, 16) for place in range(3)]
    every = torch.stack((x, *rows), 1)
    pairs = torch.bmm(every, every.transpose(1, 2)).flatten(1)
    x = torch.cat((x, pairs), 1)
    for layer, width in enumerate((64, 32)):
        x = f.relu(w.linear(x, f"top{layer}", width, bias=True))
    return torch.sigmoid(w.linear(x, "click", 1, bias=True))


def gmlp(w: Weights, image: Any) -> Any:
    """Two blocks of gMLP: patches gated by a projection over all patches."""
    f = w.torch.nn.functional
    x = f.conv2d(image, w("patch", 48, 3, 8, 8), w("patch_bias", 48), stride=8)
    x = x.flatten(2).transpose(1, 2)
    for block in range(2):
        name = f"block{block}"
        h = f.gelu(w.linear(w.layer_norm(x, f"{name}_norm"), f"{name}_in", 128, bias=True))
        own, gate = h.chunk(2, -1)
        gate = w.layer_norm(gate, f"{name}_gate_norm").transpose(1, 2)
        gate = w.linear(gate, f"{name}_spatial", 16, bias=True).transpose(1, 2)
        x = x + w.linear(own * gate, f"{name}_out", 48, bias=True)
    return w.linear(w.layer_norm(x, "norm").mean(1), "head", 10, bias=True)
