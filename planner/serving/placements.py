"""How a replica lies on GPUs: inside one node, or over several where a node cannot hold it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.plan.layout import has_experts
from planner.plan.splits import ways
from planner.spec.question import Question
from planner.spec.types import BOARD, DeploymentSpec, NetworkSpec, Scalar

INFINIBAND = NetworkSpec.model_validate({"bandwidth": "50 GB/s", "latency": "10 us"})
"""What joins nodes where nothing is said: one NDR card of 400 Gb/s a GPU, as DGX H100 and H200 have
(mlcommons/inference_results_v4.1, closed/NVIDIA/systems/H200-SXM-141GBx8_TRT_MaxQ.json), and 10 us
a message, which is typical of NCCL over it and not measured here.
"""


@dataclass(frozen=True)
class Placement:
    """Ranks of one replica, or of all of them where experts lie over all."""

    tensor: int
    pipeline: int = 1
    data: int = 1
    """Above 1 where experts lie over all replicas."""
    expert: int = 1
    nodes: int = 1

    @property
    def gpus(self) -> int:
        """Of all ranks."""
        return self.tensor * self.pipeline * self.data

    @property
    def ranks(self) -> dict[str, int]:
        """As a deployment has them, those that are not searched as 1."""
        searched = {name: getattr(self, name) for name in ("tensor", "pipeline", "expert", "data")}
        return {**searched, "context": 1, "prefill_context": 1}

    def of(self, question: Question, network: NetworkSpec | None) -> Question:
        """The question so placed."""
        deployment = question.deployment
        several = self.nodes > 1
        update = {
            "parallel": deployment.parallel.model_copy(update=self.ranks),
            "nodes": self.nodes if several else None,
            "network": network if several else None,
        }
        return replace(question, deployment=deployment.model_copy(update=update))

    def moved(self, before: DeploymentSpec) -> tuple[tuple[str, Scalar], ...]:
        """Ranks that differ, by dotted path; replicas are told apart from them."""
        return tuple(
            (f"parallel.{name}", size)
            for name, size in self.ranks.items()
            if size != getattr(before.parallel, name) and name != "data"
        )


def inside(question: Question, most: int) -> Iterator[Placement]:
    """Every split over up to so many GPUs of one node.

    Stages of a pipeline are tried only where the GPUs have no fast link: they cost a decode step
    nothing but the wait for the others, and spare its all-reduces.
    """
    experts = has_experts(question)
    for tensor, pipeline, expert in ways(most):
        if (pipeline > 1 and not _slow(question)) or (expert > 1 and not experts):
            continue
        yield Placement(tensor, pipeline, 1, expert)
        if experts and expert == tensor and pipeline == 1:
            yield from _wide(tensor, most)


def _slow(question: Question) -> bool:
    link = question.gpu.link
    return link is None or link.type.startswith("PCIe")


def _wide(tensor: int, most: int) -> Iterator[Placement]:
    """Experts over twice, four times … as many ranks, each group of tensor ranks a replica."""
    data = 2
    while tensor * data <= most:
        yield Placement(tensor, 1, data, tensor * data)
        data *= 2


def between(question: Question, node: int, said: NetworkSpec | None) -> NetworkSpec | None:
    """What joins nodes of so many GPUs: what is said, else cards as around an HGX board; None of
    smaller machines and of PCIe cards, whose networks differ too much to assume one.
    """
    return said or (INFINIBAND if node >= BOARD and not _slow(question) else None)


def across(question: Question, node: int, most: int) -> Iterator[Placement]:
    """Splits over two, four … whole nodes of so many GPUs, up to ``most`` of them.

    A pipeline with a stage a node, whose ranks share each layer, as vLLM advises (docs.vllm.ai,
    v0.8.3, serving/distributed_serving); for a mixture of experts also the experts over all GPUs.
    Tensor ranks never lie on two nodes: each layer would wait for the network twice. None where a
    node's GPUs are no power of two, since ranks would leave some of them idle.
    """
    experts, nodes = has_experts(question), 2
    if all(tensor != node for tensor, _, _ in ways(node)):
        return
    while nodes * node <= most:
        for expert in (1, node) if experts else (1,):
            yield Placement(node, nodes, 1, expert, nodes)
        for tensor in (1, node) if experts else ():
            yield Placement(tensor, 1, nodes * node // tensor, nodes * node, nodes)
        nodes *= 2
