"""What a compiler's grouping and ours move through memory, by one and the same ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.calibrate.compiled import Compared
from planner.cost.kernel import kernel_work, known_border
from planner.fusion.types import SearchTooLarge
from planner.graph.window import NodeKey, Window, window_of
from planner.ops.types import OpClass
from planner.plan.solve import solve_ideal


@dataclass(frozen=True)
class Worth:
    """A step under several groupings. Calls of libraries are the same in all but the ideal one."""

    theirs_bytes: float
    ours_bytes: float
    ideal_bytes: float | None
    """Of any legal grouping; None where the search is too large."""
    theirs_kernels: int
    """Kernels that compute any node of the plan."""
    ours_kernels: int
    ideal_kernels: int | None
    bandwidth_bytes_per_s: float
    kernel_s: float
    """Time of a kernel beside its bytes."""

    @property
    def saved_s(self) -> float:
        """How much sooner our grouping is done: by bytes / bandwidth and a fixed time a kernel."""
        moved = (self.theirs_bytes - self.ours_bytes) / self.bandwidth_bytes_per_s
        return moved + (self.theirs_kernels - self.ours_kernels) * self.kernel_s


def worth(compared: Compared) -> Worth:
    """Bytes and kernels of Inductor's grouping, of the plan's, and of the ideal rule set's."""
    solved = compared.solved
    chosen = [kernel for run in solved.chosen.runs for kernel in run.kernels]
    kernels = _their_kernels(compared)
    ideal_bytes = ideal_kernels = None
    try:
        ideal = [kernel for run in solve_ideal(solved).runs for kernel in run.kernels]
    except SearchTooLarge:
        pass
    else:
        ideal_bytes = sum(float(kernel.work.hbm_bytes) for kernel in ideal)
        ideal_kernels = sum(kernel.group.launches > 0 for kernel in ideal)
    return Worth(
        sum(_their_bytes(compared, number, kernels) for number in kernels),
        sum(float(kernel.work.hbm_bytes) for kernel in chosen),
        ideal_bytes,
        len(kernels),
        sum(kernel.group.launches > 0 for kernel in chosen),
        ideal_kernels,
        solved.solver.prepared.device.bandwidth_bytes_per_s,
        solved.fixed.graph_node_s,
    )


Kernels = Mapping[int, frozenset[NodeKey]]


def _their_kernels(compared: Compared) -> Kernels:
    """Nodes of each of Inductor's kernels: an operator of several is in the last of them.

    Nodes without a kernel there, as a cache that an export has not, run alone on both sides. Of a
    product nothing is computed again but the sum with its bias, whose bytes are left out.
    """
    found: dict[int, set[NodeKey]] = {}
    theirs = compared.theirs
    for name, nodes in compared.operators.items():
        keys = {(0, node) for node in nodes}
        first = theirs.first[name]
        if not first:
            if compared.launches[name]:
                found[-len(found) - 1] = keys
            continue
        product = compared.node(name).op.op_class == OpClass.CONTRACTION
        again = () if product else theirs.again[name]
        repeats = [number for number in again if number not in first]
        for number in (first[-1], *repeats):
            found.setdefault(number, set()).update(keys)
    return {number: frozenset(keys) for number, keys in found.items()}


def _their_bytes(compared: Compared, number: int, kernels: Kernels) -> float:
    """Bytes of one kernel: what it computes again it does not write, nor what nobody reads."""
    solved = compared.solved
    window, nodes = window_of(compared.block), kernels[number]
    border = known_border(window, nodes)
    kept = tuple(
        (key, place)
        for key, place in border.writes
        if min(n for n, held in kernels.items() if key in held) == number
        and _leaves(window, key, place, kernels)
    )
    work = kernel_work(
        replace(border, writes=kept), solved.costs, solved.solver.prepared.device, None
    )
    return float(work.hbm_bytes)


def _leaves(window: Window, key: NodeKey, place: int, kernels: Kernels) -> bool:
    """Whether some kernel reads a result and does not compute it itself."""
    tensor = window.outputs(key)[place]
    if tensor in window.escaping:
        return True
    readers = window.readers.get(tensor, ())
    without = [held for held in kernels.values() if key not in held]
    owned = frozenset().union(*kernels.values())
    return any(reader not in owned for reader in readers) or any(
        reader in held for reader in readers for held in without
    )
