"""What a spec of an exported graph leaves out, in sentences for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from planner.importers.exported.emission import Emission
from planner.importers.exported.graph import Role

_NAMED = 3
"""Things that a note names of each sort."""


def notes_of(emission: Emission, outputs: list[str]) -> Iterable[str]:
    """What a spec of an export leaves out, in sentences."""
    graph = emission.graph
    side = Counter(
        step.op for step in graph.export.steps if graph.role(step.outputs[0]) == Role.SIDE
    )
    if side:
        shown = ", ".join(f"{count} {op}" for op, count in side.most_common(_NAMED))
        yield (
            f"{side.total()} nodes that compute shapes, positions and masks are not planned "
            f"({shown}{', …' if len(side) > _NAMED else ''})"
        )
    yield from _stored_apart(emission)
    unread = [n for n in graph.export.inputs if n not in emission.inputs]
    if unread:
        yield f"inputs that no node reads: {', '.join(unread[:_NAMED])}" + (
            f" and {len(unread) - _NAMED} more" if len(unread) > _NAMED else ""
        )
    if any(s.op == "Attend" and s.attributes.get("masked") for s in graph.ordered()):
        yield (
            "masks tell only which way attention looks: a window in them is not seen, so that all "
            "earlier tokens count"
        )
    length = emission.layout.length
    if isinstance(length, int):
        yield f"exported for sequences of {length} tokens: a step that asks for others scales it"
    dropped = [name for name in graph.export.outputs if name not in outputs]
    if dropped and not set(dropped) <= {graph.source(name) for name in outputs}:
        yield f"{len(dropped)} outputs are caches, which the plan counts itself"


def _stored_apart(emission: Emission) -> Iterable[str]:
    graph = emission.graph
    left = [w for n, w in graph.export.weights.items() if _left(emission, n)]
    unused = [w for w in left if not graph.readers(w.name)]
    if unused:
        shown = ", ".join(w.name for w in unused[:_NAMED])
        yield (
            f"{sum(w.elements for w in unused)} stored numbers that no output needs are left "
            f"out ({shown}{', …' if len(unused) > _NAMED else ''})"
        )
    left = [w for w in left if graph.readers(w.name)]
    if left:
        shown = ", ".join(f"{w.name} {list(w.sides)}" for w in left[:_NAMED])
        yield (
            f"{sum(w.elements for w in left)} stored numbers are no parameters of a node: tables, "
            f"masks, scales ({shown}{', …' if len(left) > _NAMED else ''})"
        )


def _left(emission: Emission, name: str) -> bool:
    weight = emission.graph.export.weights[name]
    floating = weight.dtype not in {"int", "bool"} and weight.elements > 1
    return floating and name not in emission.taken
