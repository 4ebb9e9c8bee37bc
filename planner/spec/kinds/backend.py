"""Inference engines."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.dtypes import DType
from planner.spec.kinds.base import CatalogSpec, Conditions, Expression, Name, Pattern, Scalar, Spec
from planner.spec.kinds.capture import CaptureSpec, KernelName
from planner.spec.kinds.choices import Choice
from planner.spec.kinds.host import HostSpec
from planner.spec.kinds.loops import LoopRule
from planner.spec.kinds.reserve import ReserveSpec
from planner.spec.kinds.serving import ServingSpec
from planner.spec.quantity import Bytes, Seconds


class FlagSpec(Spec):
    """A flag of the engine that changes a plan."""

    type: Literal["bool", "int", "float", "str"]
    about: str
    default: tuple[Choice, ...] = Field(min_length=1)
    choices: tuple[Scalar, ...] = Field(
        (), description="Values it may take; the `flags` rule set tries them where `tunable`"
    )
    tunable: bool = Field(False, description="Whether the `flags` rule set may turn it")
    spelling: str | None = Field(None, description="How the engine's command line writes it")
    when: Conditions = Field(
        default_factory=dict, description="Versions that have it; others refuse it when it is asked"
    )


class SlotSpec(Spec):
    """One node of a fusion pattern, tied to an earlier slot."""

    slot: Name
    op: str | tuple[str, ...]
    id: str | tuple[str, ...] | None = Field(
        None, description="Names of nodes that qualify; `*` matches any run of characters"
    )
    reads: str | None = Field(None, description="An earlier slot whose output this one reads")
    feeds: str | None = Field(None, description="An earlier slot that reads this one's output")
    beside: str | None = Field(None, description="An earlier slot with which it shares an input")
    optional: bool = False


class Limit(Spec):
    """How large a fused tensor may be, under conditions; beyond it the engine runs unfused."""

    when: Conditions = Field(default_factory=dict)
    slot: Name = Field(description="The slot whose output is measured")
    max_bytes: Bytes
    source: str | None = None


class OpPatterns(Spec):
    """How the name of a generated kernel shows an operator that it holds."""

    op: str | tuple[str, ...]
    profile_patterns: tuple[Pattern, ...] = Field(
        min_length=1, description="Regular expressions that find it in a trace"
    )


class FusionRule(Spec):
    """A fused kernel the engine has, and when it runs."""

    name: Name
    engine_name: str = Field(description="The engine's class or op for it")
    profile_patterns: tuple[Pattern, ...] = Field(
        (), description="Regular expressions that find it in a trace"
    )
    by_op: tuple[OpPatterns, ...] = Field(
        (),
        description="In place of `profile_patterns`, for a group that holds one of these operators;"
        " the first that fits is taken",
    )
    pattern: tuple[SlotSpec, ...] = Field((), description="Nodes that become one kernel")
    classes: tuple[str, ...] = Field(
        (),
        description="Instead of a pattern: any connected group of operators of these classes",
    )
    max_nodes: int = Field(
        8,
        ge=2,
        le=16,
        description="Largest group by classes; with `loops` as many results that are stored",
    )
    excludes: tuple[str, ...] = Field(
        (),
        description="Operators that join no group by classes; `*` matches any run of characters",
    )
    loops: LoopRule | None = Field(
        None, description="How a compiler joins loops; a pattern with it fits sums left to calls"
    )
    extra_launches: int = Field(0, ge=0, description="Launches beyond the first")
    kernel: str | None = Field(
        None,
        description="Which kernel of the attention models it is, as in `fa3`; of an all-reduce,"
        " the engine whose own it is, as in `tensorrt-llm`",
    )
    decode_kernel: str | None = Field(
        None, description="Which one decodes, where another one does than fills"
    )
    query_tile: int | None = Field(
        None, description="Rows of Q a tile covers (attention): KV is re-read once per tile row"
    )
    when: Conditions = Field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    order: int | None = Field(
        None,
        ge=1,
        description="When the engine's pass of it runs: nodes that an earlier pass fuses are gone"
        " for later ones, and for rules without a number, which come last",
    )
    source: str
    about: str | None = None


class FormatRule(Spec):
    """Which kernel multiplies weights of a format, and in which format. The first that holds."""

    when: Conditions = Field(
        default_factory=dict,
        description="`weights` and `matmul` are the module's, as asked for; `kv_cache` the cache's",
    )
    op: str | tuple[str, ...] = Field(
        ("linear", "conv2d"),
        description="Operators; `*` matches any run of characters. `kv_cache_write` is the cache",
    )
    kernel: str | None = Field(None, description="The engine's kernel, as in `Marlin`")
    matmul: DType | None = Field(
        None, description="What matrix units multiply; `bf16` stands for the model's own 16 bit"
    )
    kept: DType | Literal["int8_head"] | None = Field(
        None,
        description="Format the engine keeps weights (or the cache) in, where not the one asked"
        " for; `int8_head`: INT8 with an FP32 scale for each token and head",
    )
    matrix_share: float = Field(
        1.0, gt=0, le=1, description="Most of the matrix peak that the kernel's instructions reach"
    )
    call: Seconds = Field(
        0.0,
        ge=0,
        description="Host time of a call outside CUDA Graphs, its launch included, where that is"
        " more than `host.launch`: kernels that are chosen anew at each call",
    )
    pad_hidden: int = Field(
        1, ge=1, description="What the hidden size of routed experts is padded to multiples of"
    )
    pad_width: int = Field(1, ge=1, description="The same of an expert's own width, on each rank")
    refuse: str | None = Field(None, description="Why the engine does not run it")
    source: str
    note: str | None = None


class ContextRule(Spec):
    """A kind of attention whose contexts the engine spreads over ranks."""

    ranks: Literal["tensor", "own"] = Field(
        "tensor",
        description="`tensor`: tensor ranks share the cache (`parallel.context`); `own`: ranks of"
        " their own share the tokens of prompts (`parallel.prefill_context`)",
    )
    attention: Literal["grouped", "latent"] = Field(
        description="`grouped`: keys and values of KV heads; `latent`: one latent for all heads"
    )
    since: str = Field(description="The first version that does it")
    queries: Literal["gather", "repeat"] = Field(
        "gather",
        description="How a tensor rank comes by the queries of all heads of its group: `gather`"
        " from the others, or `repeat`: each computes them all (Helix)",
    )
    when: Conditions = Field(default_factory=dict)
    source: str
    note: str | None = None


class RefusalRule(Spec):
    """What the engine does not start with, whatever the GPU holds. All that hold are told."""

    at: str = Field(description="What asks for it in a deployment: `speculation`")
    when: Conditions
    refuse: str = Field(description="The engine's reason")
    hint: str | None = Field(None, description="What to ask for instead")
    source: str


class SequenceRule(Spec):
    """When tensor ranks share the rows of norms and residual adds (sequence parallelism)."""

    when: Conditions = Field(default_factory=dict)
    min_hidden: int = Field(1, ge=1, description="Narrowest model for which the engine does it")
    min_bytes: Bytes | None = Field(
        None, description="Least hidden states of a step, over the ranks; in place of `min_tokens`"
    )
    min_tokens: Expression = Field("1", description="Least tokens of a step, over flags")
    source: str
    note: str | None = None


class BackendSpec(CatalogSpec):
    """An inference engine: flags, fused kernels, graph capture, fixed costs, memory."""

    kind: Literal["backend"] = "backend"
    versions: tuple[str, ...] = Field(min_length=1, description="Versions described, oldest first")
    flags: dict[str, FlagSpec] = Field(default_factory=dict)
    fusions: tuple[FusionRule, ...] = ()
    kernels: tuple[KernelName, ...] = ()
    formats: tuple[FormatRule, ...] = Field(
        (), description="How quantised modules run; without a rule that holds as they are asked for"
    )
    exchange: tuple[Choice, ...] = Field(
        (),
        description="How tokens of several data replicas reach their experts: `gather` (all ranks"
        " see all tokens, the default) or `all_to_all`",
    )
    context: tuple[ContextRule, ...] = Field(
        (), description="Context parallelism, by kind of attention; without rules there is none"
    )
    encoder: tuple[Choice, ...] = Field(
        (),
        description="Whether it holds the tower of a model that generates text. `false`: if not,"
        " `note` says why; without a rule that holds it does",
    )
    refusals: tuple[RefusalRule, ...] = Field((), description="Deployments that it refuses")
    sequence: tuple[SequenceRule, ...] = Field(
        (), description="Sequence parallelism, where the first rule whose `when` holds allows it"
    )
    capture: CaptureSpec
    host: HostSpec
    memory: ReserveSpec
    serving: ServingSpec | None = Field(
        None, description="How it serves many requests; without it the engine has no scheduler"
    )
