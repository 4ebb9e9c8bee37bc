"""What prices the kernels of a mixture of experts: which model, with what shape and constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.cost.constants import Constants
from planner.cost.fitted import Fitted
from planner.cost.kernels import collective, moe
from planner.cost.kernels.collective import CollectiveShape
from planner.cost.kernels.moe import MoeShape
from planner.cost.kernels.types import KernelModel
from planner.graph.types import Node
from planner.num import Number, as_float
from planner.ops.moe import Moe
from planner.ops.moe_exchange import Combine, Dispatch
from planner.ops.types import Site, static

CHAINS = moe.MODEL.family
"""The family whose floor holds all launches of its chain of kernels."""


Places = Sequence[tuple[Node, Site]]
ROUTED = (Moe, Dispatch, Combine)
"""Operators of a mixture of experts that have a model."""


@dataclass(frozen=True)
class Routed:
    """One kernel (or chain) of routed experts as its model sees it."""

    model: KernelModel[Any]
    shape: Any
    fitted: Fitted
    moved_bytes: Number
    """HBM bytes that the model accounts for."""
    span: float = 0.0
    """Of a collective: GPUs side by side that its ranks lie on."""


def routed(
    node: Node, site: Site, kernel: str | None, constants: Constants, beside: Places = ()
) -> Routed | None:
    """Routed experts, or the exchange of their tokens; None for any other operator.

    Projections ``beside`` experts, of a shared one in the same kernel, are one expert more.
    """
    if isinstance(node.op, Moe):
        found = _experts(node.op, site, constants.moe(kernel, *_formats(node)))
        return _joined(found, beside) if beside else found
    if isinstance(node.op, Dispatch | Combine):
        return _exchange(node.op, site, constants)
    return None


def _formats(node: Node) -> tuple[str, str]:
    return node.parameters[0].dtype, node.matmul_dtype


def _experts(op: Moe, site: Site, fitted: Fitted) -> Routed:
    """The whole chain on the busiest rank, from ready scores on."""
    busiest = op.busiest(site)
    hidden = static(site.inputs[0].shape[-1])
    shape = MoeShape(
        as_float(site.rows()),
        hidden,
        op.intermediate,
        op.top_k,
        as_float(busiest.pairs),
        as_float(busiest.touched),
        op.gated,
    )
    moved = sum(op.input_bytes(site)) + sum(t.bytes(site.load) for t in site.outputs)
    moved = moved + op.executed(site, None).private_bytes
    return Routed(moe.MODEL, shape, fitted, as_float(moved))


def _joined(found: Routed, beside: Places) -> Routed:
    """With as many further experts as the weights beside come to, which every token goes to."""
    shape = found.shape
    own = (2 + shape.gated) * shape.hidden * shape.intermediate
    sizes = [(node.parameters[0].elements, node.parameters[0].bytes) for node, _ in beside]
    more = sum(elements for elements, _ in sizes) / own
    joined = replace(
        shape,
        top_k=shape.top_k + more,
        pairs=shape.pairs + more * shape.tokens,
        touched=shape.touched + more,
    )
    moved = found.moved_bytes + sum(size for _, size in sizes)
    return replace(found, shape=joined, moved_bytes=moved)


def _exchange(op: Dispatch | Combine, site: Site, constants: Constants) -> Routed:
    name, shape, span = exchange(op, site)
    moved = as_float(sum(t.bytes(site.load) for t in (*site.inputs, *site.outputs)))
    return Routed(collective.MODEL, shape, constants.collective(name), moved, float(span))


def exchange(op: Dispatch | Combine, site: Site) -> tuple[str, CollectiveShape, int]:
    """The collective that moves the tokens of experts, and the GPUs side by side that it spans.

    A message of as many bytes as this rank sends: (N − 1)/N of the operator's S.
    """
    gathers = op.exchange == "gather"
    ranks = op.layout.replicas if gathers else op.layout.experts
    name = "all_to_all"
    if gathers:
        name = "all_gather" if isinstance(op, Dispatch) else "reduce_scatter"
    sent = as_float(op.work(site).link_bytes)
    shape = CollectiveShape(sent * ranks / (ranks - 1), float(ranks))
    return name, shape, op.layout.replicas * op.layout.tensor
