"""Several tensors as one: a copy side by side, or rows of two phases that lie in one buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planner.ops.registry import operator
from planner.ops.types import Dim, OpClass, Operator, Shape, Site, Work, as_dim, show_shape


@operator("concat")
@dataclass(frozen=True)
class Concat(Operator):
    """[.., a] and [.., b] -> [.., a + b]: a copy."""

    op_class: ClassVar[OpClass] = OpClass.POINTWISE
    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "two tensors side by side"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        left, right = inputs
        if left[:-1] != right[:-1]:
            raise ValueError(f"rows differ: {show_shape(left)} and {show_shape(right)}")
        return ((*left[:-1], left[-1] + as_dim(right[-1])),)

    def work(self, site: Site) -> Work:
        del site
        return Work()


@operator("join_phases")
@dataclass(frozen=True)
class JoinPhases(Operator):
    """What prompts and decoding sequences wrote, as one tensor of all tokens: a view.

    Engines order a batch so and let both kernels write into one buffer.
    """

    op_class: ClassVar[OpClass] = OpClass.VIEW
    arity: ClassVar[tuple[int, int]] = (1, 2)
    about: ClassVar[str] = "rows of both phases as one tensor (a view)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if len({shape[1:] for shape in inputs}) > 1:
            raise ValueError(f"rows differ: {' and '.join(map(show_shape, inputs))}")
        return ((Dim(symbols=("tokens",)), *inputs[0][1:]),)

    def work(self, site: Site) -> Work:
        del site
        return Work()
