"""Random small models for the fusion search: any DAGs, any candidates, prices with ties and zeros."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from planner.fusion.types import Block, Candidate, Price, Problem, Seam


@dataclass(frozen=True)
class Prices:
    """Whole multiples of a unit; a low ``highest`` makes many ties."""

    highest: int
    unit_s: float
    uncovered: tuple[int, ...]

    def draw(self, rng: Random) -> Price:
        device_s = math.inf if rng.random() < 0.02 else rng.randint(0, self.highest) * self.unit_s
        launch_s = rng.randint(0, self.highest) * self.unit_s
        return Price(rng.choice(self.uncovered), launch_s, device_s)


def random_problem(rng: Random, *, nodes: int, unit_s: float, gated: bool = False) -> Problem:
    """A small model: at most three kinds, five blocks and ``nodes`` nodes in the unrolled graph."""
    kinds = "abc"[: rng.randint(1, 3)]
    prices = Prices(rng.choice((1, 3, 9)), unit_s, rng.choice(((0,), (0, 0, 0, 1, 2))))
    size = {kind: rng.randint(2 if gated else 1, 5) for kind in kinds}
    sequence: list[tuple[str, int]] = []
    left = nodes
    for _ in range(rng.randint(1, 5)):
        kind = rng.choice(kinds)
        if size[kind] > left or sum(times for _, times in sequence) == 5:
            break
        times = min(rng.choice((1, 1, 2, 3)), left // size[kind])
        times = min(times, 5 - sum(times for _, times in sequence))
        sequence.append((kind, times))
        left -= times * size[kind]
    if not sequence:
        sequence = [(kinds[0], 1)]
    blocks = {k: random_block(rng, k, size[k], prices, gated=gated) for k in kinds}
    pairs = {pair[0] for pair in Problem(tuple(sequence), (), ()).passes if pair[0][1]}
    seams = [
        random_seam(rng, blocks[kind], blocks[after], prices, gated=gated)
        for kind, after in sorted(pairs)
    ]
    used = tuple(blocks[k] for k in kinds if any(k == kind for kind, _ in sequence))
    return Problem(tuple(sequence), used, tuple(seams))


def random_block(rng, kind: str, size: int, prices: Prices, *, gated: bool) -> Block:
    names = [f"{kind}{i}" for i in range(size)]
    density = rng.choice((0.2, 0.5, 0.9))
    edges = {(p, c) for i, c in enumerate(names) for p in names[:i] if rng.random() < density}
    if gated:
        producers = {producer for producer, _ in edges}
        edges |= {(name, names[-1]) for name in names[:-1] if name not in producers}
    sets = [frozenset({(0, name)}) for name in names if rng.random() < 0.97]
    more = rng.randint(0, 4) if size > 1 else 0
    sets += [
        frozenset((0, n) for n in rng.sample(names, rng.randint(2, min(4, size))))
        for _ in range(more)
    ]
    return Block(kind, tuple(names), frozenset(edges), named(rng, kind, sets, prices))


def random_seam(rng, block: Block, after: Block, prices: Prices, *, gated: bool) -> Seam:
    density = rng.choice((0.1, 0.3, 0.7))
    edges = {(p, c) for p in block.nodes for c in after.nodes if rng.random() < density}
    if gated:
        consumers = {consumer for _, consumer in after.edges}
        sources = [node for node in after.nodes if node not in consumers]
        edges = {(block.nodes[-1], node) for node in sources}
    sets = []
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        early = rng.sample(block.nodes, min(len(block.nodes), rng.choice((1, 1, 2))))
        late = rng.sample(after.nodes, min(len(after.nodes), rng.choice((1, 1, 2))))
        sets.append(frozenset({(0, n) for n in early} | {(1, n) for n in late}))
    name = f"{block.kind}-{after.kind}-"
    candidates = named(rng, name, sets, prices)
    return Seam(block.kind, after.kind, frozenset(edges), candidates)


def named(rng, prefix: str, sets, prices: Prices) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(f"{prefix}k{i}", nodes, prices.draw(rng), i) for i, nodes in enumerate(sets)
    )
