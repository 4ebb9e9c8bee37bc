"""The words of operators: dims, tensors, the load of a step, the work an operator does on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from planner import records
from planner.dtypes import bytes_per_element
from planner.num import Number
from planner.ops.dims import Dim, Pairs, Shape, Symbol, as_dim, show_shape, static
from planner.ops.layout import Exchange, ExpertLayout
from planner.ops.load import LOAD_SYMBOLS, Load, SequenceGroup

__all__ = [
    "LOAD_SYMBOLS",
    "Dim",
    "Exchange",
    "ExpertLayout",
    "Formats",
    "Load",
    "OpClass",
    "Operator",
    "Pairs",
    "Parameters",
    "Part",
    "SequenceGroup",
    "Shape",
    "Site",
    "Spread",
    "Symbol",
    "Tensor",
    "Tiling",
    "Work",
    "as_dim",
    "divide",
    "kv_heads_per_rank",
    "show_shape",
    "static",
]


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
class Tensor:
    """A named value on an edge. A handle orders two nodes and moves no bytes (the KV cache)."""

    name: str
    shape: Shape
    dtype: str
    handle: bool = False

    def bytes(self, load: Load) -> Number:
        """Bytes it takes in HBM under a load."""
        return 0 if self.handle else load.elements(self.shape) * bytes_per_element(self.dtype)


@dataclass(frozen=True)
class Parameters:
    """Weights an operator owns: how many elements, and in which format they are kept."""

    elements: int
    dtype: str
    shared: bool = False
    """True where another operator owns the memory (a tied LM head): read, but counted once."""
    padding: int = 0
    """Elements that an engine's layout adds: held and read, and no parameters."""

    @property
    def bytes(self) -> float:
        """Bytes they take in HBM."""
        return (self.elements + self.padding) * bytes_per_element(self.dtype)


@records.dataclass(frozen=True)
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
    scratch_bytes: Number = 0
    """Bytes that the kernels of one operator write and read to hand work on to each other."""

    @property
    def private_bytes(self) -> Number:
        """HBM bytes that no edge of the graph shows: weights, KV cache or state, scratch."""
        cache = self.cache_read_bytes + self.cache_write_bytes
        return self.weight_bytes + cache + self.scratch_bytes


@dataclass(frozen=True)
class Formats:
    """Number formats, the engine's kernel for them and the most it reaches of the matrix peak."""

    weights: str
    matmul: str
    """What matrix units multiply; narrower than ``activations`` when GEMM inputs are quantised."""
    activations: str
    kv_cache: str
    kernel: str = ""
    matrix_share: float = 1.0
    pads: tuple[int, int] = (1, 1)
    """What hidden size and width of a routed expert are padded to multiples of."""
    states: str = ""
    """What recurrent states are kept in; empty where operators say it themselves."""
    call_s: float = 0.0
    """Host time of a call of the kernel outside graphs; 0 where it is that of any launch."""
    scales: str = "token"
    """Of FP8 activations: one for a `tensor` or for each `token`."""


@dataclass(frozen=True)
class Tiling:
    """How a fused attention kernel walks its scores."""

    query_tile: int
    """Rows of Q per tile."""
    l2_bytes: float
    """Keys and values that fit in here are re-read from the L2, not from HBM."""


@records.dataclass(frozen=True)
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
    recurrent: ClassVar[bool] = False
    """Whether it keeps a state per sequence that tokens change."""
    quantizes: ClassVar[bool] = False
    """Whether its kernel narrows its own inputs, so that no node does it before."""
    one_kernel: ClassVar[bool] = True
    """Whether a fused kernel may stand for all parts of a composite."""
    share_of_weights: ClassVar[bool] = False
    """Whether it reads more of its weights the more tokens there are, as experts are touched."""

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Shapes of the outputs. Raises ValueError where the inputs don't fit."""
        return (inputs[0],)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        """Weights it owns."""
        del inputs, formats
        return ()

    def work(self, site: Site) -> Work:
        """FLOPs, private bytes and link bytes under the site's load."""
        del site
        raise TypeError(f"{type(self).__name__} has no work of its own: it is expanded into parts")

    def executed(self, site: Site, tiling: Tiling | None) -> Work:
        """The work a kernel really does: masks and tiles can make it more than the useful work."""
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

    def cached_bytes(self, inputs: tuple[Shape, ...], formats: Formats) -> float:
        """Bytes that one token leaves in a cache of this operator's own, on this rank."""
        del inputs, formats
        return 0.0

    def state_bytes(self, inputs: tuple[Shape, ...], formats: Formats) -> float:
        """Bytes each sequence keeps here whatever its length, from the step it begins in."""
        del inputs, formats
        return 0.0

    def spread(self, layout: ExpertLayout) -> Spread:
        """This operator on one rank of a layout, with what brings its inputs and takes its output.

        Raises ValueError, in words for people, where it doesn't divide.
        """
        op, collective = self.sharded(layout.tensor) if layout.tensor > 1 else (self, None)
        return Spread(op, collective=collective)

    def active(self, parameters: tuple[Parameters, ...]) -> float:
        """How many of its parameters one token meets."""
        return sum(p.elements for p in parameters if not p.shared)

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
class Spread:
    """An operator on one rank, and the operators around it that move tensors between ranks."""

    op: Operator | None
    """None where it does nothing itself: what the collective sums, or its output is its input."""
    before: Operator | None = None
    """From its inputs as this rank has them to those it computes on."""
    after: Operator | None = None
    """From its output back to this rank's rows."""
    collective: str | None = None
    """The tensor-parallel collective that ends it."""


@dataclass(frozen=True)
class Part:
    """One operator of a composite; it reads the composite's inputs by position, parts by name."""

    name: str
    op: Operator
    inputs: tuple[int | str, ...]
    kind: str | None = None
    """What the catalogue calls its operator; by default the composite's name and the part's."""


def divide(count: int, ranks: int, what: str) -> int:
    """``count / ranks``; ValueError naming ``what`` where that is no whole number."""
    if count % ranks:
        raise ValueError(f"{count} {what} do not divide over {ranks} tensor-parallel ranks")
    return count // ranks


def kv_heads_per_rank(kv_heads: int, ranks: int) -> int:
    """KV heads one tensor-parallel rank holds: at least one, replicated past their number.

    Raises ValueError where ranks and heads don't divide.
    """
    if kv_heads >= ranks:
        return divide(kv_heads, ranks, "KV heads")
    if ranks % kv_heads:
        raise ValueError(
            f"{kv_heads} KV heads cannot be replicated evenly over {ranks} tensor-parallel ranks"
        )
    return 1
