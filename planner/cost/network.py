"""Collectives that leave a node: what happens inside it, then what passes between nodes.

An all-reduce over n nodes of g GPUs each is a reduce-scatter inside, a ring over the nodes in which
each GPU brings the part that it holds, and an all-gather inside: the two-level scheme of NCCL and
of Horovod's hierarchical all-reduce. Each GPU has a share of its own of the node's network cards.
Left out: congestion, switches of several levels, and in-network reduction (SHARP).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from planner.cost.kernels.collective import CollectiveShape
from planner.num import Number, as_float


@dataclass(frozen=True)
class Network:
    """What joins the nodes of a deployment."""

    gpus_per_node: int
    bandwidth_bytes_per_s: float
    """Of one GPU's share, each way."""
    latency_s: float
    """One message between two nodes."""
    tensor: int = 1
    """Tensor ranks, which share a send between pipeline stages."""
    replica: int = 1
    """GPUs of one data replica: its stages lie side by side."""

    @property
    def parts_stages(self) -> bool:
        """Whether a replica spans nodes, so that stages send over the network."""
        return self.replica > self.gpus_per_node

    def nodes(self, span: float) -> int:
        """Nodes that so many GPUs side by side take."""
        return math.ceil(span / self.gpus_per_node)

    def send_s(self, size: Number) -> Number:
        """Seconds of a tensor's way to the next stage: each tensor rank sends its slice."""
        return size / self.tensor / self.bandwidth_bytes_per_s + self.latency_s


def within(shape: CollectiveShape, nodes: int, variant: str) -> CollectiveShape:
    """The part of a collective that stays inside each node."""
    size = shape.bytes / nodes if variant == "all_to_all" else shape.bytes
    return replace(shape, bytes=size, ranks=shape.ranks / nodes)


def between_bytes(shape: CollectiveShape, nodes: int, variant: str) -> Number:
    """What a GPU sends to other nodes in a collective over ``nodes`` nodes."""
    local = float(shape.ranks) / nodes
    share = (nodes - 1) / nodes
    if variant == "all_to_all":
        return share * as_float(shape.bytes)
    moved = share * as_float(shape.bytes) / local
    return 2 * moved if variant.startswith("all_reduce") else moved


def between_s(shape: CollectiveShape, nodes: int, variant: str, network: Network) -> Number:
    """Seconds that a collective over ``nodes`` nodes spends between them."""
    if nodes == 1:
        return 0.0
    rounds = (nodes - 1) * (2 if variant.startswith("all_reduce") else 1)
    moved = between_bytes(shape, nodes, variant)
    return moved / network.bandwidth_bytes_per_s + rounds * network.latency_s
