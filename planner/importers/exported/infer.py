"""Sides of tensors that the export leaves open, from those of what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.importers.exported.sides import BROADCAST, UNCHANGED, quotient, together
from planner.importers.exported.sizes import SizeReader
from planner.importers.exported.types import Export, Side, Sides, Step, Value

_END = 2**31 - 2


def with_sides(export: Export) -> Export:
    """The export with sides worked out as far as they follow."""
    return _Inference(export).run()


class _Inference:
    def __init__(self, export: Export) -> None:
        self.export, self.values = export, dict(export.values)
        self.sizes = SizeReader(export.weights, self.sides)
        self.rules: dict[str, Callable[[Step], Sequence[Sides | None]]] = {
            "Reshape": self._reshape,
            "Transpose": self._transpose,
            "Slice": self._slice,
            "Split": self._split,
            "Concat": self._concat,
            "Expand": self._expand,
            "Gather": self._gather,
            "MatMul": self._matmul,
            "Unsqueeze": self._unsqueeze,
            "Squeeze": self._squeeze,
            "ConstantOfShape": self._filled,
            "Range": self._range,
            "GatherElements": lambda step: [self.sides(step.read(1))],
            **dict.fromkeys(UNCHANGED, self._same),
            **dict.fromkeys(BROADCAST, self._broadcast),
            **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), self._reduce),
        }

    def run(self) -> Export:
        for step in self.export.steps:
            if any(name and self.sides(name) is None for name in step.outputs):
                self._complete(step)
            self.sizes.note(step)
        return replace(self.export, values=self.values)

    def sides(self, tensor: str) -> Sides | None:
        weight = self.export.weights.get(tensor)
        if weight is not None:
            return weight.sides
        value = self.values.get(tensor)
        return value.sides if value else None

    def _complete(self, step: Step) -> None:
        rule = self.rules.get(step.op)
        if rule is None:
            return
        try:
            found = rule(step)
        except (IndexError, TypeError, ValueError):
            return
        for name, sides in zip(step.outputs, found, strict=False):
            if name and sides is not None and self.sides(name) is None:
                known = self.values.get(name)
                dtype = known.dtype if known else self._dtype(step)
                self.values[name] = Value(name, tuple(sides), dtype)

    def _dtype(self, step: Step) -> str:
        value = self.values.get(step.read(0))
        return value.dtype if value else "fp32"

    def _same(self, step: Step) -> Sequence[Sides | None]:
        return [self.sides(step.read(0))]

    def _filled(self, step: Step) -> Sequence[Sides | None]:
        sizes = self.sizes.of(step.read(0))
        if sizes is None or not all(size is not None for size in sizes):
            return [None]
        return [tuple(size for size in sizes if size is not None)]

    def _range(self, step: Step) -> Sequence[Sides | None]:
        start, limit, stride = (self.sizes.of(name) for name in step.inputs)
        if start != (0,) or stride != (1,) or not limit or limit[0] is None:
            return [None]
        return [(limit[0],)]

    def _unknown(self, step: Step, axis: int) -> str:
        return f"? of {step.outputs[0]} axis {axis}"

    def _reshape(self, step: Step) -> Sequence[Sides | None]:
        target, before = self.sizes.of(step.read(1)), self.sides(step.inputs[0])
        if target is None:
            return [None]
        zero = step.attributes.get("allowzero", 0)
        sides: list[Side | None] = []
        for place, size in enumerate(target):
            kept = size == 0 and not zero and before is not None
            sides.append(before[place] if kept and before else size)
        open_places = [place for place, side in enumerate(sides) if side in {None, -1}]
        if len(open_places) == 1 and before is not None:
            rest = [side for side in sides if side not in {None, -1}]
            sides[open_places[0]] = quotient(before, [s for s in rest if s is not None])
        return [
            tuple(
                self._unknown(step, place) if side is None or side == -1 else side
                for place, side in enumerate(sides)
            )
        ]

    def _transpose(self, step: Step) -> Sequence[Sides | None]:
        sides = self.sides(step.inputs[0])
        if sides is None:
            return [None]
        order = step.attributes.get("perm") or tuple(reversed(range(len(sides))))
        return [tuple(sides[axis] for axis in order)]

    def _slice(self, step: Step) -> Sequence[Sides | None]:
        sides = self.sides(step.inputs[0])
        starts, ends = self.sizes.of(step.read(1)), self.sizes.of(step.read(2))
        if sides is None or starts is None or ends is None:
            return [None]
        axes = self.sizes.whole(step.read(3)) or tuple(range(len(starts)))
        steps = self.sizes.whole(step.read(4)) or (1,) * len(starts)
        found = list(sides)
        for axis, start, end, stride in zip(axes, starts, ends, steps, strict=True):
            found[axis] = self._cut(step, axis, sides[axis], (start, end, stride))
        return [tuple(found)]

    def _cut(
        self, step: Step, axis: int, side: Side, cut: tuple[Side | None, Side | None, int]
    ) -> Side:
        start, end, stride = cut
        if start == 0 and stride == 1 and (end == side or (isinstance(end, int) and end >= _END)):
            return side
        if start == 0 and stride == 1 and isinstance(end, str):
            return end
        if isinstance(side, int) and isinstance(start, int) and isinstance(end, int):
            return len(range(side)[start : min(end, side) : stride])
        return self._unknown(step, axis)

    def _split(self, step: Step) -> Sequence[Sides | None]:
        sides = self.sides(step.inputs[0])
        if sides is None:
            return [None]
        axis = step.attributes.get("axis", 0) % len(sides)
        whole, count = sides[axis], len(step.outputs)
        sizes = self.sizes.whole(step.read(1)) or step.attributes.get("split")
        if sizes is None and isinstance(whole, int):
            part = -(-whole // count)
            sizes = (*(part,) * (count - 1), whole - part * (count - 1))
        return [(*sides[:axis], size, *sides[axis + 1 :]) for size in sizes or ()]

    def _concat(self, step: Step) -> Sequence[Sides | None]:
        parts = [self.sides(name) for name in step.inputs]
        if any(part is None for part in parts):
            return [None]
        known = [part for part in parts if part is not None]
        axis = step.attributes["axis"] % len(known[0])
        along = [part[axis] for part in known]
        numbers = [side for side in along if isinstance(side, int)]
        joined = sum(numbers) if len(numbers) == len(along) else self._unknown(step, axis)
        return [(*known[0][:axis], joined, *known[0][axis + 1 :])]

    def _expand(self, step: Step) -> Sequence[Sides | None]:
        target, before = self.sizes.of(step.read(1)), self.sides(step.inputs[0])
        if target is None or before is None:
            return [None]
        filled = tuple(
            self._unknown(step, place) if side is None else side
            for place, side in enumerate(target)
        )
        return [together([before, filled])]

    def _gather(self, step: Step) -> Sequence[Sides | None]:
        sides, ids = self.sides(step.inputs[0]), self.sides(step.inputs[1])
        if sides is None or ids is None:
            return [None]
        axis = step.attributes.get("axis", 0) % len(sides)
        return [(*sides[:axis], *ids, *sides[axis + 1 :])]

    def _matmul(self, step: Step) -> Sequence[Sides | None]:
        left, right = (self.sides(name) for name in step.inputs[:2])
        if left is None or right is None or min(len(left), len(right)) < 2:  # noqa: PLR2004
            return [None]
        lead = together([left[:-2], right[:-2]])
        return [None if lead is None else (*lead, left[-2], right[-1])]

    def _axes(self, step: Step, rank: int) -> set[int]:
        axes = self.sizes.whole(step.read(1)) or step.attributes.get("axes")
        return {axis % rank for axis in (range(rank) if axes is None else axes)}

    def _unsqueeze(self, step: Step) -> Sequence[Sides | None]:
        sides = list(self.sides(step.inputs[0]) or ())
        if self.sides(step.inputs[0]) is None:
            return [None]
        axes = self.sizes.whole(step.read(1)) or step.attributes.get("axes") or ()
        rank = len(sides) + len(axes)
        for axis in sorted(axis % rank for axis in axes):
            sides.insert(axis, 1)
        return [tuple(sides)]

    def _squeeze(self, step: Step) -> Sequence[Sides | None]:
        sides = self.sides(step.inputs[0])
        if sides is None:
            return [None]
        axes = self._axes(step, len(sides))
        return [tuple(s for a, s in enumerate(sides) if a not in axes or s != 1)]

    def _reduce(self, step: Step) -> Sequence[Sides | None]:
        sides = self.sides(step.inputs[0])
        if sides is None:
            return [None]
        axes = self._axes(step, len(sides))
        if step.attributes.get("keepdims", 1):
            return [tuple(1 if a in axes else s for a, s in enumerate(sides))]
        return [tuple(s for a, s in enumerate(sides) if a not in axes)]

    def _broadcast(self, step: Step) -> Sequence[Sides | None]:
        parts = [self.sides(name) for name in step.inputs if name]
        known = [part for part in parts if part is not None]
        return [together(known) if len(known) == len(parts) else None]
