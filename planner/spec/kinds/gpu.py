"""Accelerators, by datasheet."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.dtypes import DType
from planner.spec.kinds.base import CatalogSpec, Name, Spec
from planner.spec.quantity import Bytes, BytesPerS, Count, Figure, FlopsPerS, Hertz, Watts


class GpuMemory(Spec):
    """Device memory."""

    type: str = Field(description="HBM3, GDDR6X, …")
    capacity: Figure[Bytes] = Field(description="What the vendor prints")
    visible: Figure[Bytes] | None = Field(
        None, description="What CUDA (or HIP) reports as total; engines budget against this"
    )
    bandwidth: Figure[BytesPerS]


BOARD = 8
"""GPUs on an HGX or OAM board, and in most servers with PCIe cards."""


class GpuLink(Spec):
    """How one GPU reaches its peers inside a node."""

    type: str = Field(description="NVLink4, PCIe4 x16, XGMI, …")
    bandwidth: Figure[BytesPerS] = Field(description="Per GPU and direction")
    peer_to_peer: bool = Field(True, description="False where traffic goes through host memory")
    gpus: Figure[Count] | None = Field(
        None, description="Most that are joined so; 8 where nothing is said, as on one board"
    )


class GpuSpec(CatalogSpec):
    """An accelerator, by datasheet. Dense rates only: sparse figures are never used."""

    kind: Literal["gpu"] = "gpu"
    vendor: Literal["nvidia", "amd", "intel", "google", "other"]
    architecture: Name = Field(description="ampere, ada, hopper, blackwell, cdna3, …")
    capability: float | None = Field(None, description="CUDA compute capability, as in 8.9")
    memory: GpuMemory
    l2: Figure[Bytes] | None = None
    multiprocessors: Figure[Count] | None = Field(None, description="SMs or CUs")
    shared_memory: Figure[Bytes] | None = Field(None, description="Per multiprocessor")
    clock: Figure[Hertz] | None = Field(None, description="Boost clock the peaks are quoted at")
    power: Figure[Watts] | None = Field(None, description="TDP or total board power")
    matrix: dict[DType, Figure[FlopsPerS]] = Field(
        description="Dense matrix-unit peaks by operand format, accumulating in FP32"
    )
    vector: Figure[FlopsPerS] = Field(description="FP32 rate of the vector units")
    link: GpuLink | None = None
    notes: tuple[str, ...] = ()

    @property
    def node(self) -> int:
        """Most GPUs of one node: what its link joins."""
        joined = self.link.gpus if self.link else None
        return int(joined.value) if joined else BOARD
