"""The words of cost: the device, a node's ledger, a kernel's work and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from planner.cost.chip import Chip, chip_of
from planner.graph.types import Node
from planner.num import Number, maximum
from planner.ops.types import OpClass, Site, Tiling, Work
from planner.spec.types import GpuSpec

Bound = Literal["compute", "memory", "network", "launch"]
Evidence = Literal["datasheet", "class", "calibrated", "measured-here"]


@dataclass(frozen=True)
class Device:
    """A GPU as formulas see it. Rates are dense datasheet peaks."""

    name: str
    title: str
    bandwidth_bytes_per_s: float
    matrix_flops_per_s: Mapping[str, float]
    vector_flops_per_s: float
    link_bytes_per_s: float | None
    l2_bytes: float
    visible_bytes: float
    capacity_bytes: float
    architecture: str = ""
    """The class of GPUs that constants may be borrowed from."""
    multiprocessors: int | None = None
    chip: Chip | None = None
    """What it keeps on the chip; None where too little is known."""

    def peak(self, dtype: str) -> float:
        """Matrix rate for operands of a format; the vector rate where matrix units lack it."""
        if dtype in self.matrix_flops_per_s:
            return self.matrix_flops_per_s[dtype]
        return self.vector_flops_per_s

    def ridge(self, dtype: str) -> float:
        """FLOP/byte at which a matrix product of that format stops being bound by memory."""
        return self.peak(dtype) / self.bandwidth_bytes_per_s

    @property
    def vector_ridge(self) -> float:
        """FLOP/byte at which work on the vector units stops being bound by memory."""
        return self.vector_flops_per_s / self.bandwidth_bytes_per_s


def device(gpu: GpuSpec) -> Device:
    """The device a gpu spec describes."""
    memory = gpu.memory
    return Device(
        gpu.name,
        gpu.title,
        memory.bandwidth.value,
        {dtype: figure.value for dtype, figure in gpu.matrix.items()},
        gpu.vector.value,
        gpu.link.bandwidth.value if gpu.link else None,
        gpu.l2.value if gpu.l2 else 0.0,
        memory.visible.value if memory.visible else memory.capacity.value,
        memory.capacity.value,
        gpu.architecture,
        gpu.multiprocessors.value if gpu.multiprocessors else None,
        chip_of(gpu),
    )


@dataclass(frozen=True)
class NodeCost:
    """The ledger of one occurrence of one node on one rank, run on its own."""

    node: Node
    site: Site
    """What its formulas look at under the load."""
    work: Work
    input_bytes: tuple[Number, ...]
    output_bytes: tuple[Number, ...]
    peak_flops_per_s: float
    ridge_flops_per_byte: float
    crossing_tokens: float | None = None
    """M*: the tokens in flight at which the node leaves the memory roof; None if it never does."""

    _executed: dict[Tiling | None, Work] = field(default_factory=dict, repr=False)
    _shares: dict[Tiling | None, tuple[Number, ...]] = field(default_factory=dict, repr=False)

    def executed(self, tiling: Tiling | None) -> Work:
        """The work that a kernel really does, as many groups ask for it."""
        if tiling not in self._executed:
            self._executed[tiling] = self.node.op.executed(self.site, tiling)
        return self._executed[tiling]

    def shares(self, tiling: Tiling | None) -> tuple[Number, ...]:
        """What it adds to a kernel: matrix FLOPs and their seconds, vector FLOPs, link bytes and
        HBM bytes that no edge shows.
        """
        if tiling not in self._shares:
            work = self.executed(tiling)
            matmul_s = work.matmul_flops / self.peak_flops_per_s if self.node.op.matrix else 0
            self._shares[tiling] = (
                work.matmul_flops,
                matmul_s,
                work.vector_flops,
                work.link_bytes,
                work.private_bytes,
            )
        return self._shares[tiling]

    @cached_property
    def rows(self) -> float:
        """Rows of its first output. For one load, not for arrays."""
        return float(self.site.load.elements(self.site.outputs[0].shape[:-1]))

    @cached_property
    def width(self) -> float:
        """Columns of all its outputs. For one load, not for arrays."""
        return sum(float(self.site.load.dim(each.shape[-1])) for each in self.site.outputs)

    @property
    def handed_bytes(self) -> Number:
        """What it reads of a cache that another node hands it, as latents."""
        inputs = zip(self.site.inputs, self.input_bytes, strict=True)
        return sum(size for tensor, size in inputs if tensor.handle)

    @property
    def flops(self) -> Number:
        """FLOPs of the unit that does the bulk: matrix where there is matrix work, else vector."""
        return self.work.matmul_flops if self.node.op.matrix else self.work.vector_flops

    @cached_property
    def hbm_bytes(self) -> Number:
        """Inputs (a tensor read twice once), outputs, weights and KV cache; nothing of a view."""
        if self.node.op.op_class == OpClass.VIEW:
            return 0
        read: dict[str, Number] = {}
        for name, size in zip(self.node.inputs, self.input_bytes, strict=True):
            read[name] = maximum(size, read.get(name, 0))
        return sum(read.values()) + sum(self.output_bytes) + self.work.private_bytes

    @property
    def flops_per_byte(self) -> Number:
        """Arithmetic intensity; zero of a view, which does and moves nothing."""
        if self.node.op.op_class == OpClass.VIEW:
            return 0.0
        return self.flops / maximum(self.hbm_bytes, 1)

    @property
    def bound(self) -> Bound:
        """Which side of the ridge it is on. For one load, not for arrays."""
        if self.work.link_bytes:
            return "network"
        return "compute" if self.flops_per_byte >= self.ridge_flops_per_byte else "memory"


@dataclass(frozen=True)
class KernelWork:
    """What one launch does, each resource in seconds at the device's peak rate."""

    matmul_flops: Number
    vector_flops: Number
    hbm_bytes: Number
    link_bytes: Number
    matmul_s: Number
    vector_s: Number
    memory_s: Number
    network_s: Number


@dataclass(frozen=True)
class KernelTime:
    """How long one kernel takes on the device, and why."""

    time_s: Number
    fixed_s: Number
    bound: Bound | Number
    """In arrays a number of ``BOUNDS``."""
    evidence: Evidence
    family: str = ""
    """Kernels of one family share the errors of its model."""
    log_low: Number | None = None
    log_high: Number | None = None
    """80 % interval of log(real / predicted); None where no residuals are known."""
    borrowed: bool = False
    """Whether its constants are another GPU's: then what is wrong is wrong for every shape."""
