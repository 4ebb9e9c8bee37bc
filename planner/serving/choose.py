"""What to rent: the cheapest hardware that serves so many users within limits, and how to run it.

Each way to run a replica on a kind of GPU is served by as many replicas as may be rented: where
even those miss a limit, fewer would too, and it is left. Of the others the fewest replicas are
sought by halving, since a replica with fewer users is faster. Flags are tried where they might
save money: on what misses its limits by little and costs less than the best so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from planner.plan.serving_types import ServingPlan
from planner.serving.bench import Bench, placed
from planner.serving.candidates import Candidate, candidates, variants
from planner.serving.capacity import most_users
from planner.serving.choose_types import Choice, Chosen, Wish
from planner.serving.front import front
from planner.serving.offers import Offer
from planner.serving.placements import Placement, across, between, inside
from planner.serving.spending import spending
from planner.serving.targets import least, margins
from planner.spec.question import Question
from planner.spec.types import NetworkSpec

Tell = Callable[[str], None]
_NEAR = 0.3
"""Of a limit: what misses it by more is not saved by a flag."""
_NEAREST = 3
_BETTER = 0.01
"""Of a limit: a flag that gains less is left as it is."""


def choose(
    asked: Question, elsewhere: Mapping[str, Question], offers: Sequence[Offer], wish: Wish,
    tell: Tell,
) -> Chosen:  # fmt: skip
    """The hardware among ``offers`` that serves the users within the targets, cheapest first.

    ``asked`` is the deployment as it stands; ``elsewhere`` holds it on each offer's GPU, for
    ``wish.users`` as it is. ``tell`` hears how far it is. Pure but for that.
    """
    search = _Search(elsewhere, wish, tell)
    for offer in offers:
        search.look(offer)
    for offer in offers:
        search.save(offer)
    return search.chosen(asked, offers)


@dataclass(eq=False)
class _Search:
    """What was seen so far."""

    elsewhere: Mapping[str, Question]
    wish: Wish
    tell: Tell
    bench: Bench = field(init=False)
    points: list[Choice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bench = Bench(self.wish.users)

    @property
    def met(self) -> list[Choice]:
        """Points that meet the targets."""
        return [point for point in self.points if point.meets]

    def look(self, offer: Offer) -> None:
        """Every candidate on an offer, as the deployment has its flags."""
        for candidate in self._candidates(offer):
            gpus = "1 GPU" if candidate.gpus == 1 else f"{candidate.gpus} GPUs"
            self.tell(f"{offer.name}: {gpus}, {len(self.points)} planned")
            self._fewest(offer, candidate, self._counts(offer, candidate))

    def save(self, offer: Offer) -> None:
        """Flags, where they could make something cheaper than the best so far."""
        for candidate in self._candidates(offer):
            best = min((point.rank[:2] for point in self.met), default=None)
            counts = [
                count
                for count in self._counts(offer, candidate)
                if best is None or self._rank(offer, candidate, count) < best
            ]
            most = self._point(offer, candidate, counts[-1]) if counts else None
            if most is None or most.meets or least(most.margins) < -_NEAR:
                continue
            self.tell(f"{offer.name} flags: {candidate.gpus} GPUs")
            for turned in variants(candidate, self.wish.flags):
                self._fewest(offer, turned, counts)

    def _candidates(self, offer: Offer) -> Iterator[Candidate]:
        question = self.elsewhere[offer.gpu]
        node, most = self._node(offer), self.wish.most_gpus
        held = set()
        for found in self._starting(question, inside(question, min(node, most))):
            held.add(found.formats)
            yield found
        network = between(question, node, self.wish.network)
        spread = across(question, node, most) if network else ()
        for found in self._starting(question, spread, network):
            if found.formats not in held:
                yield found

    def _node(self, offer: Offer) -> int:
        return offer.node(self.elsewhere[offer.gpu].gpu.node)

    def _starting(
        self,
        question: Question,
        placements: Iterable[Placement],
        network: NetworkSpec | None = None,
    ) -> Iterator[Candidate]:
        for candidate in candidates(question, placements, network, narrow=self.wish.narrow):
            found = self.bench.start(candidate)
            if found is not None:
                yield found

    def _counts(self, offer: Offer, candidate: Candidate) -> list[int]:
        """Numbers of replicas that may be rented; more than users would stand idle."""
        fills = list(offer.fills(candidate.gpus, self.wish.most_gpus, self._node(offer)))
        if candidate.whole:
            return [1] if 1 in fills else []
        enough = next((n for n in fills if n >= self.wish.users), None)
        return [count for count in fills if enough is None or count <= enough]

    def _rank(self, offer: Offer, candidate: Candidate, count: int) -> tuple[float, int]:
        units = offer.units(candidate.gpus, count)
        cost = offer.cost(units)
        return float("inf") if cost is None else cost, units * offer.count

    def _fewest(self, offer: Offer, candidate: Candidate, counts: Sequence[int]) -> None:
        """Points of a candidate, down to the fewest replicas that meet the targets."""
        if not counts or not self._meets(offer, candidate, counts[-1]):
            return
        low, high = 0, len(counts) - 1
        while low < high:
            middle = (low + high) // 2
            if self._meets(offer, candidate, counts[middle]):
                high = middle
            else:
                low = middle + 1

    def _meets(self, offer: Offer, candidate: Candidate, replicas: int) -> bool:
        point = self._point(offer, candidate, replicas)
        if point is not None:
            self.points.append(point)
        return point is not None and point.meets

    def _point(self, offer: Offer, candidate: Candidate, replicas: int) -> Choice | None:
        serving = self.bench.serve(candidate, replicas)
        if serving is None:
            return None
        return _choice(offer, candidate, replicas, serving, self.wish)

    def chosen(self, asked: Question, offers: Sequence[Offer]) -> Chosen:
        """The answer."""
        ranked = _cheapest(self.met)
        listed = [self._best(choice) for choice in ranked[: self.wish.listed]]
        choices = (*listed, *ranked[self.wish.listed :])
        missed = [] if choices else _nearest(self.points)
        return Chosen(
            self.wish,
            choices,
            tuple(front([*self.met, *listed], _cost, _tpot)),
            tuple(missed),
            self._given(asked, offers),
            self.bench.served,
            tuple(self.bench.left_out.most_common()),
        )

    def _best(self, choice: Choice) -> Choice:
        """The choice, or with a flag turned: what keeps its limits surely, then carries most users.

        Of the flags that leave a larger margin the one that leaves the largest is tried.
        """
        self.tell(f"users: {choice.offer.name}")
        tried = [
            self._point(choice.offer, turned, choice.replicas)
            for turned in variants(choice.candidate, self.wish.flags)
        ]
        found = [self._filled(choice)]
        turned = max((p for p in tried if p), key=lambda p: least(p.margins), default=choice)
        if least(turned.margins) - least(choice.margins) > _BETTER:
            found.append(self._filled(turned))
        return max(found, key=lambda each: (not each.unsure, each.most_users or 0))

    def _filled(self, choice: Choice) -> Choice:
        users = most_users(self.bench, choice.candidate, choice.replicas, self.wish.targets)
        return replace(choice, most_users=users)

    def _given(self, asked: Question, offers: Sequence[Offer]) -> Choice | None:
        """The deployment as it stands, at the price of its GPU."""
        deployment = asked.deployment
        priced = next((o for o in offers if o.name == o.gpu == asked.gpu.name), None)
        price = deployment.price or (priced.price_per_hour if priced else None)
        candidate = Candidate(asked, (), lossless=True)
        serving = self.bench.serve(candidate, 1)
        if serving is None:
            return None
        offer = Offer(asked.gpu.name, deployment.gpu, 1, price)
        return self._filled(_choice(offer, candidate, 1, serving, self.wish))


def _choice(
    offer: Offer, candidate: Candidate, replicas: int, serving: ServingPlan, wish: Wish
) -> Choice:
    question = placed(candidate, replicas, wish.users)
    units = offer.units(candidate.gpus, replicas)
    power = question.gpu.power
    watts = power.value * units * offer.count if power else None
    return Choice(
        offer,
        units,
        candidate,
        replicas,
        question,
        serving,
        margins(wish.targets, serving),
        spending(serving, offer.cost(units), watts),
    )


def _cheapest(points: Iterable[Choice]) -> list[Choice]:
    """Of each offer the cheapest, and the cheapest without loss where that is another."""

    def kind(point: Choice) -> tuple[str, bool]:
        return point.offer.name, point.candidate.lossless

    ordered = sorted(points, key=lambda point: (*kind(point), point.rank))
    best = [next(group) for _, group in groupby(ordered, key=kind)]
    return sorted(best, key=lambda point: point.rank)


def _nearest(points: Iterable[Choice]) -> list[Choice]:
    """Of each offer what misses by least."""
    ordered = sorted(points, key=lambda point: (point.offer.name, -least(point.margins)))
    found = [next(group) for _, group in groupby(ordered, key=lambda point: point.offer.name)]
    return sorted(found, key=lambda point: -least(point.margins))[:_NEAREST]


def _cost(choice: Choice) -> float:
    return choice.cost if choice.spending.price_per_hour is not None else choice.gpus


def _tpot(choice: Choice) -> float:
    return choice.serving.tpot_s.value
