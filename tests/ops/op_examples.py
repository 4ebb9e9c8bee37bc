"""One example of every registered operator: attributes and inputs that make a small node of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from planner.ops import OPERATORS
from planner.ops.types import (
    Dim,
    Formats,
    Load,
    Operator,
    Pairs,
    SequenceGroup,
    Shape,
    Site,
    Tensor,
    as_dim,
)

TOKENS = Dim(symbols=("tokens",))
SEQUENCES = Dim(symbols=("sequences",))
BATCH = Dim(symbols=("batch",))

FORMATS = Formats(weights="fp8", matmul="fp8", activations="bf16", kv_cache="bf16")


def shape(*sides: Dim | int) -> Shape:
    return tuple(as_dim(side) for side in sides)


@dataclass(frozen=True)
class Example:
    inputs: tuple[Shape, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    decodes: bool = False
    """Runs for sequences of one new token alone."""

    def operator(self, name: str) -> Operator:
        kind = OPERATORS.get(name)
        assert kind is not None
        return kind(**self.attributes)


ROW = shape(TOKENS, 64)
IMAGE = shape(BATCH, 3, 8, 8)
ATTENTION = (shape(TOKENS, 8 * 16), shape(2 * 2 * 16))
ROUTED = (ROW, shape(TOKENS, 8))
ENCODER = (shape(TOKENS, 8 * 16), shape(TOKENS, 2 * 16), shape(TOKENS, 2 * 16))
HEADS = {"heads": 8, "kv_heads": 2, "head_dim": 16}
STATES = {"heads": 4, "key_heads": 2, "key_dim": 8, "value_dim": 16}
MIXED = (shape(TOKENS, 2 * 2 * 8 + 4 * 16), shape(TOKENS, 4))
KEYS, PROMPTS, DECODING = (
    Dim(symbols=(name,)) for name in ("prefill_keys", "prefill_tokens", "decode_tokens")
)
LATENT, KEY = shape(TOKENS, 32), shape(TOKENS, 8)
EXPANDED = shape(KEYS, 8 * (16 + 24))
QUERIES = (shape(TOKENS, 8 * 16), shape(TOKENS, 8 * 8))
ABSORBED = (shape(TOKENS, 8 * 32), shape(TOKENS, 8 * 8))

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "linear": (Example((ROW,), {"features": 48, "bias": True}), Example((ROW,), {"features": 48})),
    "matmul": (Example((shape(TOKENS, 64), shape(64, 32))),),
    "attention": (
        Example(ATTENTION, HEADS),
        Example(ATTENTION, {**HEADS, "window": 7, "sinks": True}),
        Example(ATTENTION, {**HEADS, "chunk": 1000}),
        Example(ATTENTION, {**HEADS, "causal": False, "softcap": True}),
        Example(ENCODER, {**HEADS, "causal": False, "cached": False, "chunk": 1000}),
    ),
    "causal_conv1d": (Example((ROW, shape(TOKENS, 32)), {"kernel": 4, "bias": True}),),
    "linear_attention": (
        Example(MIXED, {**STATES, "chunk": 8, "weights": 8}),
        Example(MIXED, {**STATES, "chunk": 5, "rule": "delta", "state": "activations"}),
    ),
    "selective_scan": (Example((ROW, ROW, shape(TOKENS, 8), shape(TOKENS, 8)), {"size": 8}),),
    "rope": (Example((ROW, shape(TOKENS, 32)), {"head_dim": 16, "rotary": 8}),),
    "kv_cache_write": (Example((shape(TOKENS, 32), shape(TOKENS, 32))),),
    "embedding": (Example((shape(TOKENS),), {"rows": 100, "features": 64}),),
    "select_last": (Example((ROW,)),),
    "sampling": (Example((shape(SEQUENCES, 100),)),),
    "rms_norm": (
        Example((ROW,)),
        Example((ROW,), {"size": 16, "weight": False}),
        Example((ROW,), {"groups": 2}),
    ),
    "layer_norm": (Example((ROW,)), Example((ROW,), {"weight": False, "bias": False})),
    "softmax": (Example((ROW,)),),
    "quantize": (Example((ROW,)),),
    "add": (Example((ROW, ROW)),),
    "mul": (Example((ROW, ROW)),),
    **{
        name: (Example((ROW,)),)
        for name in ("scale", "relu", "relu2", "silu", "gelu", "sigmoid", "tanh", "softcap")
    },
    "moe_router": (
        Example((ROW,), {"experts": 8, "top_k": 2}),
        Example(
            (ROW,),
            {
                "experts": 8,
                "top_k": 2,
                "groups": 4,
                "top_groups": 2,
                "bias": True,
                "score": "sigmoid",
                "fp32": True,
            },
        ),
    ),
    "moe": (
        Example(ROUTED, {"experts": 8, "top_k": 2, "intermediate": 32}),
        Example(
            ROUTED,
            {
                "experts": 8,
                "top_k": 8,
                "intermediate": 32,
                "gated": False,
                "bias": True,
                "quantizable": False,
            },
        ),
    ),
    "mla_cache_write": (Example((LATENT, KEY)), Example((LATENT, KEY), {"packed": True})),
    "mla_expand": (Example((LATENT, shape(40)), {"features": 8 * (16 + 24)}),),
    "mla_keys": (Example((EXPANDED, KEY), {"heads": 8, "nope": 16, "rope": 8}),),
    "mla_prefill": (
        Example(
            (*QUERIES, shape(KEYS, 8 * 24), EXPANDED),
            {"heads": 8, "nope": 16, "rope": 8, "value": 24},
        ),
    ),
    "head_linear": (
        Example((ROW,), {"heads": 8, "depth": 8, "features": 4}),
        Example(
            (ROW,),
            {"heads": 8, "depth": 8, "features": 4, "phase": "decode", "tied": True},
            decodes=True,
        ),
    ),
    "mla_decode": (
        Example((*ABSORBED, shape(40)), {"heads": 8, "latent": 32, "rope": 8}, decodes=True),
    ),
    "mla_sparse": (
        Example(
            (*ABSORBED, shape(40), shape(TOKENS, 5)),
            {"heads": 8, "latent": 32, "rope": 8, "select": 5},
        ),
    ),
    "join_phases": (Example((shape(PROMPTS, 64), shape(DECODING, 64)), decodes=True),),
    "concat": (Example((ROW, KEY)),),
    "index_cache_write": (Example((LATENT,)),),
    "index_scores": (Example((ROW, shape(TOKENS, 4), shape(16)), {"heads": 4, "dim": 16}),),
    "index_select": (Example((shape(Dim(symbols=(Pairs(),))),), {"keys": 5}),),
    "row_scale": (Example((ROW, shape(TOKENS, 1))),),
    "rank_sum": (Example((ROW,)),),
    "all_reduce": (Example((ROW,), {"ranks": 4}),),
    "all_gather": (Example((ROW,), {"ranks": 4}),),
    "send": (Example((ROW,), {}), Example((ROW,), {"tensors": 1})),
    "conv1d": (Example((shape(TOKENS, 64),), {"channels": 8, "kernel": 3, "stride": 2}),),
    "group_rows": (Example((ROW,), {"count": 4}),),
    "mean_rows": (Example((ROW,), {"count": 4}),),
    "cross_attention": (Example((shape(TOKENS, 128),), {**HEADS, "keys": 30}),),
    "conv2d": (Example((IMAGE,), {"channels": 4, "kernel": 3, "padding": 1}),),
    "pool2d": (Example((IMAGE,), {"kernel": 2}),),
    "flatten": (Example((IMAGE,)),),
    "elementwise": (
        Example((ROW, shape(64))),
        Example((ROW,), {"flops": 4, "weights": 64, "tied": True}),
        Example((shape(TOKENS, 1),), {"weights": 64, "shape": ROW}),
    ),
    "reduction": (
        Example((IMAGE,), {"shape": shape(BATCH, 3, 1, 1)}),
        Example((ROW,), {"flops": 7, "weights": 128}),
    ),
    "reshape": (Example((IMAGE,), {"shape": shape(BATCH, 3, 64)}),),
    "columns": (Example((ROW,), {"features": 48}),),
    "copy": (
        Example((IMAGE,), {"shape": shape(BATCH, 8, 8, 3)}),
        Example((ROW, ROW), {"shape": shape(TOKENS, 160), "weights": 32}),
    ),
    "conv": (
        Example((IMAGE,), {"channels": 4, "window": 9, "shape": shape(BATCH, 4, 6, 6)}),
        Example(
            (IMAGE,),
            {
                "channels": 6,
                "window": 4,
                "groups": 3,
                "bias": False,
                "transposed": True,
                "shape": shape(BATCH, 6, 16, 16),
            },
        ),
    ),
    "pool": (Example((IMAGE,), {"window": 4, "shape": shape(BATCH, 3, 4, 4)}),),
}

CASES = [
    (name, example) for name, examples in EXAMPLES.items() for example in examples
]  # fmt: skip


def load(count: Any, new_tokens: Any, kv_tokens: Any) -> Load:
    """One group, which also binds the batch of operators on images."""
    return Load((SequenceGroup(count, new_tokens, kv_tokens),), {"batch": count})


def inputs_of(name: str, example: Example) -> tuple[Tensor, ...]:
    handles = {
        ("attention", 1),
        ("mla_expand", 1),
        ("mla_decode", 2),
        ("mla_sparse", 2),
        ("index_scores", 2),
    }
    return tuple(
        Tensor(f"in{i}", sides, FORMATS.activations, (name, i) in handles)
        for i, sides in enumerate(example.inputs)
    )


def sites(name: str, example: Example, step: Load) -> Iterator[tuple[Operator, Site]]:
    """Each operator of the example with all that its formulas see; a composite's parts."""
    yield from _sites(example.operator(name), inputs_of(name, example), step)


def _sites(op: Operator, inputs: tuple[Tensor, ...], step: Load) -> Iterator[tuple[Operator, Site]]:
    shapes = op.shapes(tuple(tensor.shape for tensor in inputs))
    if op.parts():
        made: dict[int | str, Tensor] = dict(enumerate(inputs))
        for part in op.parts():
            for inner, site in _sites(part.op, tuple(made[i] for i in part.inputs), step):
                made[part.name] = site.outputs[0]
                yield inner, site
        return
    dtype = op.output_dtype(inputs, FORMATS)
    outputs = tuple(Tensor(f"out{i}", s, dtype, op.handles()) for i, s in enumerate(shapes))
    parameters = op.parameters(tuple(tensor.shape for tensor in inputs), FORMATS)
    yield op, Site(inputs, outputs, step, parameters, FORMATS)
