"""One replica of a deployment, ready to be asked for steps."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.scheduler import host_costs, scheduler
from planner.plan.prepare import Prepared
from planner.plan.start import start_of
from planner.serving.clock import Clock


@dataclass(frozen=True)
class Setup:
    """A replica of a deployment."""

    clock: Clock
    pool_tokens: int
    """KV tokens that it has room for."""
    longest: int
    """Tokens of the longest sequence that its engine takes."""


def setup(prepared: Prepared, longest: int) -> Setup:
    """The replica of a deployment whose requests have so many tokens at most.

    Raises UsageError for an engine that serves no requests.
    """
    engine = prepared.engine("decode")
    start = start_of(prepared, engine)
    pool = start.pool_tokens if start else 0
    context, states = prepared.question.model.max_context, start.sequences if start else None
    rules = scheduler(engine, context or longest, pool, states)
    most = start.max_model_len if start else longest
    return Setup(Clock(prepared, rules, host_costs(engine)), pool, most)
