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
    reports: int = Field(ge=1, description="Reports it is learnt from")
    cells: int = Field(
        ge=1, description="Machines, engines, models, parallelisms and precisions in them"
    )
    figures: int = Field(ge=1, description="Measured figures in them")
    worth: float = Field(
        ge=0, description="As how many figures of reports of their own these figures count"
    )
    alike_report: float = Field(
        ge=0, le=1, description="Correlation of the ranks of two figures of one report"
    )
    alike_cell: float = Field(ge=0, le=1, description="The same of two figures of one cell")
    before: float = Field(
        ge=0, le=1, description="Share of them inside the interval without it, reports alike"
    )
    left_out: float = Field(
        ge=0,
        le=1,
        description="Share inside with the width that the other reports give, reports alike",
    )
    left_out_figures: float = Field(ge=0, le=1, description="The same, every figure alike")


class SpreadSpec(CatalogSpec):
    """What whole runs scatter about their plans: of reports that no fit has seen."""

    kind: Literal["spread"] = "spread"
    date: str = Field(description="The day of the estimate")
    script: str = Field(description="The command that makes it again")
    figures: dict[SpreadName, SpreadFigure] = Field(description="By kind of figure")
    vendors: tuple[str, ...] = Field(
        (),
        description="Makers of the cards that `figures` are of: those with measured kernels;"
        " of any where there are none",
    )
    others: dict[SpreadName, SpreadFigure] = Field(
        {},
        description="Of cards of other makers; their `pace` stands for what too few reports tell",
    )

    def of(self, vendor: str) -> dict[SpreadName, SpreadFigure]:
        """The figures that count for cards of a maker."""
        return self.figures if not self.vendors or vendor in self.vendors else self.others
