"""How far whole runs lie from their plans, beyond what kernels and host times scatter."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.spec.kinds.base import CatalogSpec, Spec

SpreadName = Literal["pace", "ttft"]
"""``pace``: times of steps and between tokens, of whole requests, and throughputs; ``ttft``: time
to the first token."""


class SpreadFigure(Spec):
    """One kind of figure."""

    width: float = Field(
        ge=0,
        description="Half of the 80 % interval of log(measured / predicted), to add in squares",
    )
    reports: int = Field(ge=1, description="Reports it is of; each counts the same")
    figures: int = Field(ge=1, description="Measured figures in them")
    before: float = Field(
        ge=0, le=1, description="Share of them inside the interval without it, reports alike"
    )
    left_out: float = Field(
        ge=0, le=1, description="Share inside with the width that the other reports give"
    )


class SpreadSpec(CatalogSpec):
    """What whole runs scatter about their plans: of reports that no fit has seen."""

    kind: Literal["spread"] = "spread"
    date: str = Field(description="The day of the estimate")
    script: str = Field(description="The command that makes it again")
    figures: dict[SpreadName, SpreadFigure] = Field(description="By kind of figure")
