"""How an engine serves many requests at once, for one deployment at the version asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeVar, cast

from planner.cost.engine import Engine
from planner.errors import UsageError
from planner.spec.conditions import first
from planner.spec.expr import ExpressionError, whole
from planner.spec.types import Choice, Scalar, ServingSpec, TimeChoice

Order = Literal["prefill_first", "decode_first"]
Counts = Literal["all", "prompts"]
Admission = Literal["prompt", "estimate", "whole"]
Preemption = Literal["recompute", "swap", "none"]
Sources = tuple[tuple[str, str], ...]
ChoiceT = TypeVar("ChoiceT", Choice, TimeChoice)


@dataclass(frozen=True)
class Scheduler:
    """What an engine lets share a step."""

    order: Order
    """Who comes first: waiting prompts, or running sequences."""
    mixed: bool
    """Whether prompts and running sequences share a step."""
    chunked: bool
    """Whether a prompt may be cut to fit the tokens of a step."""
    tokens: int
    """Most tokens in one step."""
    counts: Counts
    """What `tokens` counts: all new tokens, or those of prompts."""
    sequences: int
    """Most sequences in one step, on one data replica."""
    prefix_cache: bool
    """Whether KV of finished requests serves those with the same start."""
    admission: Admission
    """KV that must be free for a request to start: its prompt's, or that of its output too."""
    preemption: Preemption
    """What happens to a sequence when KV runs out."""
    asynchronous: bool
    """Whether the host prepares a step while the GPU runs another."""
    decode_steps: int
    """Decode steps that are run for each time the scheduler is asked."""
    poll_steps: int = 1
    """Decode steps between two looks at what has arrived."""
    hold_steps: int = 0
    """Decode steps at most that new prompts wait for others to come."""
    hold_share: float = 0.0
    """Share of ``tokens`` in the step with which they wait no longer."""
    limit: Literal["sequences", "states"] = "sequences"
    """What sets ``sequences``: the engine's own limit, or places for states."""
    sources: Sources = ()
    """Where each of these was read, by its name."""

    @property
    def longest_prompt(self) -> int | None:
        """The longest prompt that may start at all; None where prompts are cut."""
        return None if self.chunked else self.tokens


@dataclass(frozen=True)
class HostCosts:
    """What the host of one engine spends beside launching kernels."""

    step_s: float
    """The engine's loop, once per step."""
    sequence_s: float
    """The engine's loop, for each sequence that runs in the step."""
    prompt_s: float
    """The engine's loop, for each prompt or chunk in the step."""
    exposed_s: float
    """What of a step's host time no asynchronous scheduling hides."""
    output_s: float
    """The front end, for each token it hands out."""
    request_s: float
    """The front end, for each request: the least TTFT beside its steps."""
    prompt_token_s: float
    """The front end, for each token of a prompt that it makes of text."""
    serial_share: float = 0.0
    """Of the loop: what waits for the last step's tokens, and the GPU for it."""
    sources: Sources = ()
    """Where each figure comes from, by its name."""

    def loop_s(self, running: float, prompts: float = 0.0) -> float:
        """The engine's loop in a step of so many decoding sequences and prompts."""
        return self.step_s + self.sequence_s * running + self.prompt_s * prompts

    def arrival_s(self, prompt_tokens: float) -> float:
        """Between a request's arrival and the scheduler, and back with the first token."""
        return self.request_s + self.prompt_token_s * prompt_tokens


def scheduler(
    engine: Engine, longest: int, pool_tokens: int = 0, states: int | None = None
) -> Scheduler:
    """How the engine forms steps, by its version, flags and GPU.

    ``longest`` is the longest sequence where no flag states one; ``pool_tokens`` the KV tokens that
    fit, which the limit of sequences may depend on; ``states`` the sequences whose states have
    places, None where that sets no limit. Raises UsageError for an engine that serves no
    requests, and where its flags come to no step.
    """
    spec = _serving(engine)
    found = _Found(engine, longest, pool_tokens)
    sequences = found.number("sequences", spec.sequences)
    fewer = states is not None and states < sequences
    return Scheduler(
        order=cast("Order", found.word("order", spec.order)),
        mixed=bool(found.value("mixed", spec.mixed)),
        chunked=bool(found.value("chunked", spec.chunked)),
        tokens=found.number("tokens", spec.tokens),
        counts=cast("Counts", found.word("counts", spec.counts)),
        sequences=states if states is not None and fewer else sequences,
        prefix_cache=bool(found.value("prefix_cache", spec.prefix_cache)),
        admission=cast("Admission", found.word("admission", spec.admission)),
        preemption=cast("Preemption", found.word("preemption", spec.preemption)),
        asynchronous=bool(found.value("asynchronous", spec.asynchronous)),
        decode_steps=found.number("decode_steps", spec.decode_steps),
        poll_steps=found.number("poll_steps", spec.poll_steps),
        hold_steps=int(found.amount("hold_steps", spec.hold_steps)),
        hold_share=found.amount("hold_share", spec.hold_share),
        limit="states" if fewer else "sequences",
        sources=tuple(found.sources.items()),
    )


def host_costs(engine: Engine) -> HostCosts:
    """What the host spends, by the engine's version, flags and GPU, in seconds.

    Raises UsageError for an engine that serves no requests.
    """
    host = _serving(engine).host
    facts = engine.as_asked.facts
    names = [each.name.removesuffix("_s") for each in fields(HostCosts) if each.name[-2:] == "_s"]
    chosen = {name: _chosen(getattr(host, name), facts) for name in names}
    times = {f"{name}_s": choice.value for name, choice in chosen.items()}
    sources = {name: _said(choice) for name, choice in chosen.items()}
    found = _Found(engine, 1, 0)
    share = found.amount("serial", host.serial)
    return HostCosts(**times, serial_share=share, sources=tuple((sources | found.sources).items()))


class _Found:
    """Choices of one engine, and where each was read."""

    def __init__(self, engine: Engine, longest: int, pool_tokens: int) -> None:
        flag = engine.spec.memory.longest
        self._engine = engine.as_asked
        if flag and self._engine.flags.get(flag) is None:
            self._engine = self._engine.with_flags({flag: longest})
        stated = self._engine.flags.get(flag) if flag else longest
        self._names = {
            **self._engine.whole_flags,
            "longest": stated if isinstance(stated, int) else longest,
            "pool_tokens": pool_tokens,
        }
        self.sources: dict[str, str] = {}

    def value(self, name: str, choices: tuple[Choice, ...]) -> Scalar:
        choice = _chosen(choices, self._engine.facts)
        self.sources[name] = _said(choice)
        return choice.value

    def word(self, name: str, choices: tuple[Choice, ...]) -> str:
        return str(self.value(name, choices))

    def amount(self, name: str, choices: tuple[Choice, ...]) -> float:
        """A number as it stands, or that of a flag; 0 where the engine has no such thing."""
        if not choices:
            return 0.0
        value = self.value(name, choices)
        found = self._engine.flags.get(value) if isinstance(value, str) else value
        return float(found or 0)

    def number(self, name: str, choices: tuple[Choice, ...]) -> int:
        value = self.value(name, choices)
        try:
            return whole(value if isinstance(value, int) else str(value), self._names)
        except ExpressionError as error:
            title = self._engine.spec.title
            raise UsageError(f"{title} has no {name} of a step: {error.message}") from error


def _chosen(choices: tuple[ChoiceT, ...], facts: Mapping[str, Scalar]) -> ChoiceT:
    return first(choices, facts) or choices[-1]


def _said(choice: Choice | TimeChoice) -> str:
    return choice.source or choice.note or "catalogue"


def _serving(engine: Engine) -> ServingSpec:
    if engine.spec.serving is None:
        raise UsageError(
            f"{engine.spec.title} serves no requests",
            "its steps can be planned; many requests need an engine with a scheduler",
        )
    return engine.spec.serving
