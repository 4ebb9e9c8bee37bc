"""One structure in one capture mode under many loads at once: arrays where a plan has numbers.

All loads of a problem share what branches: the mode, and which groups are too large to run. The
search runs for one of them; its schedule is then priced for all, and for each it is known whether
any other would be cheaper. Where one would, the search runs again for such a load.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from planner.capture.regime import Regime
from planner.capture.solve import Kernel, Priced, Solution, issues, solution
from planner.capture.timeline import timeline
from planner.capture.types import FixedCosts
from planner.capture.work import worked
from planner.cost.annotate import BlockCosts, node_cost
from planner.cost.estimator import Estimator
from planner.cost.types import Device, NodeCost
from planner.fusion.least import least_clock, least_sum
from planner.fusion.search import search
from planner.fusion.types import Price, Schedule
from planner.graph.types import Block, ModelGraph
from planner.num import Number, is_array
from planner.ops.types import Load, SequenceGroup

TIE = 1e-11
"""Of two costs nearer than this neither is cheaper: sums in another order differ by less."""
FEWER = 2
"""Batches are priced apart from contexts where there are so many times fewer of them than loads."""
MOST_SCHEDULES = 16
"""Schedules tried before what is left is planned one by one."""


_PADDING = 2.0**20
"""More rows of padding than any batch has: a batch and its padding make one number."""


class _ContextAskedError(Exception):
    """A formula looked at a context that stands for many."""


class _Unasked:
    """In the place of a context: whatever looks at it depends on it."""

    __array_ufunc__: ClassVar[None] = None

    def _asked(self, *_: object) -> Any:
        raise _ContextAskedError

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _asked
    __mod__ = __floordiv__ = __truediv__ = __gt__ = __ge__ = __lt__ = __le__ = _asked
    __float__ = __neg__ = _asked


class _Nodes(dict[str, NodeCost]):
    """Ledgers of a block's nodes, each made when it is asked for."""

    def __init__(self, block: Block, load: Load, device: Device) -> None:
        super().__init__()
        self._seen = block, load, device
        self._by_id = {node.id: node for node in block.nodes}

    def __missing__(self, name: str) -> NodeCost:
        block, load, device = self._seen
        found = self[name] = node_cost(block, self._by_id[name], load, device)
        return found


def _ledgers(graph: ModelGraph, load: Load, device: Device) -> tuple[BlockCosts, ...]:
    return tuple(BlockCosts(block, load, _Nodes(block, load, device)) for block in graph.kinds)


@dataclass(frozen=True, eq=False)
class _Batches:
    """The distinct batches among loads, at no context in particular: most kernels look at none."""

    costs: tuple[BlockCosts, ...]
    place: Any
    """Of each load: which batch is its own."""


@dataclass(frozen=True, eq=False)
class ManyProblem:
    """A regime under loads of as many groups of sequences each, whose sizes are arrays."""

    regime: Regime
    graph: ModelGraph
    load: Load
    device: Device
    fixed: FixedCosts
    estimator: Estimator
    _kernels: dict[int, Kernel] = field(default_factory=dict)
    _known: dict[str, Any] = field(default_factory=dict)

    def kernel(self, slot: int) -> Kernel:
        """A group's launch."""
        if slot not in self._kernels:
            self._kernels[slot] = self._by_batch(slot) or self._launch(slot, self._costs)
        return self._kernels[slot]

    @cached_property
    def _costs(self) -> tuple[BlockCosts, ...]:
        return _ledgers(self.graph, self.load, self.device)

    @cached_property
    def _batches(self) -> _Batches | None:
        """None where hardly any load shares its batch with another, or all tokens are new."""
        import numpy as np

        group = self.load.groups[0]
        if len(self.load.groups) > 1 or is_array(group.new_tokens):
            return None
        padding = self.load.padding_tokens
        codes = group.count * _PADDING + padding
        _, first, place = np.unique(codes, return_index=True, return_inverse=True)
        if len(first) * FEWER > len(place):
            return None
        counts, padding = group.count[first], padding[first]
        alone = SequenceGroup(counts, group.new_tokens, _Unasked(), group.verified)
        load = replace(self.load, groups=(alone,), padding_tokens=padding)
        return _Batches(_ledgers(self.graph, load, self.device), place)

    def _by_batch(self, slot: int) -> Kernel | None:
        """The launch priced once for each batch; None where it depends on the context too."""
        if self._batches is None or slot in self.regime.growing:
            return None
        try:
            found = self._launch(slot, self._batches.costs)
        except _ContextAskedError:
            self.regime.growing.add(slot)
            return None
        place, time = self._batches.place, found.time
        names = ("time_s", "fixed_s", "bound", "log_low", "log_high")
        values = {name: getattr(time, name) for name in names}
        each = {name: value[place] for name, value in values.items() if is_array(value)}
        return replace(found, time=replace(time, **each))

    def _launch(self, slot: int, costs: tuple[BlockCosts, ...]) -> Kernel:
        asked = self.regime.layout.slots[slot]
        key = f"{asked.priced_as} {costs is self._costs}"
        if key not in self._known:
            own = tuple(costs[kind] for kind in asked.kinds)
            self._known[key] = worked(asked, own, self.device, self.estimator)
        priceable, estimate = self._known[key]
        return Priced(asked, priceable, estimate).kernel(self.regime.mode, self.fixed)

    def solutions(self) -> Iterator[tuple[Any, Solution]]:
        """Schedules, priced for every load, each with an array that says which loads it is for.

        Every load is in exactly one; those that no schedule was found for are in none.
        """
        import numpy as np

        least = self._least()
        left = np.ones(self.load.sequences.shape, dtype=bool)
        for _ in range(MOST_SCHEDULES):
            places = np.flatnonzero(left)
            if not len(places):
                return
            place = int(places[len(places) // 2])
            found = self._solution(self._schedule(place))
            won = left & (self._objective(found) <= least * (1 + TIE))
            won[place] = True
            yield won, found
            left &= ~won

    def _least(self) -> Number:
        """The least of what the search minimises, for each load.

        Raises SearchTooLarge.
        """
        paths = self.regime.paths
        if self.regime.mode == "full":
            return least_sum(paths, {n: self.kernel(n).time.time_s for n in paths.kernels})
        clocks = {n: (self.kernel(n).launch_s, self.kernel(n).time.time_s) for n in paths.kernels}
        return least_clock(paths, clocks)

    def _schedule(self, place: int) -> Schedule:
        """What the search finds for one load."""
        regime = self.regime
        prices = [self._price(slot, weight, place) for slot, weight in enumerate(regime.weights)]
        return search(regime.layout.problem, regime.objective, regime.space, prices)

    def _price(self, slot: int, weight: int, place: int) -> Price:
        """As the search weighs it."""
        known = self.regime.unasked[slot]
        if known:
            return known
        kernel = self.kernel(slot)
        time_s = kernel.time.time_s
        return Price(weight, kernel.launch_s, float(time_s[place] if is_array(time_s) else time_s))

    def _solution(self, schedule: Schedule) -> Solution:
        slots = {launch.candidate.id for run in schedule.runs for launch in run.launches}
        kernels = {slot: self.kernel(slot) for slot in slots}
        regime = self.regime
        mode, sequences = regime.mode, self.load.sequences
        return solution(regime.layout, schedule, kernels, mode, self.fixed, sequences=sequences)

    def _objective(self, found: Solution) -> Number:
        if self.regime.mode == "full":
            return found.timeline.busy_s
        return timeline(issues(found.runs)).device_s
