"""What an exchange among GPUs takes at the least, whatever kernel it is part of.

Its bytes pass a link inside the node and network cards between nodes, and nothing that depends on
them begins before one message has arrived: one hop, as in a one-shot all-reduce. A hop inside the
node is the least that a version of NCCL counts for one in its quickest protocol (hwLat, ring, LL):
0.47 us over NVLink (nccl@01afd20 src/graph/tuning.cc; 0.6 in nccl@5067397) and 1.0 us over PCIe.
Other links are given NVLink's, the shorter one: RCCL counts 1.2 us and more over XGMI (rccl@0023b9b
src/graph/tuning.cc). Between nodes it is the deployment's `network.latency`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.experts import exchange
from planner.cost.kernels.collective import CollectiveShape
from planner.cost.network import Network, between_bytes
from planner.cost.types import NodeCost
from planner.num import as_float
from planner.ops.collective import Collective, Send
from planner.ops.moe_exchange import Combine, Dispatch
from planner.spec.types import GpuSpec

_PCIE_S, _LINK_S = 1.0e-6, 0.47e-6


@dataclass(frozen=True)
class Message:
    """One exchange as its slowest way sees it."""

    hop_s: float
    """Until the first byte is there."""
    link_bytes: float
    """That a GPU sends inside its node."""
    network_bytes: float = 0.0
    """That it sends to other nodes."""


def hop_s(gpu: GpuSpec) -> float:
    """The least time of a message to another GPU of the node, in seconds."""
    return _PCIE_S if gpu.link and gpu.link.type.startswith("PCIe") else _LINK_S


def message(cost: NodeCost, within_s: float, network: Network | None) -> Message | None:
    """The exchange that a node is; None of one that sends nothing.

    ``within_s`` is a hop inside a node.
    """
    sent = float(as_float(cost.work.link_bytes))
    if not sent:
        return None
    if network is None:
        return Message(within_s, sent)
    if isinstance(cost.node.op, Send):
        each = sent / network.tensor
        return (
            Message(network.latency_s, 0.0, each)
            if network.parts_stages
            else Message(within_s, sent)
        )
    return _collective(cost, sent, within_s, network)


def _collective(cost: NodeCost, sent: float, within_s: float, network: Network) -> Message:
    op, site = cost.node.op, cost.site
    if isinstance(op, Dispatch | Combine):
        name, shape, span = exchange(op, site)
    else:
        assert isinstance(op, Collective)
        name, span = op.library, op.span()
        shape = CollectiveShape(as_float(op.message_bytes(site)), float(op.ranks))
    nodes = network.nodes(span)
    if nodes == 1:
        return Message(within_s, sent)
    beyond = float(as_float(between_bytes(shape, nodes, name)))
    return Message(network.latency_s, max(0.0, sent - beyond), beyond)
