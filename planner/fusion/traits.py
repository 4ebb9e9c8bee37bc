"""What a compiler of loops sees in a node: statistics of rows, exponentials, operations."""

from __future__ import annotations

from functools import reduce

from planner.graph.types import Node
from planner.graph.window import NodeKey, Window
from planner.ops.dims import Dim, as_dim
from planner.ops.pointwise import EXP_FLOPS
from planner.ops.types import OpClass, Shape
from planner.spec.types import LoopRule

LOOPS = {OpClass.POINTWISE, OpClass.GATHER, OpClass.ROW_REDUCTION}
"""Classes of what generated loops compute."""
_STATISTICS = {"layer_norm": 2, "rms_norm": 1, "softmax": 2, "attention.softmax": 2}
"""Numbers of each row that are stored, of reductions that end element by element."""
_MEAN_AND_SPREAD = 2
_OPERATIONS = {
    "scale": 2, "silu": 5, "gelu": 8, "sigmoid": 1, "tanh": 1, "softcap": 5, "rope": 40,
    "layer_norm": 9, "rms_norm": 7, "softmax": 4, "embedding": 6, "concat": 12, "pool": 9,
}  # fmt: skip
"""Of an element, constants counted; of a norm those behind its statistics. Tables of sines are
computed where they are read, and halves put side by side are masked."""
_SCALED = 10
"""Of a batch norm: x − μ, σ² + ε, its root, the inverse, two products, a sum, three constants."""


def shapes_of(window: Window, key: NodeKey) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Shapes of what a node reads and of what it writes."""
    inputs = ((key[0], name) for name in window.node(key).inputs)
    read = tuple(window.tensor(tensor).shape for tensor in inputs)
    return read, tuple(window.tensor(tensor).shape for tensor in window.outputs(key))


def elements(shape: Shape) -> Dim:
    """How many elements a tensor has."""
    return reduce(lambda product, side: product * side, shape, as_dim(1))


def rows_of(window: Window, key: NodeKey) -> Shape:
    """The sides of the rows that a reduction goes over."""
    read, written = shapes_of(window, key)
    if not statistics(window, key):
        return written[0]
    size = getattr(window.node(key).op, "size", 0)
    return (*read[0][:-1], read[0][-1] / size) if size else read[0][:-1]


def leads(rows: Shape, shape: Shape) -> bool:
    """Whether rows are the outer sides of a tensor, the last of them a part of a side at least."""
    if not len(rows) <= len(shape) or rows[:-1] != shape[: len(rows) - 1]:
        return False
    part, whole = rows[-1], shape[len(rows) - 1]
    return part.symbols == whole.symbols and (whole.coefficient / part.coefficient) % 1 == 0


def statistics(window: Window, key: NodeKey) -> int:
    """How many numbers of each row a node stores before it goes over the elements again."""
    if is_wide_norm(window, key):
        return _MEAN_AND_SPREAD
    return _STATISTICS.get(window.node(key).op_name, 0)


def is_wide_norm(window: Window, key: NodeKey) -> bool:
    """Whether a node is a norm over other sides than the last: its rows are not known."""
    if window.node(key).op_name != "reduction":
        return False
    read, written = shapes_of(window, key)
    return read[0] == written[0]


def is_unrolled(window: Window, key: NodeKey, rule: LoopRule) -> bool:
    """Whether a reduction is of so few elements that they are written out."""
    if window.node(key).op_name != "reduction" or is_wide_norm(window, key):
        return False
    read, written = (elements(shapes[0]) for shapes in shapes_of(window, key))
    alike = read.symbols == written.symbols
    return alike and read.coefficient / written.coefficient < rule.unrolled


def ends_in_elements(window: Window, key: NodeKey, rule: LoopRule) -> bool:
    """Whether the last thing a node does is to compute element by element."""
    reduces = window.node(key).op.op_class == OpClass.ROW_REDUCTION
    last = statistics(window, key) > 0 or is_unrolled(window, key, rule)
    return last if reduces else window.node(key).op.op_class in LOOPS


def weights(window: Window, key: NodeKey) -> int:
    """Stored tensors of its own that a node reads: a norm's scale and shift are two."""
    node = window.node(key)
    count = len(node.parameters)
    shifted = node.op_name == "layer_norm" and getattr(node.op, "bias", False)
    return 2 * count if shifted or is_wide_norm(window, key) else count


def places(window: Window, key: NodeKey, rule: LoopRule) -> int:
    """At how many places an element of a result reads each of its inputs."""
    node = window.node(key)
    if node.op_name == "pool":
        return int(getattr(node.op, "window", 1))
    if not is_unrolled(window, key, rule):
        return 1
    read, written = (elements(shapes[0]) for shapes in shapes_of(window, key))
    return int(read.coefficient / written.coefficient)


def is_exponential(node: Node, rule: LoopRule) -> bool:
    """Whether a node computes exponentials, by a rule that minds."""
    flops = getattr(node.op, "flops", 0) if node.op_name == "elementwise" else 0
    return node.op_name in rule.stored or (bool(rule.stored) and flops >= EXP_FLOPS)


def is_sized(window: Window, key: NodeKey) -> bool:
    """Whether a node writes other elements than it reads, as a pool, a resize or a gated half."""
    node = window.node(key)
    if node.op_name != "elementwise" or node.parameters or len(node.inputs) > 1:
        return node.op_name == "pool"
    read, written = shapes_of(window, key)
    return len(read[0]) == len(written[0]) and written[0] != read[0]


def operations(node: Node) -> int:
    """Operations an element, as Inductor counts them, what is loaded left out."""
    flops = getattr(node.op, "flops", 1)
    if node.op_name == "elementwise" and node.parameters and flops > 1:
        return _SCALED
    special = node.op_name == "elementwise" and flops >= EXP_FLOPS
    return _OPERATIONS.get(node.op_name, 1 + flops - EXP_FLOPS if special else flops)


def is_join(node: Node) -> bool:
    """Whether a node puts tensors side by side."""
    several = len(node.inputs) > 1 or bool(node.parameters)
    return node.op_name == "concat" or (node.op_name == "copy" and several)


def is_moved(node: Node) -> bool:
    """Whether a node gives what it reads in another order, which is a view until it is stored."""
    return node.op_name == "copy" and not is_join(node)


def is_view(node: Node, rule: LoopRule) -> bool:
    """Whether a node gives part of what it reads, or all under other sides, and runs nothing."""
    return node.op.op_class == OpClass.VIEW or node.op_name in rule.views
