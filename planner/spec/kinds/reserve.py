"""How an engine counts memory."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.spec.kinds.base import Expression, Name, Spec
from planner.spec.kinds.choices import BytesChoice, Choice


class Lever(Spec):
    """A flag that frees memory when turned."""

    flag: Name = Field(description="A flag of the engine")
    to: bool | Expression = Field(description="Its value, over flags: `max_num_seqs / 2`")


class StatesSpec(Spec):
    """Places for the states of sequences, set aside at start-up beside the KV cache.

    Only recurrent states count. Expressions count with flags, numbers with a point too, `verified`,
    `state_bytes`, the states of one sequence on a rank, and `rest_bytes`, what is left for states
    and KV cache together.
    """

    format: tuple[Choice, ...] = Field(
        (), description="What states are kept in; by default what the model's blocks say"
    )
    each: tuple[Choice, ...] = Field(
        min_length=1, description="Places that a running sequence takes"
    )
    slots: tuple[Choice, ...] = Field(
        min_length=1, description="Places in all, over `each` too, rounded down"
    )
    drafted: tuple[Choice, ...] = Field(
        (),
        description="States held beside, behind drafts not yet accepted, over `slots` and `each`"
        " too; by default none",
    )


class ReserveSpec(Spec):
    """Memory that is neither weights nor KV cache, and how the cache is cut.

    Conditions see the version asked for, even where the nearest described one stands in for it.
    """

    budget: Literal["whole", "static", "free"] = Field(
        "whole",
        description="What shares `utilization` of visible memory: `whole`, everything the engine"
        " holds; `static`, weights and KV cache alone, the rest lying outside; `free`, the KV"
        " cache, which gets that share of what weights, activations and runtime leave",
    )
    utilization: tuple[Choice, ...] = Field(
        min_length=1,
        description="Share of visible (or free) memory the engine may take, over"
        " flags, `tensor` and `memory_mib`; rounded down to a thousandth where computed",
    )
    context: tuple[BytesChoice, ...] = Field(
        (), description="CUDA context, held before the engine starts counting"
    )
    runtime: tuple[BytesChoice, ...] = Field(min_length=1, description="NCCL, libraries, buffers")
    workspace: tuple[BytesChoice, ...] = Field(
        (), description="Workspaces that the dummy step allocates beside its tensors"
    )
    graphs: tuple[BytesChoice, ...] = Field(min_length=1, description="Captured CUDA Graphs")
    graphs_inside: tuple[Choice, ...] = Field(
        min_length=1, description="Whether graph memory counts against the budget"
    )
    profile_tokens: tuple[Choice, ...] = Field(
        min_length=1, description="Tokens of the dummy step that sizes activations, over flags"
    )
    profile_sequences: tuple[Choice, ...] = Field(
        min_length=1, description="Sequences of its sampler run, over flags"
    )
    held: tuple[Choice, ...] = Field(
        (), description="Copies of a layer's input that callers hold while its widest operator runs"
    )
    sampler: tuple[Choice, ...] = Field(
        (),
        description="Bytes per logit that the sampler run holds beside the model's logits; 4, a"
        " copy in FP32, without any",
    )
    expert_buffers: tuple[Choice, ...] = Field(
        (),
        description="Buffers between the grouped GEMMs of routed experts in the dummy step:"
        " `separate`, outputs of the first, and what the second reads and writes; `shared`, outputs"
        " of both in one and inputs of the second in another; `kept`, as separate and never freed;"
        " `none` by default",
    )
    longest: Name | None = Field(
        None, description="The flag that holds the longest sequence; by default the model's context"
    )
    kv_block: int = Field(16, ge=1, description="Tokens per KV block")
    kv_blocks: tuple[Choice, ...] = Field(
        (), description="Tokens per KV block under conditions, over flags, ahead of `kv_block`"
    )
    pools: tuple[Choice, ...] = Field(
        (),
        description="How layers with and without windows share blocks: `full` keeps every token in"
        " every layer, `groups` lets layers of one kind share block tables, `layers` (the default)"
        " gives each layer what it needs",
    )
    printed: tuple[Choice, ...] = Field(
        (),
        description="What start-up prints as tokens: `blocks` (the default) or `concurrency`, the"
        " sequences of full length times that length",
    )
    warms_sampler: tuple[Choice, ...] = Field(
        (), description="Whether start-up samples a full batch once graphs are captured"
    )
    states: StatesSpec | None = Field(
        None,
        description="Places set aside for states of sequences; without, states and KV cache share"
        " what is left",
    )
    levers: tuple[Lever, ...] = Field((), description="Flags to turn for more KV cache")
