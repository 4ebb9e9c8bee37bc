"""How engines capture CUDA Graphs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.spec.kinds.base import Conditions, Expression, Pattern, Spec
from planner.spec.kinds.choices import BytesChoice, Choice, ListSpelling, TimeChoice


class KernelName(Spec):
    """The engine's name for an operator that runs on its own."""

    op: str | tuple[str, ...]
    id: str | tuple[str, ...] | None = None
    when: Conditions = Field(default_factory=dict)
    engine_name: str
    profile_patterns: tuple[Pattern, ...] = ()
    launches: int = Field(1, ge=0, description="0 for a view that runs no kernel")
    kernel: str | None = Field(
        None,
        description="Which kernel of the models of routed experts it is, as in `triton`; "
        "of all-reduces, as in `cross_device`",
    )


class CaptureMode(Spec):
    """Which CUDA Graph mode runs under which conditions."""

    when: Conditions = Field(default_factory=dict)
    mode: Literal["none", "piecewise", "full"]
    source: str | None = None
    note: str | None = None


class SizeRange(Spec):
    """Capture sizes first, first+step, … up to last (at most `cap`), both ends in."""

    first: Expression = Field(description="Over flags, and `cap`")
    last: Expression = Field(description="Over flags, and `cap`")
    step: int = Field(ge=1)


class CaptureSizes(Spec):
    """The engine's own rule for the batch sizes it captures."""

    when: Conditions = Field(default_factory=dict)
    cap: Expression = Field(description="Largest size, over flags: `min(max_num_seqs * 2, 512)`")
    sizes: tuple[int, ...] = ()
    ranges: tuple[SizeRange, ...] = ()
    powers_of_two_from: int | None = Field(
        None, ge=1, description="Every power of two from here up to `cap`"
    )
    extra: tuple[Expression, ...] = Field(
        (), description="Further sizes over flags, and `cap`; those above `cap` are left out"
    )
    full_cap: Expression | None = Field(
        None, description="Largest size with a full graph, where it differs"
    )
    per_sequence: bool = Field(
        False,
        description="Sizes count sequences, not tokens: they differ where drafts are verified",
    )
    source: str | None = None


class CaptureSpec(Spec):
    """How the engine captures CUDA Graphs."""

    modes: tuple[CaptureMode, ...] = Field(min_length=1)
    available: tuple[CaptureMode, ...] = Field(
        (), description="Modes the engine can run at all, beside those its flags select"
    )
    splits: tuple[KernelName, ...] = Field((), description="Operators that split a piecewise graph")
    outside: tuple[str, ...] = Field((), description="Names of nodes that no graph holds")
    sizes: tuple[CaptureSizes, ...] = Field(
        (), description="The first whose conditions hold; without any, each size met is captured"
    )
    rounds: tuple[Choice, ...] = Field(
        (),
        description="Whether sizes are rounded up to whole sequences where drafts are verified",
    )
    pads: tuple[Choice, ...] = Field((), description="Whether a batch is padded to a captured size")
    graph_time: tuple[TimeChoice, ...] = Field((), description="Time to capture one graph")
    graph_memory: tuple[BytesChoice, ...] = Field((), description="GPU memory of one graph")
    spelling: tuple[ListSpelling, ...] = Field((), description="How captured sizes are chosen")
