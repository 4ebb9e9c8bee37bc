"""Layers found again: where one tensor alone goes on, a graph may be cut; like pieces repeat."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from planner.importers.exported.emission import Made
from planner.importers.exported.layout import Shape


@dataclass(frozen=True)
class Piece:
    """Nodes between two cuts, with what comes in and goes out."""

    nodes: tuple[Made, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def joined(self, other: Piece) -> Piece:
        """This piece and the next one as one."""
        return Piece((*self.nodes, *other.nodes), self.inputs, other.outputs)


@dataclass(frozen=True)
class Repeat:
    """Several items in a row, ``times`` over."""

    times: int
    items: tuple[Piece | Repeat, ...]


def pieces(nodes: Sequence[Made], inputs: Sequence[str], outputs: Sequence[str]) -> list[Piece]:
    """The graph cut at every place where a single tensor goes on."""
    found: list[Piece] = []
    start, entry = 0, tuple(inputs)
    for end, alive in enumerate(_alive(nodes, inputs, outputs), start=1):
        if len(alive) == 1 and end < len(nodes) and alive[0] not in inputs:
            found.append(Piece(tuple(nodes[start:end]), entry, (alive[0],)))
            start, entry = end, (alive[0],)
    found.append(Piece(tuple(nodes[start:]), entry, tuple(outputs)))
    return found


def _alive(
    nodes: Sequence[Made], inputs: Sequence[str], outputs: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """After each node: the tensors that later ones read."""
    final: dict[str, int] = {}
    for position, node in enumerate(nodes):
        final |= dict.fromkeys(node.inputs, position)
    final |= dict.fromkeys(outputs, len(nodes))
    alive = dict.fromkeys(inputs)
    for position, node in enumerate(nodes):
        alive |= dict.fromkeys(node.outputs)
        alive = {t: None for t in alive if final.get(t, -1) > position}
        yield tuple(alive)


def shape_key(piece: Piece, shapes: dict[str, Shape]) -> Hashable:
    """What two pieces share when one may stand for the other: everything but names."""
    numbers = {name: position for position, name in enumerate(piece.inputs)}
    rows = []
    for node in piece.nodes:
        read = tuple(numbers[name] for name in node.inputs)
        numbers |= {name: len(numbers) + place for place, name in enumerate(node.outputs)}
        said = tuple(sorted((key, str(value)) for key, value in node.attributes.items()))
        rows.append((node.op, read, len(node.outputs), said, node.format))
    entry = tuple(shapes[name] for name in piece.inputs)
    return entry, tuple(rows), tuple(numbers[name] for name in piece.outputs)


DEEPEST = 2
"""A run may hold runs, as five local layers and one global; a spec has no deeper cycles."""


def compressed(
    found: Sequence[Piece], keys: Sequence[Hashable], depth: int = 0
) -> tuple[Piece | Repeat, ...]:
    """Pieces in order, runs of like ones written once; what does not repeat is joined."""
    best = _best_run(found, keys) if depth < DEEPEST else None
    if best is None:
        return (_joined(found),) if found else ()
    start, period, times = best
    end = start + period * times
    inner = compressed(found[start : start + period], keys[start : start + period], depth + 1)
    left = compressed(found[:start], keys[:start], depth)
    return (*left, Repeat(times, inner), *compressed(found[end:], keys[end:], depth))


def _joined(found: Sequence[Piece]) -> Piece:
    whole = found[0]
    for piece in found[1:]:
        whole = whole.joined(piece)
    return whole


def _best_run(found: Sequence[Piece], keys: Sequence[Hashable]) -> tuple[int, int, int] | None:
    """Start, period and times of the run that saves most nodes; of equals the shortest period."""
    sizes = [len(piece.nodes) for piece in found]
    best, saved = None, 0
    for period in range(1, len(keys) // 2 + 1):
        start = 0
        while start + period < len(keys):
            same = _matches(keys, start, period)
            times = same // period + 1
            spared = sum(sizes[start + period : start + period * times])
            if times > 1 and spared > saved:
                best, saved = (start, period, times), spared
            start += max(1, same)
    return best


def _matches(keys: Sequence[Hashable], start: int, period: int) -> int:
    """How many pieces from ``start`` on are like those a period later."""
    position = start
    while position + period < len(keys) and keys[position] == keys[position + period]:
        position += 1
    return position - start
