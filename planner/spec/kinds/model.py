"""Models and the blocks they repeat."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from planner.dtypes import DType
from planner.spec.kinds.base import CatalogSpec, Expression, Scalar, Spec
from planner.spec.kinds.precision import Quantization


class NodeSpec(Spec):
    """One operator of a block. Further fields are the operator's own attributes."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    op: str = Field(description="The operator, as in `linear`; `planner catalog list ops`")
    inputs: str | tuple[str, ...] = Field(
        alias="in", description="Tensors read: block inputs or other nodes' outputs"
    )
    outputs: str | tuple[str, ...] | None = Field(
        None, alias="out", description="Names of the tensors written; by default the node's name"
    )


class BlockSpec(CatalogSpec):
    """A graph of operators that a model repeats."""

    kind: Literal["block"] = "block"
    title: str = ""
    inputs: dict[str, tuple[Expression, ...]] = Field(
        description="Tensors that come in, with their shapes, as in `x: [tokens, hidden]`"
    )
    nodes: dict[str, NodeSpec] = Field(min_length=1)
    outputs: tuple[str, ...] = Field(
        min_length=1, description="Tensors handed to the next block, in its inputs' order"
    )
    options: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Names that nodes may use as attributes, with their defaults",
    )
    shapes: dict[str, tuple[Expression, ...]] = Field(
        default_factory=dict, description="Shapes to be checked against what the operators infer"
    )


class BlockUse(Spec):
    """A block in a model's sequence."""

    block: str = Field(description="A block of this file or of the catalogue")
    times: int = Field(1, ge=1, le=10_000)
    label: str | None = Field(None, description="Name in tables; by default the block's")
    given: dict[str, Scalar] = Field(
        default_factory=dict, alias="with", description="Dims and options of this use alone"
    )


class BlockCycle(Spec):
    """Several blocks repeated together, as in five local layers and one global."""

    repeat: int = Field(ge=1, le=10_000)
    blocks: tuple[BlockUse, ...] = Field(min_length=1)


def _use_or_cycle(value: object) -> str:
    keys = value if isinstance(value, dict) else getattr(type(value), "model_fields", {})
    return "cycle" if "repeat" in keys and "block" not in keys else "use"


SequenceItem = Annotated[
    Annotated[BlockUse, Tag("use")] | Annotated[BlockCycle, Tag("cycle")],
    Discriminator(_use_or_cycle),
]


class EncoderSpec(Spec):
    """A tower in front of a model: it runs in the step in which a prompt begins, and in no other.

    Its blocks see a load of their own: `tokens` are the rows of one item (patches of an image,
    frames of sound), `sequences` the items.
    """

    tokens: int = Field(gt=0, description="Rows of one item, unless `step.prefill` says otherwise")
    items: int = Field(0, ge=0, description="Items of each prompt, unless `step.prefill` says so")
    inputs: dict[str, tuple[Expression, ...]] = Field(description="What enters its first block")
    dims: dict[str, Expression] = Field(
        default_factory=dict, description="Dims of its own, ahead of the model's"
    )
    options: dict[str, Scalar] = Field(
        default_factory=dict, description="Options of its blocks, ahead of the model's"
    )
    sequence: tuple[SequenceItem, ...] = Field(
        min_length=1, description="Blocks in order, as a model's"
    )


class Published(Spec):
    """Figures the maker prints, to hold the graph against."""

    parameters: int = Field(gt=0)
    active_parameters: int | None = Field(None, gt=0)
    source: str


class ModelSpec(CatalogSpec):
    """A model: dims, and a sequence of blocks."""

    kind: Literal["model"] = "model"
    source: str = Field("", description="Where the dims were read")
    dims: dict[str, Expression] = Field(default_factory=dict)
    options: dict[str, Scalar] = Field(default_factory=dict)
    inputs: dict[str, tuple[Expression, ...]] = Field(
        default={"token_ids": ("tokens",)},
        description="What enters the first block; by default one id a token",
    )
    sequence: tuple[SequenceItem, ...] = Field(min_length=1)
    encoder: EncoderSpec | None = Field(
        None, description="What turns images or sound into tokens or into keys of cross-attention"
    )
    blocks: dict[str, BlockSpec] = Field(
        default_factory=dict, description="Blocks of this model alone"
    )
    max_context: int | None = Field(None, gt=0, description="Longest context it was trained for")
    weights: DType = Field(
        "bf16", description="Format of the checkpoint, where `quantization` leaves it"
    )
    quantization: Quantization | None = Field(
        None, description="How the checkpoint is quantised; a deployment plans it so by default"
    )
    published: Published | None = None

    @property
    def layer(self) -> str:
        """The block that most of its layers are of; the first where several are."""
        times: dict[str, int] = {}
        for item in self.sequence:
            uses, cycles = (
                (item.blocks, item.repeat) if isinstance(item, BlockCycle) else ((item,), 1)
            )
            for use in uses:
                times[use.block] = times.get(use.block, 0) + use.times * cycles
        return max(times, key=times.__getitem__)
