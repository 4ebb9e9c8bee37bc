"""Downsets by the thousand: the states of a wide window as arrays, layer by layer.

A layer holds the states of equal size. Kernels run at least one node, so every arc into a layer
comes from a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, starmap
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from planner.fusion.types import SearchTooLarge
from planner.fusion.windows import Window

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
"""A state or a kernel's mask a row, 64 nodes a word."""
Into = tuple[tuple[int, int], ...]

_WORD = 64


@dataclass(frozen=True, eq=False)
class ArcArrays(Sequence[Into]):
    """Arcs sorted by the state they lead to; reads like the arcs of a `StateGraph`."""

    source: Ints
    move: Ints
    start: Ints
    """Of each state the first arc into it, then the number of arcs. None leads into the first."""
    layers: tuple[int, ...]
    """The first state of each layer, then the number of states."""

    @classmethod
    def of(cls, arcs: Sequence[Into]) -> ArcArrays:
        """The arcs of a `StateGraph` of few states: each state is a layer of its own."""
        flat = np.array([arc for into in arcs for arc in into], np.int64).reshape(-1, 2)
        start = np.cumsum([0, 0, *map(len, arcs)])
        return cls(flat[:, 0], flat[:, 1], start, tuple(range(len(arcs) + 2)))

    @cached_property
    def target(self) -> Ints:
        """The state that each arc leads to."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def __len__(self) -> int:
        """The number of states but the first."""
        return len(self.start) - 2

    @overload
    def __getitem__(self, index: int) -> Into: ...
    @overload
    def __getitem__(self, index: slice) -> list[Into]: ...
    def __getitem__(self, index: int | slice) -> Into | list[Into]:
        """The arcs into the state after the first so many."""
        if isinstance(index, slice):
            return list(self)[index]
        state = range(1, len(self) + 1)[index]
        return self._into(int(self.start[state]), int(self.start[state + 1]))

    def __iter__(self) -> Iterator[Into]:
        """The arcs into each state but the first."""
        return starmap(self._into, pairwise(self.start[1:].tolist()))

    def _into(self, first: int, end: int) -> Into:
        part = slice(first, end)
        return tuple(zip(self.source[part].tolist(), self.move[part].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class _Moves:
    """The kernels of a window as words."""

    mask: Words
    need: Words
    size: Ints


def downsets(
    window: Window, entry: int, max_states: int
) -> tuple[ArcArrays, tuple[tuple[int, int], ...]]:
    """Every state reachable from ``entry``, dead ends too: arcs and exits as `StateGraph` has them.

    Raises SearchTooLarge where there are more than ``max_states``.
    """
    bits = max(entry.bit_length(), *(max(m.mask, m.need).bit_length() for m in window.moves))
    words = max(bits, window.size) // _WORD + 1
    masks = [move.mask for move in window.moves]
    moves = _Moves(
        _words(masks, words),
        _words([move.need for move in window.moves], words),
        np.array([mask.bit_count() for mask in masks]),
    )
    layers = _layers(window, entry, moves, max_states)
    states = np.concatenate([layer.states for layer in layers])
    firsts = np.cumsum([0, *(len(layer.states) for layer in layers)])
    counts = np.concatenate([layer.counts for layer in layers])
    arcs = ArcArrays(
        np.concatenate([layer.source for layer in layers]),
        np.concatenate([layer.move for layer in layers]),
        np.concatenate([[0], np.cumsum(counts)]),
        tuple(firsts.tolist()),
    )
    full = _words([window.full], words)
    ends = np.flatnonzero(((states & full) == full).all(axis=1)).tolist()
    return arcs, tuple((end, _whole(states[end]) >> window.size) for end in ends)


@dataclass(frozen=True, eq=False)
class _Layer:
    """States of one size and the arcs into them, by state."""

    states: Words
    source: Ints
    move: Ints
    counts: Ints
    """Arcs into each state."""


def _layers(window: Window, entry: int, moves: _Moves, max_states: int) -> list[_Layer]:
    words = moves.mask.shape[1]
    full = _words([window.full], words)
    none = np.zeros(0, np.int64)
    layer = _Layer(_words([entry], words), none, none, np.zeros(1, np.int64))
    waiting: dict[int, list[tuple[Words, Ints, Ints]]] = {}
    found: list[_Layer] = []
    size, count = entry.bit_count(), 0
    while True:
        found.append(layer)
        count += len(layer.states)
        if count > max_states:
            raise SearchTooLarge(window.name, max_states + 1, max_states)
        open_ = np.flatnonzero(((layer.states & full) != full).any(axis=1))
        state, move = _runnable(layer.states[open_], moves)
        source = open_[state] + (count - len(layer.states))
        after = layer.states[open_[state]] | moves.mask[move]
        grown = size + moves.size[move]
        for each in np.unique(grown):
            at = np.flatnonzero(grown == each)
            waiting.setdefault(int(each), []).append((after[at], source[at], move[at]))
        if not waiting:
            return found
        size = min(waiting)
        layer = _layer(waiting.pop(size))


def _runnable(states: Words, moves: _Moves) -> tuple[Ints, Ints]:
    """Which moves may run in which states."""
    ready = np.ones((len(states), len(moves.size)), bool)
    for word in range(states.shape[1]):
        state = states[:, word, None]
        ready &= (state & (moves.mask[:, word] | moves.need[:, word])) == moves.need[:, word]
    state, move = np.divmod(np.flatnonzero(ready), len(moves.size))
    return state.astype(np.int64), move.astype(np.int64)


def _layer(arcs: list[tuple[Words, Ints, Ints]]) -> _Layer:
    """One state for all arcs that lead to equal ones."""
    after, source, move = (np.concatenate(each) for each in zip(*arcs, strict=True))
    order = np.lexsort(after.T)
    after = after[order]
    new = np.ones(len(after), bool)
    new[1:] = (after[1:] != after[:-1]).any(axis=1)
    first = np.flatnonzero(new)
    counts = np.diff(np.append(first, len(after)))
    return _Layer(after[first], source[order], move[order], counts)


def _words(masks: Sequence[int], words: int) -> Words:
    """Whole numbers in words, the lowest first."""
    low = (1 << _WORD) - 1
    rows = [[mask >> (_WORD * word) & low for word in range(words)] for mask in masks]
    return np.array(rows, np.uint64)


def _whole(words: npt.NDArray[Any]) -> int:
    """One number of its words."""
    return sum(word << (_WORD * place) for place, word in enumerate(words.tolist()))
