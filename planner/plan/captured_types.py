"""The words of a search for capture sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CaptureList:
    """A list of captured sizes, and what steps cost with it."""

    name: str
    """Whose list it is: the engine's by version, or the best of so many sizes."""
    sizes: tuple[int, ...]
    """Ascending, as the engine counts them: tokens, or sequences."""
    graphs: int
    """Graphs that a rank captures, of all modes that the engine captures and of any draft."""
    step_s: float
    """Expected time of a step over the batches, any drafting included."""
    loss: float
    """By how much that is more than if each batch had a graph of its own."""
    padding_share: float
    """Rows of padding by rows of batches, over the steps that run in a graph."""
    uncaptured_share: float
    """Steps that no size holds."""
    graphs_bytes: float | None
    """GPU memory of the graphs, by their number; null where none is known."""
    capture_s: float | None
    """Time at start-up to capture them; null where none is known."""


@dataclass(frozen=True)
class CaptureSearch:
    """Lists of captured sizes for one deployment and its batches."""

    gpu: str
    """As the catalogue calls it, as model and engine."""
    model: str
    """Its title."""
    engine: str
    """Its title."""
    version: str
    """The described version whose facts are used."""
    mode: str
    """What decode steps run in where a size holds them: ``full`` or ``piecewise``."""
    context: int
    """Tokens that each sequence attends to."""
    stages: int
    """Of the pipeline: each captures graphs of its own, for one of as many micro-batches."""
    drafts: int
    """Draft tokens that a step verifies for each sequence."""
    draft: str | None
    """The model that drafts, whose steps replay graphs of their own; null where none does."""
    batches: int
    """Different batches."""
    smallest: int
    """Sequences of the smallest batch."""
    largest: int
    """Sequences of the largest batch."""
    exact_s: float
    """Expected step with a graph for each batch."""
    uncaptured_s: float
    """Expected step without any graph."""
    default: CaptureList
    """The engine's own list, by its flags and version."""
    versions: tuple[CaptureList, ...]
    """The lists of the engine's described versions, the oldest first; equal ones once."""
    best: tuple[CaptureList, ...]
    """The best list of at most 1, 2, … sizes, but for those that gain nothing."""
    chosen: CaptureList
    """Of as many sizes as were asked for; else the shortest that is no slower than the default, and
    within a thousandth of the best."""
    paste: str | None
    """How the engine is given it; null where it takes no list."""
    notes: tuple[str, ...] = ()
    """What a reader should know before he pastes it."""
