"""Table look-ups and the ends of a language model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from planner.dtypes import bytes_per_element
from planner.num import Number
from planner.ops.registry import operator
from planner.ops.types import (
    Dim,
    Formats,
    OpClass,
    Operator,
    Parameters,
    Shape,
    Site,
    Tensor,
    Work,
    as_dim,
)


@operator("embedding")
@dataclass(frozen=True)
class Embedding(Operator):
    """Row look-up: [n] ids -> [n, features]. Reads only the rows it needs.

    Equal ids in one step are charged once each: an upper bound of what HBM sees.
    """

    rows: int
    features: int
    shard: bool = True
    """Cut over the vocabulary under tensor parallelism, with an all-reduce after."""

    op_class: ClassVar[OpClass] = OpClass.GATHER
    about: ClassVar[str] = "table look-up by id"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((*inputs[0], as_dim(self.features)),)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        del inputs
        return (Parameters(self.rows * self.features, formats.activations),)

    def work(self, site: Site) -> Work:
        rows = site.load.elements(site.inputs[0].shape)
        width = bytes_per_element(site.parameters[0].dtype)
        return Work(weight_bytes=rows * self.features * width)

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        if not self.shard:
            return self, None
        return replace(self, rows=-(-self.rows // ranks)), "all_reduce"


@operator("select_last")
@dataclass(frozen=True)
class SelectLast(Operator):
    """Keeps the last token of each sequence: [tokens, n] -> [sequences, n].

    Its input edge is charged for the rows it keeps, not for all tokens.
    """

    op_class: ClassVar[OpClass] = OpClass.GATHER
    about: ClassVar[str] = "last token of each sequence, ahead of the LM head"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((Dim(symbols=("sequences",)), *inputs[0][1:]),)

    def work(self, site: Site) -> Work:
        del site
        return Work()

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        return (site.outputs[0].bytes(site.load),)


@operator("sampling")
@dataclass(frozen=True)
class Sampling(Operator):
    """Greedy choice over the logits: [sequences, vocab] -> [sequences] ids, one pass.

    Top-k, top-p and penalties take further passes; engines differ and they are left out.
    """

    op_class: ClassVar[OpClass] = OpClass.ROW_REDUCTION
    about: ClassVar[str] = "next token from the logits (greedy)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return (inputs[0][:-1],)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=site.elements())

    def output_dtype(self, inputs: tuple[Tensor, ...], formats: Formats) -> str:
        del inputs, formats
        return "fp32"  # ids are 32-bit integers; only their width matters
