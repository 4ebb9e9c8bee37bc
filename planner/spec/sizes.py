"""The sizes of a load: deployments that differ in them alone are answered together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from planner.spec.types import Decode, DeploymentSpec, Prefill, Workload


class Sizes(Enum):
    """The dotted paths of the sizes of one kind of load."""

    DECODE = "step.decode.batch", "step.decode.context"
    PREFILL = "step.prefill.batch", "step.prefill.tokens"
    BATCH = "workload.batch", "workload.input", "workload.output"
    LOOP = "workload.concurrency", "workload.input", "workload.output"

    @property
    def paths(self) -> tuple[str, ...]:
        """The dotted paths."""
        found: tuple[str, ...] = self.value
        return found


def sizes_of(deployment: DeploymentSpec) -> Sizes | None:
    """Which sizes a deployment's load has; None of one that is answered by itself."""
    step, workload = deployment.step, deployment.workload
    if deployment.pools is not None:
        return None
    if workload is not None:
        if workload.batch is not None:
            return Sizes.BATCH
        return Sizes.LOOP if workload.concurrency is not None else None
    if step is None:
        return None
    if step.decode:
        return Sizes.DECODE
    return Sizes.PREFILL if step.prefill else None


def sizes_in(deployment: DeploymentSpec, sizes: Sizes) -> tuple[int, ...]:
    """The sizes of a deployment's own load."""
    found = []
    for path in sizes.paths:
        place: Any = deployment
        for name in path.split("."):
            place = getattr(place, name)
        found.append(place)
    return tuple(found)


def _most(kind: Any, name: str) -> int:
    bounds: Any = kind.model_fields[name].metadata
    return int(next(bound.le for bound in bounds if hasattr(bound, "le")))


_KINDS = {"step.decode": Decode, "step.prefill": Prefill, "workload": Workload}
MOST: Mapping[str, int] = {
    path: _most(_KINDS[path.rpartition(".")[0]], path.rpartition(".")[2])
    for sizes in Sizes
    for path in sizes.paths
}
"""Every size, by its dotted path, and the most it may be."""


def whole_size(text: str, path: str) -> int:
    """The size that ``path`` names; nought for a text that is none."""
    most = MOST[path]
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
        return 0
    return int(text) if int(text) <= most else 0


def named_sizes(names: Iterable[str]) -> Sizes | None:
    """Which sizes are stated by fields of these dotted paths; None where some are missing."""
    return _BY_NAMES.get(frozenset(names))


_BY_NAMES = {frozenset(sizes.paths): sizes for sizes in Sizes}
