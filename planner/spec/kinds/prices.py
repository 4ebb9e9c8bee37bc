"""What hardware costs: GPUs by the hour, and instances that are rented as a whole."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.spec.kinds.base import CatalogSpec, Name, Spec
from planner.spec.quantity import Figure, PricePerHour


class Instance(Spec):
    """A machine that is rented with all its GPUs."""

    gpu: Name = Field(description="Catalogue name of its GPUs")
    count: int = Field(ge=1, le=1024, description="GPUs in it, which share a node's link")
    price: Figure[PricePerHour] = Field(description="Of the whole instance")


class PricesSpec(CatalogSpec):
    """What hardware costs, on a day."""

    kind: Literal["prices"] = "prices"
    date: str = Field(description="The day the prices were read, as in 2026-11-30")
    gpus: dict[Name, Figure[PricePerHour]] = Field(
        default_factory=dict,
        description="Per GPU and hour, by catalogue name; any number of them is rented",
    )
    instances: dict[str, Instance] = Field(
        default_factory=dict, description="By the provider's name of each"
    )
