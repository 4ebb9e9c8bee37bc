"""Short names of fields: of the axes of a sweep, and of the columns of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping

FIELDS: Mapping[str, str] = {
    "tp": "parallel.tensor",
    "pp": "parallel.pipeline",
    "dp": "parallel.data",
    "ep": "parallel.expert",
    "precision": "precision.weights",
    "engine": "backend.name",
    "version": "backend.version",
}
"""Fields that have one short name wherever they stand."""
_REQUESTS: Mapping[str, str] = {
    "batch": "workload.batch",
    "concurrency": "workload.concurrency",
    "input": "workload.input",
    "output": "workload.output",
    "latency": "measured.latency_s",
}
"""What those mean in a table that states ``input`` and ``output``: batch alone may be a step's."""


def paths(headings: Collection[str]) -> dict[str, str]:
    """The paths that short names stand for in a table with such headings."""
    of_requests = {"input", "output"} <= set(headings)
    return {**FIELDS, **(_REQUESTS if of_requests else {})}
