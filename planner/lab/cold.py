"""Memory that operands are cut from: filled once, as filling takes longer than measuring."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

_ALIGNED = 64
"""Elements: a tensor starts on a line of the cache."""
_BLOCK = 2**20
"""Random numbers that repeat: constant ones would let a GPU draw less power and clock higher."""
_REACH = 0.05


class Pool:
    """One tensor, grown to the largest demand. What it gives is for reading, until the next cut."""

    def __init__(self, torch: Any, dtype: Any, device: str) -> None:
        self._torch, self._dtype, self._device = torch, dtype, device
        self._held = torch.empty(0, dtype=dtype, device=device)

    def cut(self, copies: int, *shapes: tuple[int, ...]) -> list[tuple[Any, ...]]:
        """So many groups of tensors, each of these shapes, none of which overlap."""
        group = sum(_room(shape) for shape in shapes)
        self._grow(copies * group)
        return [tuple(self._tensors(number * group, shapes)) for number in range(copies)]

    def _tensors(self, start: int, shapes: tuple[tuple[int, ...], ...]) -> Iterator[Any]:
        for shape in shapes:
            yield self._held[start : start + prod(shape)].view(*shape)
            start += _room(shape)

    def _grow(self, count: int) -> None:
        if self._held.numel() >= count:
            return
        self._held = self._torch.empty(0, dtype=self._dtype, device=self._device)
        block = self._torch.empty(min(count, _BLOCK), dtype=self._dtype, device=self._device)
        block.uniform_(-_REACH, _REACH)
        self._held = block.repeat(-(-count // len(block)))


def _room(shape: tuple[int, ...]) -> int:
    return -(-prod(shape) // _ALIGNED) * _ALIGNED
