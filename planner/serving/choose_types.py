"""The words of a choice: what is asked, hardware with a way to run on it, and what was found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from planner.plan.serving_types import ServingPlan
from planner.serving.candidates import Candidate
from planner.serving.offers import Offer
from planner.serving.spending import Spending
from planner.serving.targets import Margin, Targets, least
from planner.spec.question import Question
from planner.spec.types import DeploymentSpec, NetworkSpec, Scalar


@dataclass(frozen=True)
class Wish:
    """What is asked for, and what may be tried for it."""

    targets: Targets
    users: int
    most_gpus: int = 8
    narrow: bool = True
    """Whether numbers may be narrower than the deployment has them."""
    flags: frozenset[str] = frozenset()
    """Flags of the engine that may be turned."""
    listed: int = 10
    """Choices whose flags are tried and whose most users are sought."""
    network: NetworkSpec | None = None
    """What joins nodes, where a replica takes several; None for what is usual around the GPU."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Hardware, a way to run on it, and what users then get for what money."""

    offer: Offer
    units: int
    """How often the offer is rented."""
    candidate: Candidate
    replicas: int
    """Of the candidate."""
    question: Question
    """The deployment as it is planned."""
    serving: ServingPlan
    margins: tuple[Margin, ...]
    spending: Spending
    most_users: int | None = None
    """Within the latencies on this hardware, nobody waiting for room; None where not sought."""

    @property
    def meets(self) -> bool:
        """Whether every predicted figure keeps its limit."""
        return all(margin.inside for margin in self.margins)

    @property
    def unsure(self) -> tuple[str, ...]:
        """Limits that the interval of the figure crosses."""
        return tuple(margin.name for margin in self.margins if margin.crosses)

    @property
    def gpus(self) -> int:
        """GPUs that are rented."""
        return self.units * self.offer.count

    @property
    def cost(self) -> float:
        """USD an hour; infinite where it is not known."""
        price = self.spending.price_per_hour
        return math.inf if price is None else price

    @property
    def rank(self) -> tuple[float, int, float]:
        """Cheapest first, then the fewest GPUs, then the largest margin."""
        return self.cost, self.gpus, -least(self.margins)

    def changes(self, asked: DeploymentSpec) -> tuple[tuple[str, Scalar], ...]:
        """What differs from the deployment asked about, by dotted path."""
        found = self.question.deployment
        data = found.parallel.data
        gpu = (("gpu", self.offer.gpu),) if self.offer.gpu != asked.gpu else ()
        replicas = (("parallel.data", data),) if data != asked.parallel.data else ()
        return (*gpu, *replicas, *_nodes(found, asked), *self.candidate.changes)


def _nodes(found: DeploymentSpec, asked: DeploymentSpec) -> Iterator[tuple[str, Scalar]]:
    """Nodes and what joins them, where they differ."""
    if found.nodes != asked.nodes:
        yield "nodes", found.nodes
    if found.network == asked.network:
        return
    if found.network is None:
        yield "network", None
    else:
        yield "network.bandwidth", f"{found.network.bandwidth / 1e9:g} GB/s"
        yield "network.latency", f"{found.network.latency * 1e6:g} us"


@dataclass(frozen=True, eq=False)
class Chosen:
    """What was found."""

    wish: Wish
    choices: tuple[Choice, ...]
    """What meets the targets, cheapest first: of each offer the cheapest, and the cheapest without
    loss."""
    front: tuple[Choice, ...]
    """What nothing else beats in both money and time between tokens, cheapest first."""
    nearest: tuple[Choice, ...]
    """Where nothing meets them: what misses by least, of each offer."""
    given: Choice | None
    """The deployment as it stands; None where it cannot be served."""
    planned: int
    """Deployments that were planned."""
    left_out: tuple[tuple[str, int], ...]
    """Why candidates were not, and how many."""

    @property
    def every(self) -> tuple[Choice, ...]:
        """All that is shown."""
        given = (self.given,) if self.given else ()
        return (*self.choices, *self.front, *self.nearest, *given)
