"""The cheapest schedule as an integer program, by HiGHS; shares nothing with the search but words.

A variable for each kernel: 1 where it runs. Every node is run once. Kernels that wait for each
other in a ring cannot all run: such a ring is cut off when a solution holds it, until none does.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, vstack

from planner.fusion.types import Problem


def least_sum(problem: Problem, unit_s: float) -> int:
    """The least sum of device times of a model of one block, in whole units."""
    (block,) = problem.blocks
    costs = np.array([round(each.price.device_s / unit_s) for each in block.candidates])
    rows = _cover(problem)
    low, high = np.ones(rows.shape[0]), np.ones(rows.shape[0])
    while True:
        limits = LinearConstraint(rows, low, high)
        found = milp(
            costs, constraints=limits, integrality=np.ones(len(costs)), bounds=Bounds(0, 1)
        )
        assert found.success, found.message
        chosen = [int(k) for k in np.flatnonzero(np.round(found.x))]
        ring = _ring(problem, chosen)
        if ring is None:
            return int(sum(costs[chosen]))
        cut = np.zeros((1, len(costs)))
        cut[0, ring] = 1
        rows = vstack([rows, csr_array(cut)])
        low, high = np.append(low, -np.inf), np.append(high, len(ring) - 1)


def _cover(problem: Problem) -> csr_array:
    (block,) = problem.blocks
    place = {node: row for row, node in enumerate(block.nodes)}
    pairs = [(place[n], k) for k, each in enumerate(block.candidates) for _, n in each.nodes]
    rows, columns = zip(*pairs, strict=True)
    shape = len(block.nodes), len(block.candidates)
    return csr_array(coo_array((np.ones(len(pairs)), (rows, columns)), shape=shape))


def _ring(problem: Problem, chosen: list[int]) -> list[int] | None:
    """Kernels that wait for each other; None where the chosen ones have an order."""
    (block,) = problem.blocks
    runs = {node: k for k in chosen for _, node in block.candidates[k].nodes}
    graph = nx.DiGraph(
        (runs[producer], runs[consumer])
        for producer, consumer in block.edges
        if runs[producer] != runs[consumer]
    )
    try:
        return [first for first, *_ in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        return None
