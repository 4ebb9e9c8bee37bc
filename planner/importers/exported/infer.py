"""Sides of tensors that the export leaves open, from those of what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.importers.exported.sizes import SizeReader
from planner.importers.exported.types import Export, Side, Sides, Step, Value

_BROADCAST = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Max",
        "Min",
        "Where",
        "And",
        "Or",
        "Xor",
        "Equal",
        "Greater",
        "Less",
        "GreaterOrEqual",
        "LessOrEqual",
        "Mod",
        "PRelu",
        "Sum",
        "Mean",
    ]
)
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
            **dict.fromkeys(_BROADCAST, self._broadcast),
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
        rule = self.rules.get(step.op, self._same)
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
            sides[open_places[0]] = _quotient(before, [s for s in rest if s is not None])
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
        return [_together([before, filled])]

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
        lead = _together([left[:-2], right[:-2]])
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
        return [_together(known) if len(known) == len(parts) else None]


def _together(parts: list[Sides]) -> Sides | None:
    """NumPy's rule; of a named side and one not known the named one."""
    longest = max(map(len, parts))
    padded = [(1,) * (longest - len(part)) + part for part in parts]
    found: list[Side] = []
    for sides in zip(*padded, strict=True):
        wide = sorted({side for side in sides if side != 1}, key=lambda s: str(s).startswith("?"))
        named = [side for side in wide if not str(side).startswith("?")]
        if len(named) > 1:
            return None
        found.append(wide[0] if wide else 1)
    return tuple(found)


def _quotient(before: Sides, rest: Sequence[Side]) -> Side | None:
    """What is left of a product of sides when others are divided out; None where it does not."""
    names = [side for side in before if isinstance(side, str)]
    top = bottom = 1
    for side in before:
        top *= side if isinstance(side, int) else 1
    for side in rest:
        if isinstance(side, int):
            bottom *= side
        elif side in names:
            names.remove(side)
        else:
            return None
    if top % bottom or len(names) > 1 or (names and top != bottom):
        return None
    return names[0] if names else top // bottom
