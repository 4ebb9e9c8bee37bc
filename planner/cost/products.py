"""Which nodes stand for a GEMM though they are no projections, and which no model prices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.dtypes import bytes_per_element
from planner.graph.types import Node
from planner.num import Number, as_float
from planner.ops.conv import Conv1d, Conv2d
from planner.ops.indexer import IndexScores
from planner.ops.linear import MatMul
from planner.ops.mla import HeadLinear
from planner.ops.moe import MoeRouter
from planner.ops.recurrent import Stateful
from planner.ops.types import Operator, Site, static
from planner.records import dataclass


@dataclass(frozen=True)
class Product:
    """A GEMM of [rows, depth] by [depth, features]."""

    rows: Number
    depth: Number
    features: Number
    dtype: str
    """What the matrix units multiply."""
    weight_bytes: float
    """Of one element of the second operand."""
    weights: str | None = None
    """The format it is kept in; None: the one it is multiplied in."""
    most_share: float = 1.0
    """Most of the matrix units' peak that the kernel's instructions reach."""
    call_s: float = 0.0
    """Host time of a call outside graphs; 0 where it is that of any launch."""


def is_product(op: type[Operator]) -> bool:
    """Whether nodes of an operator stand for a GEMM."""
    return op in _PRODUCTS


def product(node: Node, site: Site) -> Product:
    """The GEMM that a node stands for. Raises KeyError where it stands for none."""
    return as_run(_PRODUCTS[type(node.op)](node, site), node, site)


def as_run(made: Product, node: Node, site: Site) -> Product:
    """The product with what the engine's kernel makes of its formats."""
    kept = node.parameters[0].dtype if node.parameters else None
    formats = site.formats
    return replace(made, weights=kept, most_share=formats.matrix_share, call_s=formats.call_s)


def _rows(site: Site) -> Number:
    return as_float(site.load.elements(site.outputs[0].shape[:-1]))


def _width(node: Node) -> float:
    return bytes_per_element(node.parameters[0].dtype)


def _matmul(node: Node, site: Site) -> Product:
    columns = as_float(site.load.dim(site.outputs[0].shape[-1]))
    depth = as_float(site.load.dim(site.inputs[0].shape[-1]))
    width = bytes_per_element(site.inputs[1].dtype)
    return Product(_rows(site), depth, columns, node.matmul_dtype, width)


def _router(node: Node, site: Site) -> Product:
    """A small GEMM. Tables of routed experts begin at ready scores."""
    op, depth = node.op, static(site.inputs[0].shape[-1])
    assert isinstance(op, MoeRouter)
    return Product(_rows(site), depth, op.experts, node.matmul_dtype, _width(node))


def _head_linear(node: Node, site: Site) -> Product:
    """A batched GEMM as one with the columns of all heads: as much work, as many tiles."""
    op = node.op
    assert isinstance(op, HeadLinear)
    columns = op.heads * op.features
    return Product(_rows(site), op.depth, columns, node.matmul_dtype, _width(node))


def _conv(node: Node, site: Site) -> Product:
    """A convolution as the implicit GEMM it is: pixels × (channels·k²) × output channels."""
    op = node.op
    assert isinstance(op, Conv1d | Conv2d)
    pixels = as_float(site.load.elements(site.outputs[0].shape) / op.channels)
    depth = op.depth(tuple(tensor.shape for tensor in site.inputs))
    return Product(pixels, depth, op.channels, node.matmul_dtype, _width(node))


_PRODUCTS: dict[type[Operator], Callable[[Node, Site], Product]] = {
    MatMul: _matmul,
    MoeRouter: _router,
    HeadLinear: _head_linear,
    Conv1d: _conv,
    Conv2d: _conv,
}


def unfitted(node: Node) -> str | None:
    """The family of a node whose kernels no table measures."""
    if isinstance(node.op, IndexScores):
        return "indexer"
    return "recurrent" if isinstance(node.op, Stateful) else None
