"""Groups around attention that a perfect compiler could build (`planner.cost.attended`).

From the attention backwards and forwards, step by step: first all that works element by element or
head by head, then one layer of projections or of statistics of whole rows, and so on. Steps that
another grouping is never worse than are left out:

- Rotation, norms of heads and write of the cache in front without the projections that they come
  from: behind those they are as many launches, and Q, K and V cross no border twice.
- Projections without the norm in front of them, and a norm behind a projection that others follow:
  in front of those it is as many launches, and the rows that it makes are not stored.
- A residual in front: behind the product that it adds to, that product's result is not stored.
- The output projection without its residual, or without the sum over ranks of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import takewhile

from planner.cost.attended import attended_flow, composites, is_projection
from planner.cost.flow import Flow
from planner.cost.roles import SUMS, Role, is_narrow, role_of
from planner.fusion.match import Match, known_matches
from planner.graph.window import NodeKey, Window, window_of
from planner.ops.embedding import Embedding
from planner.ops.mla import HeadLinear
from planner.spec.types import FusionRule

MAX_NODES = 13
"""Beside the parts of attention: norm, three projections, two norms, rotation and cache write in
front; projection, sum over ranks, residual and norm behind, and one to spare."""

_RULE = FusionRule(
    name="ideal-around-attention",
    engine_name="attention nobody wrote yet",
    classes=("contraction",),
    query_tile=128,
    source="planner.cost.attended: Luo et al. 2025 (arXiv:2508.18850), FlashInfer, AWS NKI",
)


def attended_matches(window: Window) -> Iterator[Match]:
    """Every such group of a block that is convex; of two blocks those that reach into both."""
    across = window.following is not None
    for parts in composites(window):
        steps, own = _Steps(window, frozenset(parts)), parts[0][0]
        near, far = (steps.front, steps.behind) if own else (steps.behind, steps.front)
        reaching = [each for each in near() if not across or any(at != own for at, _ in each)]
        for side in far() if reaching else ():
            for each in reaching:
                nodes = side | each | steps.parts
                if side | each and window.is_convex(nodes):
                    yield from _match(window, nodes)


def attention_rule(flow: Flow, window: Window, rules: Iterable[FusionRule]) -> FusionRule | None:
    """The engine's rule for the attention of a flow; None where it has none."""
    own = window_of(window.blocks[flow.attention[0][0]])
    parts = {(0, name) for _, name in flow.attention}
    places = ((rule, match) for rule in rules for match in known_matches(rule, own))
    return next((rule for rule, match in places if parts <= match.nodes), None)


def _match(window: Window, nodes: frozenset[NodeKey]) -> Iterator[Match]:
    flow = attended_flow(window, sorted(nodes, key=window.position.__getitem__))
    if flow is not None:
        yield Match(_RULE, nodes, flow=flow)


Near = Callable[[frozenset[NodeKey]], set[NodeKey]]


class _Steps:
    """What may be joined in front of one attention and behind it, in ever larger steps."""

    def __init__(self, window: Window, parts: frozenset[NodeKey]) -> None:
        self.window = window
        self.parts = parts
        self._reading: dict[NodeKey, set[NodeKey]] = {}

    def front(self) -> Iterator[frozenset[NodeKey]]:
        """Nothing, products of heads alone, and all that may stand in front up to a norm."""
        yield frozenset()
        alone = frozenset(filter(self._of_head, self._before(frozenset())))
        if alone:
            yield alone
        legal = list(takewhile(self._in_front, self._grown(self._before)))
        most = self._counts(legal[-1]) if legal else (0, 0)
        yield from (each for each in legal if self._counts(each) == most and each != alone)

    def behind(self) -> Iterator[frozenset[NodeKey]]:
        """Nothing, all of each head, that with a statistic of all heads, and a projection."""
        yield frozenset()
        last: dict[tuple[int, int], frozenset[NodeKey]] = {}
        for each in takewhile(self._legal, self._grown(self._after)):
            last[self._counts(each)] = each
        yield from (last[n] for n in ((0, 0), (0, 1)) if last.get(n))
        summed = [joined for (linear, _), joined in last.items() if linear == 1]
        yield from summed[:1]
        yield from (each for each in summed[1:] if not self._meets(each, "product"))

    def _in_front(self, joined: frozenset[NodeKey]) -> bool:
        """Whether one kernel can run it, and none of it belongs behind the products before it."""
        window = self.window
        linear = [key for key in joined if is_projection(window.node(key))]
        ahead = joined.intersection(*(window.ancestors[key] for key in linear[:1]))
        behind = any(
            self._role(before) in {"product", "experts", "exchange"}
            for key in ahead - set(linear)
            for before in window.predecessors[key]
        )
        return not (linear and behind) and self._legal(joined)

    def _legal(self, joined: frozenset[NodeKey]) -> bool:
        nodes = sorted(joined | self.parts, key=self.window.position.__getitem__)
        return attended_flow(self.window, nodes) is not None

    def _counts(self, joined: frozenset[NodeKey]) -> tuple[int, int]:
        """Layers of projections, and statistics of whole rows."""
        window = self.window
        rows = {window.inputs(key)[0] for key in joined if is_projection(window.node(key))}
        wide = (key for key in joined if self._role(key) == "row" and not is_narrow(window, key))
        return len(rows), len(list(wide))

    def _meets(self, joined: frozenset[NodeKey], role: Role) -> bool:
        return any(self._role(key) == role for key in self._after(joined))

    def _grown(self, near: Near) -> Iterator[frozenset[NodeKey]]:
        """Ever more of it, each step with and without what joins at no cost."""
        joined: frozenset[NodeKey] = frozenset()
        while len(joined) <= MAX_NODES:
            if joined:
                yield joined
            free = self._with_free(joined, near)
            if free != joined:
                yield free
            added = near(free)
            layer = {key for key in added if self._of_head(key)} or self._layer(added)
            if not layer:
                return
            joined = free | layer

    def _with_free(self, joined: frozenset[NodeKey], near: Near) -> frozenset[NodeKey]:
        """With all that joins at no cost."""
        while more := {key for key in near(joined) if self._free(key)}:
            joined |= more
        return joined

    def _layer(self, added: set[NodeKey]) -> frozenset[NodeKey]:
        """Projections with their siblings, or sums over ranks and norms of whole rows; none where
        others are near.
        """
        linear = {key for key in added if is_projection(self.window.node(key))}
        if not linear:
            return frozenset(key for key in added if self._role(key) == "row" or self._sums(key))
        rows = {self.window.inputs(key)[0] for key in linear}
        readers = {r for tensor in rows for r in self.window.readers.get(tensor, ())}
        return frozenset(key for key in readers if is_projection(self.window.node(key)))

    def _sums(self, key: NodeKey) -> bool:
        """Whether it sums up over ranks behind the attention."""
        return isinstance(self.window.node(key).op, SUMS) and key not in self._above

    def _free(self, key: NodeKey) -> bool:
        """Rows of an embedding are looked up once a step: not worth a look in every layer."""
        role = self._role(key)
        if isinstance(self.window.node(key).op, Embedding):
            return False
        return role in {"element", "state"} or (role == "row" and is_narrow(self.window, key))

    def _of_head(self, key: NodeKey) -> bool:
        return isinstance(self.window.node(key).op, HeadLinear)

    def _before(self, joined: frozenset[NodeKey]) -> set[NodeKey]:
        """What is read there and by nothing else that the attention waits for."""
        window, group = self.window, joined | self.parts
        found = {before for key in group for before in window.predecessors[key]} - group
        return {key for key in found if all(map(group.__contains__, self._waiting(key)))}

    def _waiting(self, key: NodeKey) -> set[NodeKey]:
        """Readers of a node that the attention waits for."""
        readers = self._readers(key)
        return {each for each in readers if each in self.parts or each in self._above}

    def _after(self, joined: frozenset[NodeKey]) -> set[NodeKey]:
        """What reads something there and nothing else that waits for the attention."""
        window, group = self.window, joined | self.parts
        found = {reader for key in group for reader in self._readers(key)} - group
        below = {key for key in found if not self._waits(window.predecessors[key] - group)}
        return below - self._above

    def _waits(self, keys: frozenset[NodeKey]) -> bool:
        return any(self.window.ancestors[key] & self.parts for key in keys)

    def _readers(self, key: NodeKey) -> set[NodeKey]:
        if key not in self._reading:
            tensors, readers = self.window.outputs(key), self.window.readers
            self._reading[key] = set().union(*(readers.get(tensor, ()) for tensor in tensors))
        return self._reading[key]

    def _role(self, key: NodeKey) -> Role | None:
        return role_of(self.window.node(key))

    @cached_property
    def _above(self) -> frozenset[NodeKey]:
        return frozenset[NodeKey]().union(*(self.window.ancestors[key] for key in self.parts))
