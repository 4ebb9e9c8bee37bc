"""Operators of graphs that others exported: any elementwise step, any reduction, views and copies.

They say how much is computed and moved, not what. A shape that the inputs do not settle is written
out, as in ``shape: [tokens, 768]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from planner.num import Number, minimum
from planner.ops.registry import operator
from planner.ops.types import (
    Dim,
    Formats,
    OpClass,
    Operator,
    Parameters,
    Shape,
    Site,
    Work,
    as_dim,
    show_shape,
)

_MOST = 64
"""Tensors that one generic step may read."""


def broadcast(inputs: tuple[Shape, ...]) -> Shape:
    """The shape that tensors of these shapes come to together, by NumPy's rule.

    Raises ValueError where two sides differ and neither is 1.
    """
    longest = max(map(len, inputs))
    padded = [(as_dim(1),) * (longest - len(shape)) + shape for shape in inputs]
    return tuple(_side(sides, inputs) for sides in zip(*padded, strict=True))


def _side(sides: tuple[Dim, ...], inputs: tuple[Shape, ...]) -> Dim:
    wide = dict.fromkeys(side for side in sides if side != as_dim(1))
    if len(wide) > 1:
        shown = " and ".join(map(show_shape, inputs))
        raise ValueError(f"its inputs do not broadcast: {shown}")
    return next(iter(wide), as_dim(1))


def same_elements(left: Shape, right: Shape) -> bool | None:
    """Whether two shapes hold equally much; None where only the load knows."""
    products = []
    for shape in (left, right):
        product = as_dim(1)
        for side in shape:
            product = product * side
        products.append(product)
    if products[0].symbols != products[1].symbols:
        return None
    return products[0] == products[1]


@dataclass(frozen=True)
class _Generic(Operator):
    """A step known by its cost: ``flops`` an element, weights it owns, the shape it writes."""

    flops: int = field(default=1, metadata={"zero": True})
    """Vector FLOPs an element."""
    weights: int = field(default=0, metadata={"zero": True})
    """Elements of weights it owns and reads once."""
    tied: bool = False
    """Whether another operator owns the memory of the weights: read, but held once."""
    shape: Shape = ()
    """What it writes, where the inputs do not settle it."""

    arity: ClassVar[tuple[int, int]] = (1, _MOST)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        del inputs
        if not self.weights:
            return ()
        return (Parameters(self.weights, formats.activations, shared=self.tied),)


@operator("elementwise")
@dataclass(frozen=True)
class Elementwise(_Generic):
    """Each output element from the matching inputs: ``flops`` vector FLOPs an output element.

    Inputs broadcast by NumPy's rule. Weights may be operands: a bias, a table of positions.
    """

    op_class: ClassVar[OpClass] = OpClass.POINTWISE
    about: ClassVar[str] = "any step from element to element, with broadcasting and weights"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return (self.shape or broadcast(inputs),)

    def work(self, site: Site) -> Work:
        elements = site.load.elements(site.outputs[0].shape)
        return Work(vector_flops=self.flops * elements, weight_bytes=site.weight_bytes())


@operator("reduction")
@dataclass(frozen=True)
class Reduction(_Generic):
    """Sums, maxima or statistics over some sides: ``flops`` vector FLOPs an input element.

    With the input's own shape it is a norm over other sides than the last.
    """

    op_class: ClassVar[OpClass] = OpClass.ROW_REDUCTION
    about: ClassVar[str] = "any reduction, and norms over other sides than the last"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return (self.shape or inputs[0],)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=self.flops * site.elements(), weight_bytes=site.weight_bytes())


@operator("reshape")
@dataclass(frozen=True)
class Reshape(Operator):
    """The same elements under other sides: a view, which moves nothing."""

    shape: Shape

    op_class: ClassVar[OpClass] = OpClass.VIEW
    about: ClassVar[str] = "the same elements under other sides (a view)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if same_elements(inputs[0], self.shape) is False:
            raise ValueError(
                f"{show_shape(inputs[0])} and {show_shape(self.shape)} hold differently much"
            )
        return (self.shape,)

    def work(self, site: Site) -> Work:
        del site
        return Work()


@operator("columns")
@dataclass(frozen=True)
class Columns(Operator):
    """Some of the last side's features, [.., n] -> [.., features]: a view.

    Kernels read it with the stride of the whole, as attention reads packed Q, K and V.
    """

    features: int

    op_class: ClassVar[OpClass] = OpClass.VIEW
    about: ClassVar[str] = "some features of each row (a view)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        whole = inputs[0][-1]
        if not whole.symbols and whole.coefficient < Fraction(self.features):
            raise ValueError(f"{show_shape(inputs[0])} has fewer than {self.features} features")
        return ((*inputs[0][:-1], as_dim(self.features)),)

    def work(self, site: Site) -> Work:
        del site
        return Work()


@operator("copy")
@dataclass(frozen=True)
class Copy(_Generic):
    """Data movement: a transpose, a slice, a gather, padding, several tensors as one.

    Writes its output; of each input it reads no more than that.
    """

    flops: int = field(default=0, metadata={"zero": True})

    op_class: ClassVar[OpClass] = OpClass.GATHER
    about: ClassVar[str] = "data movement: transpose, slice, gather, pad, concatenate"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return (self.shape or inputs[0],)

    def work(self, site: Site) -> Work:
        return Work(weight_bytes=site.weight_bytes())

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        written = site.outputs[0].bytes(site.load)
        return tuple(minimum(tensor.bytes(site.load), written) for tensor in site.inputs)
