"""Fixed costs of an engine's host."""

from __future__ import annotations

from pydantic import Field

from planner.spec.kinds.base import Spec
from planner.spec.kinds.choices import TimeChoice


class HostSpec(Spec):
    """Fixed costs of getting kernels to run."""

    launch: tuple[TimeChoice, ...] = Field(min_length=1, description="Host time per kernel launch")
    replay: tuple[TimeChoice, ...] = Field(min_length=1, description="Host time per graph replay")
    kernel: tuple[TimeChoice, ...] = Field(
        min_length=1, description="Device time a launched kernel takes beyond its work"
    )
    graph_node: tuple[TimeChoice, ...] = Field(
        min_length=1, description="Device time a graph node takes beyond its work"
    )
