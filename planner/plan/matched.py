"""The words of a match: measured kernels beside the plan's. Times and counts are of one step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MatchedRow:
    """A kernel of the plan beside what was measured of it, or several not to be told apart."""

    kernels: tuple[int, ...]
    """Positions in the plan's `kernels`; several where the file cannot tell them apart."""
    nodes: tuple[str, ...]
    """Their nodes."""
    blocks: tuple[str, ...]
    """Labels of their kinds of block."""
    engine_names: tuple[str, ...]
    """The engine's classes or ops for them."""
    names: tuple[str, ...]
    """What they are called in the trace, the longest time first."""
    planned: int
    """Occurrences a step, by the plan."""
    found: float | None
    """Occurrences a step, as measured; null for several kernels."""
    launches: float
    """Measured launches a step."""
    each_s: float | None
    """Measured time of one occurrence, all its launches; null for several kernels."""
    predicted_each_s: float | None
    """Predicted time of one occurrence; null for several kernels."""
    low_each_s: float | None
    """Lower end of its 80 % interval."""
    high_each_s: float | None
    """Upper end."""
    measured_s: float
    """Measured time a step."""
    predicted_s: float
    """Predicted time a step."""
    low_s: float | None
    """The lower ends of all occurrences added up."""
    high_s: float | None
    """The upper ends added up."""
    difference_s: float
    """Measured less predicted, a step."""
    ratio: float
    """Measured over predicted: of one occurrence, or for several kernels of the step."""
    inside: bool | None
    """Whether that measured time lies in its interval; null without one."""


@dataclass(frozen=True)
class Unmatched:
    """A measured kernel that is none of the plan's."""

    name: str
    """As in the trace."""
    launches: float
    """Launches a step."""
    time_s: float
    """Time a step."""
    share: float
    """Of the time of all measured kernels."""


@dataclass(frozen=True)
class Placed:
    """One launch of the representative step, in order of starts."""

    name: str
    """As in the trace."""
    time_s: float
    """Median over the steps alike."""
    kernel: int | None
    """Position in the plan's `kernels`; null for a launch of none."""
    occurrence: int | None
    """Which of the kernel's occurrences, from 0."""


@dataclass(frozen=True)
class KernelMatch:
    """The kernels of a run held against a plan, on one GPU."""

    ordered: bool
    """Whether the order of launches was known; without it kernels of one name are one row."""
    steps: int
    """Steps that the figures are of."""
    steps_by: str
    """What told them apart, in words."""
    launches: float
    """Measured launches a step."""
    planned_launches: int
    """Launches of a planned step, nodes of graphs included."""
    step_s: float | None
    """Measured wall time of a step; null where the file does not say."""
    busy_s: float
    """In which some kernel ran, overlaps counted once where starts are known."""
    gap_s: float | None
    """In which none did."""
    predicted_step_s: float
    """The plan's step."""
    predicted_busy_s: float
    """The plan's kernels added up."""
    kernels_s: float
    """Measured kernels added up, overlaps and all."""
    matched_s: float
    """Those of them that are kernels of the plan."""
    matched_share: float
    """Their share."""
    rows: tuple[MatchedRow, ...]
    """By how far the step is off because of them, the largest first."""
    unmatched: tuple[Unmatched, ...]
    """Measured and none of the plan's, the longest first."""
    missing: tuple[MatchedRow, ...]
    """Kernels of the plan that were not found, the longest first."""
    sequence: tuple[Placed, ...]
    """The representative step; empty where no order is known."""
    notes: tuple[str, ...]
    """What a reader should know."""
