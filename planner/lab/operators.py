"""Operators of a planned graph in plain torch, op by op as Hugging Face's models run them.

Each maker gets a node of the program and the step's surroundings, allocates what the node owns, and
returns the function that runs it: tensors in, tensors out. Activations are [tokens, features].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Tensors = tuple[Any, ...]
Function = Callable[..., Tensors]
_EPSILON = 1e-6
_ROPE_BASE = 10_000.0


@dataclass
class Surroundings:
    """What makers may use."""

    torch: Any
    dtype: Any
    device: str
    batch: int
    context: int
    embedding: Any = None
    """The embedding's weights, for a tied LM head."""

    def weight(self, *shape: int) -> Any:
        """Weights of a node: small random numbers, so that nothing overflows."""
        made = self.torch.empty(*shape, dtype=self.dtype, device=self.device)
        return made.uniform_(-1, 1).mul_(1 / math.sqrt(shape[-1]))


def _linear(node: dict[str, Any], around: Surroundings) -> Function:
    if node.get("tied") and around.embedding is not None:
        weight = around.embedding
    else:
        weight = around.weight(node["features"], node["depth"])
    bias = around.weight(node["features"]) if node.get("bias") else None
    linear = around.torch.nn.functional.linear
    return lambda x: (linear(x, weight, bias),)


def _embedding(node: dict[str, Any], around: Surroundings) -> Function:
    weight = around.embedding = around.weight(node["rows"], node["features"])
    look_up = around.torch.nn.functional.embedding
    return lambda ids: (look_up(ids, weight),)


def _rms_norm(node: dict[str, Any], around: Surroundings) -> Function:
    size = node.get("size") or node["depth"]
    weight = around.weight(size) if node.get("weight", True) else None
    torch, dtype = around.torch, around.dtype

    def run(x: Any) -> Tensors:
        shape = x.shape
        wide = x.view(*shape[:-1], -1, size).to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + _EPSILON)
        narrow = wide.to(dtype)
        return ((narrow if weight is None else weight * narrow).view(shape),)

    return run


def _layer_norm(node: dict[str, Any], around: Surroundings) -> Function:
    size = node.get("size") or node["depth"]
    weight = around.weight(size) if node.get("weight", True) else None
    bias = around.weight(size) if node.get("bias", True) else None
    norm = around.torch.nn.functional.layer_norm
    return lambda x: (norm(x, (size,), weight, bias),)


def _rope(node: dict[str, Any], around: Surroundings) -> Function:
    torch, head_dim = around.torch, node["head_dim"]
    turned = node.get("rotary") or head_dim
    power = torch.arange(0, turned, 2, device=around.device).float() / turned
    angles = (around.context - 1) * _ROPE_BASE**-power
    angles = torch.cat((angles, angles))
    cos, sin = angles.cos().to(around.dtype), angles.sin().to(around.dtype)

    def turn(x: Any) -> Any:
        heads = x.view(around.batch, -1, head_dim)
        front = heads[..., :turned]
        half = torch.cat((-front[..., turned // 2 :], front[..., : turned // 2]), -1)
        front = front * cos + half * sin
        rest = () if turned == head_dim else (heads[..., turned:],)
        return (torch.cat((front, *rest), -1) if rest else front).view(x.shape)

    return lambda *tensors: tuple(turn(x) for x in tensors)


def _kv_cache_write(node: dict[str, Any], around: Surroundings) -> Function:
    kv_heads, head_dim = node["kv_heads"], node["head_dim"]
    shape = (around.batch, kv_heads, around.context, head_dim)
    keys, values = (around.weight(*shape) for _ in range(2))
    place = around.torch.tensor([around.context - 1], device=around.device)

    def run(key: Any, value: Any) -> Tensors:
        keys.index_copy_(2, place, key.view(around.batch, kv_heads, 1, head_dim))
        values.index_copy_(2, place, value.view(around.batch, kv_heads, 1, head_dim))
        return ((keys, values),)

    return run


def _attention(node: dict[str, Any], around: Surroundings) -> Function:
    heads, head_dim, window = node["heads"], node["head_dim"], node.get("window")
    attend = around.torch.nn.functional.scaled_dot_product_attention
    first = max(0, around.context - window) if window else 0

    def run(query: Any, cache: Any) -> Tensors:
        keys, values = (each[:, :, first:] for each in cache)
        query = query.view(around.batch, heads, 1, head_dim)
        out = attend(query, keys, values, enable_gqa=heads != node["kv_heads"])
        return (out.reshape(around.batch, heads * head_dim),)

    return run


def _sampling(node: dict[str, Any], around: Surroundings) -> Function:
    del node
    return lambda logits: (logits.to(around.torch.float32).argmax(-1),)


def _pointwise(name: str) -> Callable[[dict[str, Any], Surroundings], Function]:
    def make(node: dict[str, Any], around: Surroundings) -> Function:
        del node
        run = getattr(around.torch.nn.functional, name, None) or getattr(around.torch, name)
        return lambda *tensors: (run(*tensors),)

    return make


def _scale(node: dict[str, Any], around: Surroundings) -> Function:
    del node, around
    return lambda x: (x * 0.5,)


MAKERS: dict[str, Callable[[dict[str, Any], Surroundings], Function]] = {
    "linear": _linear,
    "embedding": _embedding,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "rope": _rope,
    "kv_cache_write": _kv_cache_write,
    "attention": _attention,
    "sampling": _sampling,
    "select_last": lambda _node, _around: lambda x: (x,),
    "scale": _scale,
    **{
        name: _pointwise(name) for name in ("add", "mul", "silu", "gelu", "relu", "sigmoid", "tanh")
    },
}
"""By operator. One token of each sequence: the last token is every token."""
