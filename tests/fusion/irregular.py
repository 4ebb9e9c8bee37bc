"""Large graphs without repetition: random edges of short reach, random kernels of neighbours."""

from __future__ import annotations

from random import Random

from planner.fusion.types import Block, Candidate, Price, Problem

LAUNCH_S = 4e-6


def irregular(nodes: int, width: int, seed: int = 0, *, groups: int = 3) -> Problem:
    """One block whose nodes read one or two of the ``2 * width`` before them; a kernel of its own
    for every node, and up to ``groups`` convex ones of two to five neighbours for each node.
    """
    rng = Random(seed)
    before: list[set[int]] = [set() for _ in range(nodes)]
    for node in range(1, nodes):
        reach = range(max(0, node - 2 * width), node)
        before[node] = set(rng.sample(reach, min(len(reach), rng.choice((1, 1, 2)))))
    around = _around(before)
    ancestors, descendants = _reach(before)
    sets = {frozenset({node}) for node in range(nodes)}
    for _ in range(groups * nodes):
        group = _group(rng, around)
        above = below = mask = 0
        for node in group:
            above, below = above | ancestors[node], below | descendants[node]
            mask |= 1 << node
        if not above & below & ~mask:
            sets.add(frozenset(group))
    work = [rng.randint(2, 30) for _ in range(nodes)]
    names = tuple(f"n{node}" for node in range(nodes))
    candidates = tuple(
        Candidate(f"k{k}", frozenset((0, names[n]) for n in group), _price(rng, group, work), k)
        for k, group in enumerate(sorted(sets, key=sorted))
    )
    edges = frozenset((names[p], names[n]) for n, each in enumerate(before) for p in each)
    return Problem((("whole", 1),), (Block("whole", names, edges, candidates),), ())


def _around(before: list[set[int]]) -> list[set[int]]:
    around = [set(each) for each in before]
    for node, each in enumerate(before):
        for producer in each:
            around[producer].add(node)
    return around


def _reach(before: list[set[int]]) -> tuple[list[int], list[int]]:
    ancestors, descendants = [0] * len(before), [0] * len(before)
    for node, each in enumerate(before):
        for producer in each:
            ancestors[node] |= ancestors[producer] | 1 << producer
    for node in reversed(range(len(before))):
        for producer in before[node]:
            descendants[producer] |= descendants[node] | 1 << node
    return ancestors, descendants


def _group(rng: Random, around: list[set[int]]) -> set[int]:
    group = {rng.randrange(len(around))}
    for _ in range(rng.randint(1, 4)):
        more = set().union(*(around[node] for node in group)) - group
        if more:
            group.add(rng.choice(sorted(more)))
    return group


def _price(rng: Random, group: frozenset[int], work: list[int]) -> Price:
    """Whole microseconds: fused work is up to half less, and every kernel starts in 2 µs."""
    share = rng.uniform(0.5, 1.0) if len(group) > 1 else 1.0
    return Price(0, LAUNCH_S, (2 + round(share * sum(work[n] for n in group))) * 1e-6)
