"""Sums behind products with weights: part of a library's call, or of the loops that read them.

Ahead of fusion Inductor makes one call (addmm) of a product of matrices and what is added to it. On
CUDA it leaves the sum to the loops that read it where nothing else does, and takes biases out of
calls for that. A product over more sides than two whose rows do not lie one behind the other is a
batched one, which adds no bias. (pytorch torch/_inductor/fx_passes/post_grad.py
is_valid_addmm_fusion, should_prefer_unfused_addmm, unfuse_bias_add_to_pointwise; utils.py
is_pointwise_use; aten/src/ATen/native/Linear.cpp.)
"""

from __future__ import annotations

from planner.fusion.traits import is_moved, is_sized, is_view
from planner.graph.types import Node
from planner.graph.window import NodeKey, Window
from planner.ops.types import OpClass, Shape
from planner.spec.types import LoopRule

_MATRIX = 2
"""Sides of a product that stays one of matrices; tokens stand for two, batch and length."""
_SQUARES = "rms_norm"
"""The norm that squares what it reads before it reduces anything."""
_APART = {"rope", "concat", "pool"}
"""Operators with a loop of their own, that torch does not call elementwise."""


def sums_in_calls(window: Window, rule: LoopRule) -> dict[NodeKey, NodeKey]:
    """Sums that a library's call makes, each with the product that is part of the same call."""
    found: dict[NodeKey, NodeKey] = {}
    for key in window.keys if rule.sums else ():
        if window.node(key).op_name != "add":
            continue
        if rule.sums == "apart" and only_elementwise(window, rule, key):
            continue
        product = _product(window, key)
        if product is not None:
            found[key] = product
    return found


def loose_biases(window: Window, rule: LoopRule) -> frozenset[NodeKey]:
    """Products whose bias is added by loops behind the library's call."""
    return frozenset(
        key
        for key in (window.keys if rule.sums else ())
        if _has_bias(window.node(key))
        and (_is_batched(window, key) or _is_apart(window, rule, key))
    )


def only_elementwise(window: Window, rule: LoopRule, key: NodeKey) -> bool:
    """Whether nothing but elementwise operators reads what a node writes, through any views."""
    tensors = window.outputs(key)
    if window.escaping & set(tensors):
        return False
    users = [user for tensor in tensors for user in window.readers.get(tensor, ())]
    return all(_is_elementwise(window, rule, user) for user in users)


def _is_elementwise(window: Window, rule: LoopRule, key: NodeKey) -> bool:
    node = window.node(key)
    if is_view(node, rule) or is_moved(node):
        return only_elementwise(window, rule, key)
    if node.op.op_class == OpClass.POINTWISE:
        return node.op_name not in _APART and not is_sized(window, key)
    return node.op_name == _SQUARES


def _product(window: Window, key: NodeKey) -> NodeKey | None:
    """The product of matrices that only this sum reads, of two the later operand."""
    for tensor in reversed(window.inputs(key)):
        maker = window.producer.get(tensor)
        if maker is None or window.node(maker).op_name != "linear":
            continue
        alone = window.readers[tensor] == (key,) and tensor not in window.escaping
        if alone and not _has_bias(window.node(maker)) and _is_matrix(window.tensor(tensor).shape):
            return maker
    return None


def _has_bias(node: Node) -> bool:
    return node.op_name == "linear" and bool(getattr(node.op, "bias", False))


def _is_matrix(shape: Shape) -> bool:
    return len(shape) <= _MATRIX and "tokens" not in shape[0].symbols


def _is_batched(window: Window, key: NodeKey) -> bool:
    """Whether a product's rows do not lie one behind the other: other sides were put first."""
    source = window.inputs(key)[0]
    maker = window.producer.get(source)
    if maker is None or _is_matrix(window.tensor(source).shape):
        return False
    return is_moved(window.node(maker))


def _is_apart(window: Window, rule: LoopRule, key: NodeKey) -> bool:
    """Whether a bias is taken out of its call; one of 16 bits stays, for the sake of rounding."""
    wide = window.tensor(window.outputs(key)[0]).dtype == "fp32"
    return rule.sums == "apart" and wide and only_elementwise(window, rule, key)
