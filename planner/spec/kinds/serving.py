"""How an engine serves many requests: what shares a step, and what the host spends on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field

from planner.spec.kinds.base import Spec
from planner.spec.kinds.choices import Choice, TimeChoice

Choices = tuple[Choice, ...]


def _among(*words: str) -> Callable[[Choices], Choices]:
    """A check that every choice is one of some words."""

    def check(choices: Choices) -> Choices:
        for choice in choices:
            if choice.value not in words:
                raise ValueError(f"expected one of {', '.join(words)}; got {choice.value!r}")
        return choices

    return check


def _switches(choices: Choices) -> Choices:
    for choice in choices:
        if not isinstance(choice.value, bool):
            raise ValueError(f"expected true or false; got {choice.value!r}")  # noqa: TRY004
    return choices


Order = Annotated[Choices, AfterValidator(_among("prefill_first", "decode_first"))]
Counts = Annotated[Choices, AfterValidator(_among("all", "prompts"))]
Admission = Annotated[Choices, AfterValidator(_among("prompt", "estimate", "whole"))]
Preemption = Annotated[Choices, AfterValidator(_among("recompute", "swap", "none"))]
Switches = Annotated[Choices, AfterValidator(_switches)]


class ServingHost(Spec):
    """Host time beside launches; where scheduling is asynchronous, the loop runs beside the GPU."""

    step: tuple[TimeChoice, ...] = Field(
        min_length=1, description="The engine's loop, once per step: schedule, inputs, outputs"
    )
    sequence: tuple[TimeChoice, ...] = Field(
        min_length=1, description="The engine's loop, for each sequence that runs in the step"
    )
    prompt: tuple[TimeChoice, ...] = Field(
        min_length=1, description="The engine's loop, for each prompt or chunk in the step"
    )
    exposed: tuple[TimeChoice, ...] = Field(
        min_length=1, description="What of a step's host time no asynchronous scheduling hides"
    )
    serial: Choices = Field(
        (),
        description="Share of the loop that waits for the last step's tokens, so that the GPU waits"
        " for it, on top of `exposed`; by default none",
    )
    output: tuple[TimeChoice, ...] = Field(
        min_length=1,
        description="The front end, for each token it hands out: text, and a chunk of the stream",
    )
    request: tuple[TimeChoice, ...] = Field(
        min_length=1,
        description="The front end, for each request until the scheduler sees it, and back again"
        " with the first token: the least TTFT beside its steps",
    )
    prompt_token: tuple[TimeChoice, ...] = Field(
        min_length=1, description="The front end, for each token of a prompt that it makes of text"
    )


class ServingSpec(Spec):
    """How the scheduler forms a step. Conditions see the version asked for.

    Expressions count with the engine's whole-number flags, `longest`, the longest sequence, and
    `pool_tokens`, the KV tokens that fit.
    """

    order: Order = Field(
        min_length=1,
        description="Who comes first: `prefill_first`, waiting prompts before running sequences, or"
        " `decode_first`, running sequences before waiting prompts",
    )
    mixed: Switches = Field(
        min_length=1, description="Whether prompts and running sequences share a step"
    )
    chunked: Switches = Field(
        min_length=1, description="Whether a prompt may be cut to fit the tokens of a step"
    )
    tokens: Choices = Field(min_length=1, description="Most tokens in one step")
    counts: Counts = Field(
        min_length=1, description="What `tokens` counts: `all` new tokens, or those of `prompts`"
    )
    sequences: Choices = Field(min_length=1, description="Most sequences in one step")
    prefix_cache: Switches = Field(
        min_length=1, description="Whether KV of finished requests serves those with the same start"
    )
    admission: Admission = Field(
        min_length=1,
        description="KV that must be free for a request to start: `prompt`, its prompt's;"
        " `estimate`, a share of its output beside; `whole`, all that it can come to need",
    )
    preemption: Preemption = Field(
        min_length=1,
        description="What happens to a sequence when KV runs out: `recompute`, `swap` or `none`",
    )
    asynchronous: Switches = Field(
        min_length=1, description="Whether the host prepares a step while the GPU runs another"
    )
    poll_steps: Choices = Field(
        min_length=1, description="Decode steps between two looks at what has arrived"
    )
    hold_steps: Choices = Field(
        default=(),
        description="Decode steps at most that new prompts wait for others to come, 0 for none;"
        " by default none",
    )
    hold_share: Choices = Field(
        default=(),
        description="Share of `tokens` with which they wait no longer, a number or a flag's name",
    )
    decode_steps: Choices = Field(
        min_length=1, description="Decode steps that are run for each time the scheduler is asked"
    )
    host: ServingHost
