"""Whole numbers that a graph computes of its own shapes: the targets of its reshapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.importers.exported.types import Side, Sides, Step, Weight

Sizes = tuple[Side | None, ...]
"""Numbers of a small tensor: fixed, the name of a side, or not known."""
_KEPT = frozenset({"Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape"})
_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "Add": int.__add__,
    "Sub": int.__sub__,
    "Mul": int.__mul__,
    "Div": lambda a, b: a // b if b else 0,
}
_END = 2**31 - 2
"""Slices that go on to the end say so by a number at least as large."""


class SizeReader:
    """Reads numbers as far as sides that are known give them."""

    def __init__(self, weights: Mapping[str, Weight], sides: Callable[[str], Sides | None]) -> None:
        self.weights, self.sides = weights, sides
        self._held: dict[str, Sizes] = {}

    def of(self, tensor: str) -> Sizes | None:
        """The numbers of a tensor; None where not even their count is known."""
        if tensor in self._held:
            return self._held[tensor]
        weight = self.weights.get(tensor)
        if weight is None or weight.numbers is None:
            return None
        return tuple(int(number) for number in weight.numbers if abs(number) < float("inf"))

    def whole(self, tensor: str) -> tuple[int, ...] | None:
        """The numbers where all of them are fixed."""
        found = self.of(tensor)
        if found is None or not all(isinstance(size, int) for size in found):
            return None
        return tuple(size for size in found if isinstance(size, int))

    def note(self, step: Step) -> None:
        """Work out what a step writes, if it is such numbers."""
        found = self._made(step)
        if found is not None:
            self._held[step.outputs[0]] = found

    def _made(self, step: Step) -> Sizes | None:
        if step.op == "Shape":
            return self._shape(step)
        if step.op == "Concat":
            parts = [self.of(name) for name in step.inputs]
            return None if None in parts else tuple(s for part in parts if part for s in part)
        first = self.of(step.read(0))
        if step.op == "Slice":
            return self._cut(step, first)
        if step.op in _ARITHMETIC:
            return _computed(_ARITHMETIC[step.op], first, self.of(step.read(1)))
        if step.op == "Gather":
            return _picked(first, self.whole(step.read(1)))
        return first if step.op in _KEPT else self._chosen(step, first)

    def _chosen(self, step: Step, first: Sizes | None) -> Sizes | None:
        """What PyTorch writes for ``expand``: sides as given, ones where −1 was."""
        second, third = self.of(step.read(1)), self.of(step.read(2))
        if step.op == "ConstantOfShape" and first and len(first) == 1 and isinstance(first[0], int):
            return (int(step.attributes.get("value", 0)),) * first[0]
        if step.op == "Equal" and first and second:
            return tuple(int(a == b) for a, b in zip(first, second, strict=False))
        if step.op == "Where" and first and second and third:
            rows = zip(first, second, third, strict=False)
            return tuple(yes if condition else no for condition, yes, no in rows)
        return None

    def _shape(self, step: Step) -> Sizes | None:
        sides = self.sides(step.inputs[0])
        if sides is None:
            return None
        return sides[step.attributes.get("start", 0) : step.attributes.get("end")]

    def _cut(self, step: Step, first: Sizes | None) -> Sizes | None:
        starts, ends = (self.whole(step.read(place)) for place in (1, 2))
        if first is None or not starts or not ends:
            return None
        return first[starts[0] : None if ends[0] >= _END else ends[0]]


def _picked(first: Sizes | None, places: tuple[int, ...] | None) -> Sizes | None:
    if first is None or places is None:
        return None
    if not all(-len(first) <= place < len(first) for place in places):
        return None
    return tuple(first[place] for place in places)


def _computed(
    compute: Callable[[int, int], int], first: Sizes | None, second: Sizes | None
) -> Sizes | None:
    if first is None or second is None or not first or not second:
        return None
    count = max(len(first), len(second))
    pairs = zip(first * (count // len(first)), second * (count // len(second)), strict=False)
    return tuple(
        compute(a, b) if isinstance(a, int) and isinstance(b, int) else None for a, b in pairs
    )
