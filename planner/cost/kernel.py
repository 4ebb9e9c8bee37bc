"""The work of a kernel: any group of nodes, from the graph alone.

Bytes are the tensors that cross the group's border, each once, plus its private bytes. So an
intermediate inside the group saves one write and one read per reader inside; where a reader stays
outside, the write remains. No fusion rule states its own speed-up.
"""

from __future__ import annotations

from functools import cached_property
from weakref import WeakKeyDictionary

from planner.cost.annotate import BlockCosts
from planner.cost.types import Device, KernelWork
from planner.graph.window import NodeKey, TensorKey, Window
from planner.num import Number, maximum
from planner.ops.types import OpClass, Tiling
from planner.records import dataclass


@dataclass(frozen=True)
class Border:
    """What a group reads and writes, known from structure alone."""

    nodes: tuple[NodeKey, ...]
    reads: tuple[tuple[tuple[NodeKey, int], ...], ...]
    """For each tensor that comes in: its readers inside, as (node, input position)."""
    writes: tuple[tuple[NodeKey, int], ...]
    """Each tensor that goes out, as (node, output position)."""
    inside: tuple[TensorKey, ...]
    """Tensors that never leave the chip."""
    view: bool = False
    """Whether all its nodes are views, which do and move nothing."""

    @cached_property
    def text(self) -> str:
        """All of it: equal for equal borders alone, and a text knows its own hash."""
        return repr(self)


_borders: WeakKeyDictionary[Window, dict[frozenset[NodeKey], Border]] = WeakKeyDictionary()


def known_border(window: Window, nodes: frozenset[NodeKey]) -> Border:
    """As `border`, found once for all rules that make the same group."""
    known = _borders.setdefault(window, {})
    if nodes not in known:
        known[nodes] = border(window, nodes)
    return known[nodes]


def border(window: Window, nodes: frozenset[NodeKey]) -> Border:
    """The border of a group of nodes of a window."""
    ordered = tuple(sorted(nodes, key=window.position.__getitem__))
    reads: dict[TensorKey, tuple[tuple[NodeKey, int], ...]] = {}
    writes = []
    inside = []
    for key in ordered:
        for position, tensor in enumerate(window.inputs(key)):
            if window.producer.get(tensor) not in nodes:
                reads[tensor] = (*reads.get(tensor, ()), (key, position))
        for position, tensor in enumerate(window.outputs(key)):
            outside = [r for r in window.readers.get(tensor, ()) if r not in nodes]
            if outside or tensor in window.escaping:
                writes.append((key, position))
            else:
                inside.append(tensor)
    view = all(window.node(key).op.op_class == OpClass.VIEW for key in ordered)
    return Border(ordered, tuple(reads.values()), tuple(writes), tuple(inside), view)


def kernel_work(
    edge: Border, costs: tuple[BlockCosts, ...], device: Device, tiling: Tiling | None
) -> KernelWork:
    """The work of the group whose border is ``edge``; ``costs`` of this block and the next."""
    matmul_flops: Number = 0
    matmul_s: Number = 0
    vector_flops: Number = 0
    link_bytes: Number = 0
    hbm_bytes: Number = 0
    for offset, name in edge.nodes:
        flops, seconds, vector, link, private = costs[offset].nodes[name].shares(tiling)
        matmul_flops = matmul_flops + flops
        matmul_s = matmul_s + seconds
        vector_flops = vector_flops + vector
        link_bytes = link_bytes + link
        hbm_bytes = hbm_bytes + private
    if edge.view:
        return KernelWork(0, 0, 0, 0, 0, 0, 0, 0)
    for readers in edge.reads:
        sizes = [costs[key[0]].nodes[key[1]].input_bytes[position] for key, position in readers]
        hbm_bytes = hbm_bytes + (sizes[0] if len(sizes) == 1 else maximum(*sizes))
    for key, position in edge.writes:
        hbm_bytes = hbm_bytes + costs[key[0]].nodes[key[1]].output_bytes[position]
    return KernelWork(
        matmul_flops,
        vector_flops,
        hbm_bytes,
        link_bytes,
        matmul_s,
        vector_flops / device.vector_flops_per_s,
        hbm_bytes / device.bandwidth_bytes_per_s,
        link_bytes / device.link_bytes_per_s if device.link_bytes_per_s else 0,
    )
