"""The words of capture: modes, the decision for one load, fixed costs, launch timelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.num import Number, any_nonzero, maximum

Mode = Literal["none", "piecewise", "full"]
MODES: tuple[Mode, ...] = ("none", "piecewise", "full")
MODE_WORDS: dict[Mode, str] = {"none": "eager", "piecewise": "piecewise", "full": "full"}
"""What sentences, tables and JSON call a mode."""


@dataclass(frozen=True)
class FixedCosts:
    """What getting a kernel to run costs, whatever it does."""

    launch_s: float
    """Host time per kernel launch."""
    replay_s: float
    """Host time per graph replay."""
    kernel_s: float
    """Device time of a launched kernel beyond its work."""
    graph_node_s: float
    """Device time of a graph node beyond its work."""
    step_s: float = 0.0
    """Host time per step that nothing hides."""
    sequence_s: float = 0.0
    """Host time per sequence and step that nothing hides."""
    collective_s: float = 0.0
    """Device time per launch of a collective kernel, beyond what its constants say."""
    sources: tuple[tuple[str, str], ...] = ()
    """Where each figure comes from, by its name."""

    def beyond_s(self, sequences: Number | None) -> Number:
        """What a step of so many sequences takes beside launches and kernels, in any mode."""
        return self.step_s + self.sequence_s * (0 if sequences is None else sequences)


@dataclass(frozen=True)
class ModeChoice:
    """One mode under one load: whether the engine can run it, and what it pads to."""

    mode: Mode
    available: bool
    reason: str | None = None
    """Why it is not available, or what the engine's rule says."""
    captured_size: int | None = None
    """The captured batch (full) or token count (piecewise) that the load is padded to."""
    padding_tokens: int = 0


@dataclass(frozen=True)
class Decision:
    """What the engine's flags select for a load, beside every mode."""

    mode: Mode
    choices: tuple[ModeChoice, ...]
    sizes: tuple[int, ...]
    """Batch sizes the engine captures."""
    notes: tuple[str, ...] = ()

    def choice(self, mode: Mode) -> ModeChoice:
        """The choice for a mode."""
        return self.choices[MODES.index(mode)]


@dataclass(frozen=True)
class Timeline:
    """Two clocks at the end of a step."""

    host_s: Number
    """When the host issued the last launch."""
    device_s: Number
    """When the device finished the last kernel."""
    busy_s: Number
    """Sum of the kernels' device times."""
    work_s: Number
    """Sum of what the kernels do, without any fixed cost."""
    launches: int
    """Launches and replays the host makes."""
    beyond_s: Number = 0.0
    """Host time before the first launch that nothing hides."""
    waiting_s: Number = 0.0
    """What the slowest stage of a pipeline makes the others wait."""

    @property
    def path_s(self) -> Number:
        """Until the last kernel is done, without waiting for other micro-batches."""
        return self.beyond_s + maximum(self.host_s, self.device_s)

    @property
    def time_s(self) -> Number:
        """Wall time of the step."""
        return self.path_s + self.waiting_s

    @property
    def starved_s(self) -> Number:
        """Of it the device has nothing to run, since launches come late."""
        return maximum(self.host_s, self.device_s) - self.busy_s

    @property
    def launch_share(self) -> Number:
        """Share of the step that is not work: launches, replays, gaps and kernel starts."""
        return 1 - self.work_s / self.time_s if any_nonzero(self.time_s) else 0.0
