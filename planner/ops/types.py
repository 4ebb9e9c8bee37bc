"""The words of operators: dims, tensors, the load of a step, the work an operator does on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar

from planner.dtypes import bytes_per_element
from planner.num import Number, ceil_div, maximum, minimum


class OpClass(StrEnum):
    """What an operator is to a fusion: how its outputs depend on its inputs."""

    CONTRACTION = "contraction"
    POINTWISE = "pointwise"
    ROW_REDUCTION = "row_reduction"
    GATHER = "gather"
    CACHE = "cache"
    COLLECTIVE = "collective"
    VIEW = "view"
    OPAQUE = "opaque"


@dataclass(frozen=True)
class Pairs:
    """A load symbol: query-key pairs of attention scores, as a rectangle or within a window."""

    window: int | None = None

    def __str__(self) -> str:
        return "pairs" if self.window is None else f"pairs within {self.window}"


Symbol = str | Pairs


@dataclass(frozen=True)
class Dim:
    """One side of a tensor: a whole number times sizes that only the load knows.

    Supports the arithmetic of shape expressions as far as the result stays such a product.
    """

    coefficient: Fraction = Fraction(1)
    symbols: tuple[Symbol, ...] = ()

    def __str__(self) -> str:
        parts = [str(symbol) for symbol in self.symbols]
        if self.coefficient != 1 or not parts:
            parts.insert(0, str(self.coefficient))
        return "*".join(parts)

    def __mul__(self, other: Dim | Fraction | int) -> Dim:
        other = as_dim(other)
        symbols = tuple(sorted(self.symbols + other.symbols, key=str))
        return Dim(self.coefficient * other.coefficient, symbols)

    __rmul__ = __mul__

    def __truediv__(self, other: Fraction | int) -> Dim:
        if isinstance(other, Dim):
            raise ValueError(f"cannot divide by {other}, which only the load knows")
        return Dim(self.coefficient / other, self.symbols)

    def __add__(self, other: Dim | Fraction | int) -> Dim:
        other = as_dim(other)
        if self.symbols != other.symbols:
            raise ValueError(f"cannot add {self} and {other}: only like sizes add up")
        return Dim(self.coefficient + other.coefficient, self.symbols)

    __radd__ = __add__

    def __sub__(self, other: Dim | Fraction | int) -> Dim:
        return self + as_dim(other) * -1


def as_dim(value: Dim | Fraction | int) -> Dim:
    """A whole number or fraction as a dim without load symbols."""
    return value if isinstance(value, Dim) else Dim(Fraction(value))


Shape = tuple[Dim, ...]


def show_shape(shape: Shape) -> str:
    """``[tokens, 3584]``."""
    return "[" + ", ".join(str(dim) for dim in shape) + "]"


def static(dim: Dim) -> int:
    """The whole number a dim is; ValueError where it depends on the load."""
    if dim.symbols or dim.coefficient.denominator != 1:
        raise ValueError(f"{dim} is not a fixed whole number")
    return int(dim.coefficient)


@dataclass(frozen=True)
class SequenceGroup:
    """``count`` like sequences, each adding ``new_tokens`` and attending to ``kv_tokens``.

    ``kv_tokens`` includes the new tokens. All three may be NumPy arrays of one shape.
    """

    count: Number
    new_tokens: Number
    kv_tokens: Number

    def causal_pairs(self, window: int | None) -> Number:
        """Query-key pairs one sequence attends to: query i of n sees the prior keys and i of the new.

        Without a window n(k−n) + n(n+1)/2; with one, no query sees more than ``window`` keys.
        """
        n, prior = self.new_tokens, self.kv_tokens - self.new_tokens
        if window is None:
            return n * prior + n * (n + 1) / 2
        growing = minimum(maximum(window - prior, 0), n)
        return growing * prior + growing * (growing + 1) / 2 + (n - growing) * window

    def rectangle_pairs(self, window: int | None) -> Number:
        """Pairs an untiled kernel computes before the mask throws some away."""
        return self.new_tokens * self.keys_read(window)

    def tiled_pairs(self, window: int | None, tile: int) -> Number:
        """Pairs a tiled causal kernel computes: tiles crossed by the diagonal are computed whole.

        Each query is charged up to the last query of its tile of ``tile`` rows. With a window the
        lower diagonal crosses tiles too; its waste is bounded by the same amount and left out.
        """
        n = self.new_tokens
        full = n // tile
        rest = n - full * tile
        waste = full * tile * (tile - 1) / 2 + rest * (rest - 1) / 2
        return minimum(self.causal_pairs(window) + waste, n * self.kv_tokens)

    def keys_read(self, window: int | None) -> Number:
        """Distinct keys one sequence's queries touch."""
        if window is None:
            return self.kv_tokens
        return minimum(self.kv_tokens, window + self.new_tokens - 1)

    def query_tiles(self, tile: int) -> Number:
        """Tile rows that cover the new tokens of one sequence."""
        return ceil_div(self.new_tokens, tile)


@dataclass(frozen=True)
class Load:
    """What one step has to do: groups of like sequences, or bound dims of a graph that is no LLM."""

    groups: tuple[SequenceGroup, ...] = ()
    shapes: Mapping[str, Number] = field(default_factory=dict)
    padding_tokens: Number = 0
    """Rows that a captured graph computes for nothing; attention skips them."""

    @property
    def tokens(self) -> Number:
        """New tokens of the step, over all sequences, padding included."""
        return self.padding_tokens + sum(group.count * group.new_tokens for group in self.groups)

    @property
    def sequences(self) -> Number:
        """Sequences in the step, each of which samples one token."""
        return sum(group.count for group in self.groups)

    def size(self, symbol: Symbol) -> Number:
        """The value of a load symbol. Raises KeyError for one the load doesn't bind."""
        if isinstance(symbol, Pairs):
            return sum(g.count * g.rectangle_pairs(symbol.window) for g in self.groups)
        if symbol in self.shapes:
            return self.shapes[symbol]
        if self.groups and symbol in LOAD_SYMBOLS:
            return self.tokens if symbol == "tokens" else self.sequences
        raise KeyError(symbol)

    def dim(self, dim: Dim) -> Number:
        """The value of a dim under this load."""
        value: Number = dim.coefficient.numerator
        for symbol in dim.symbols:
            value = value * self.size(symbol)
        return value

    def elements(self, shape: Shape) -> Number:
        """Elements of a tensor of that shape."""
        count: Number = 1
        for dim in shape:
            count = count * self.dim(dim)
        return count


LOAD_SYMBOLS = ("tokens", "sequences")
"""Dims that the step of an LLM binds; a graph of another kind names its own in ``step.shapes``."""


@dataclass(frozen=True)
class Tensor:
    """A named value on an edge. A handle orders two nodes and moves no bytes (the KV cache)."""

    name: str
    shape: Shape
    dtype: str
    handle: bool = False

    def bytes(self, load: Load) -> Number:
        """Bytes it takes in HBM under a load."""
        if self.handle:
            return 0
        return load.elements(self.shape) * bytes_per_element(self.dtype)


@dataclass(frozen=True)
class Parameters:
    """Weights an operator owns: how many elements, and in which format they are kept."""

    elements: int
    dtype: str
    shared: bool = False
    """True where another operator owns the memory (a tied LM head): read, but counted once."""

    @property
    def bytes(self) -> float:
        """Bytes they take in HBM."""
        return self.elements * bytes_per_element(self.dtype)


@dataclass(frozen=True)
class Work:
    """What an operator does besides reading its input and writing its output tensors.

    Fields may be NumPy arrays; works add up.
    """

    matmul_flops: Number = 0
    vector_flops: Number = 0
    weight_bytes: Number = 0
    cache_read_bytes: Number = 0
    cache_write_bytes: Number = 0
    link_bytes: Number = 0
    """Bytes one rank sends over its link (and receives at the same time)."""

    @property
    def private_bytes(self) -> Number:
        """HBM bytes that no edge of the graph shows: weights and KV cache."""
        return self.weight_bytes + self.cache_read_bytes + self.cache_write_bytes


@dataclass(frozen=True)
class Formats:
    """Number formats of one model in one deployment."""

    weights: str
    matmul: str
    """What matrix units multiply; narrower than ``activations`` when GEMM inputs are quantised."""
    activations: str
    kv_cache: str


@dataclass(frozen=True)
class Tiling:
    """How a fused attention kernel walks its scores."""

    query_tile: int
    """Rows of Q per tile."""
    l2_bytes: float
    """Keys and values that fit in here are re-read from the L2, not from HBM."""


@dataclass(frozen=True)
class Site:
    """Everything a formula may look at: the tensors around the operator, the load, the formats."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    load: Load
    parameters: tuple[Parameters, ...]
    formats: Formats

    def rows(self) -> Number:
        """Rows of the first input: the product of all sides but the last."""
        return self.load.elements(self.inputs[0].shape[:-1])

    def elements(self) -> Number:
        """Elements of the first input."""
        return self.load.elements(self.inputs[0].shape)

    def weight_bytes(self) -> float:
        """Bytes of all parameters."""
        return sum(parameters.bytes for parameters in self.parameters)


@dataclass(frozen=True)
class Operator:
    """An operator family. Fields are the attributes users write; whole numbers come in resolved."""

    op_class: ClassVar[OpClass] = OpClass.OPAQUE
    arity: ClassVar[tuple[int, int]] = (1, 1)
    """Fewest and most input tensors."""
    about: ClassVar[str] = ""
    matrix: ClassVar[bool] = False
    """Whether its FLOPs run on matrix units."""

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Shapes of the outputs. Raises ValueError where the inputs don't fit."""
        return (inputs[0],)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        """Weights it owns."""
        del inputs, formats
        return ()

    def work(self, site: Site) -> Work:
        """FLOPs, private bytes and link bytes under the site's load."""
        raise TypeError(f"{type(self).__name__} has no work of its own: it is expanded into parts")

    def executed(self, site: Site, tiling: Tiling | None) -> Work:
        """The work a kernel really does, which masks and tiles can make more than the useful work."""
        del tiling
        return self.work(site)

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        """Bytes read of each input tensor."""
        return tuple(tensor.bytes(site.load) for tensor in site.inputs)

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        """This operator on one of ``ranks`` tensor-parallel ranks, and the collective to follow.

        Raises ValueError, in words for people, where it doesn't divide.
        """
        del ranks
        return self, None

    def handles(self) -> bool:
        """Whether its outputs are handles."""
        return False

    def output_dtype(self, inputs: tuple[Tensor, ...], formats: Formats) -> str:
        """Format of its outputs."""
        del inputs
        return formats.activations

    def matmul_format(self, formats: Formats) -> str:
        """What its matrix products multiply; inputs in another format are quantised first."""
        return formats.activations

    def parts(self) -> tuple[Part, ...]:
        """The operators a composite stands for; empty for one that stands for itself."""
        return ()


@dataclass(frozen=True)
class Part:
    """One operator of a composite. ``inputs`` are positions: of the composite's inputs (int), or a
    part's name.
    """

    name: str
    op: Operator
    inputs: tuple[int | str, ...]


def divide(count: int, ranks: int, what: str) -> int:
    """``count / ranks``; ValueError naming ``what`` where that is no whole number."""
    if count % ranks:
        raise ValueError(f"{count} {what} do not divide over {ranks} tensor-parallel ranks")
    return count // ranks
