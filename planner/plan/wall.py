"""What of the host's work a step's wall time shows, beside the launches of its kernels.

Where scheduling is asynchronous, the host prepares a step while the GPU runs another, and the
longer of the two counts; else they add up. What of the host's work nothing hides comes on top.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.scheduler import HostCosts, Scheduler, host_costs, scheduler
from planner.num import Number, any_nonzero, maximum
from planner.plan.load import StepLoad
from planner.plan.prepare import Prepared

_ANY_CONTEXT = 8192
"""Longest sequence of a model that states none."""


@dataclass(frozen=True)
class Wall:
    """The engine's loop around its steps."""

    scheduler: Scheduler
    host: HostCosts

    def host_s(self, running: Number, prompts: Number = 0.0) -> Number:
        """The loop in a step of so many decoding sequences and prompts."""
        host_s = self.host.loop_s(running, prompts)
        # the scheduler is asked once for several decode steps
        return host_s if any_nonzero(prompts) else host_s / self.scheduler.decode_steps

    def step_s(self, device_s: Number, host_s: Number) -> Number:
        """A step's time from those of GPU and host."""
        if self.scheduler.asynchronous:
            shown_s = device_s + self.host.serial_share * host_s
            return maximum(shown_s, host_s) + self.host.exposed_s
        return device_s + host_s


def wall_of(prepared: Prepared) -> Wall | None:
    """The loop of a deployment's engine; None of one that serves no requests."""
    engine = prepared.engine("decode")
    if engine.spec.serving is None:
        return None
    longest = prepared.question.model.max_context or _ANY_CONTEXT
    return Wall(scheduler(engine, longest), host_costs(engine))


def batch_step_s(wall: Wall | None, step: StepLoad, device_s: Number) -> Number:
    """A step of a static batch, from its start to the next one's; or arrays of them."""
    if wall is None:
        return device_s
    sequences = step.load.sequences if step.load.groups else 0
    counts = (0, sequences) if step.kind == "prefill" else (sequences, 0)
    return wall.step_s(device_s, wall.host_s(*counts))
