"""Matrix products that operators other than projections stand for, as one GEMM each."""

from __future__ import annotations

from dataclasses import dataclass

from planner.dtypes import bytes_per_element
from planner.graph.types import Node
from planner.ops.conv import Conv2d
from planner.ops.linear import MatMul
from planner.ops.mla import HeadLinear
from planner.ops.moe import MoeRouter
from planner.ops.types import Site, static


@dataclass(frozen=True)
class Product:
    """A GEMM of [rows, depth] by [depth, features]."""

    rows: float
    depth: float
    features: float
    dtype: str
    """What the matrix units multiply."""
    weight_bytes: float
    """Of one element of the second operand."""


def product(node: Node, site: Site) -> Product | None:
    """The GEMM that a node stands for; None where it stands for none."""
    op, dtype = node.op, node.matmul_dtype
    rows = float(site.load.elements(site.outputs[0].shape[:-1]))
    if isinstance(op, MatMul):
        columns = float(site.load.dim(site.outputs[0].shape[-1]))
        depth = float(site.load.dim(site.inputs[0].shape[-1]))
        return Product(rows, depth, columns, dtype, bytes_per_element(site.inputs[1].dtype))
    if not isinstance(op, Conv2d | MoeRouter | HeadLinear):
        return None
    width = bytes_per_element(node.parameters[0].dtype)
    if isinstance(op, MoeRouter):  # tables of routed experts begin at ready scores
        return Product(rows, static(site.inputs[0].shape[-1]), op.experts, dtype, width)
    if isinstance(op, HeadLinear):  # batched: as much work and as many tiles as with all columns
        return Product(rows, op.depth, op.heads * op.features, dtype, width)
    # implicit: pixels × (channels·k²) × output channels
    pixels = float(site.load.elements(site.outputs[0].shape) / op.channels)
    depth = static(site.inputs[0].shape[1]) * op.kernel**2
    return Product(pixels, depth, op.channels, dtype, width)
