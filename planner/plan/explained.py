"""A kernel's time, term by term: what its row of the plan is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.plan.types import KernelRow


@dataclass(frozen=True)
class NodeTerm:
    """What one node brings to its kernel. FLOPs are those executed, masked halves included."""

    id: str
    """The node."""
    op: str
    """Its operator."""
    formula: str
    """What the operator's own text says of its FLOPs and bytes."""
    arithmetic: str
    """The FLOPs as a product of sides; empty where they are no such product."""
    matmul_flops: float
    """On matrix units."""
    matmul_dtype: str | None
    """What matrix units multiply; None of a node without matrix products."""
    peak_flops_per_s: float
    """The datasheet's rate of that, or of the vector units."""
    vector_flops: float
    """On vector units."""
    weight_bytes: float
    """Weights it reads."""
    cache_bytes: float
    """KV cache or state, read and written."""
    scratch_bytes: float
    """What its kernels write and read to hand work on to each other."""
    link_bytes: float
    """What the rank sends over its link."""


@dataclass(frozen=True)
class TensorTerm:
    """A tensor that crosses the kernel's border, once."""

    name: str
    """The block's name of it."""
    way: str
    """read or written."""
    shape: str
    """Its sides under this step's load."""
    dtype: str
    """Number format."""
    hbm_bytes: float
    """Bytes moved."""


@dataclass(frozen=True)
class ConstantTerm:
    """One constant of a kernel model."""

    name: str
    """As calibration files have it."""
    value: float
    """In its unit."""
    unit: str
    """s, ratio, 1, bytes/s."""
    meaning: str
    """What it is, in words."""


@dataclass(frozen=True)
class ModelTerm:
    """One question put to a kernel model."""

    family: str
    """gemm, attention_decode, moe, collective, elementwise …"""
    variant: str
    """The kernel or format whose constants these are."""
    formula: str
    """The model's own lines."""
    shape: Mapping[str, float]
    """What it was asked, in SI."""
    constants: tuple[ConstantTerm, ...]
    """All of the variant."""
    source: str
    """The calibration file and kernel, or why there is none."""
    gpu: str
    """The GPU that was measured; empty where nobody measured it."""
    evidence: str
    """measured-here, calibrated, class or datasheet."""
    time_s: float
    """Its answer, the floor included."""
    floor_s: float
    """What it takes to start and drain."""
    counted_s: float
    """What of it counts as work: without the floor, and less than nothing where it is taken off
    (a write that runs as a kernel of its own here)."""


@dataclass(frozen=True)
class Explained:
    """One kernel: each figure of its row from the ones before it."""

    kernel: KernelRow
    """Its row in the plan."""
    device: str
    """The GPU's title."""
    bandwidth_bytes_per_s: float
    """The datasheet's, of HBM."""
    vector_flops_per_s: float
    """The datasheet's, of vector units."""
    link_bytes_per_s: float | None
    """Of the link between GPUs, each way; None where there is none."""
    nodes: tuple[NodeTerm, ...]
    """What each of its nodes brings."""
    tensors: tuple[TensorTerm, ...]
    """What crosses its border."""
    matmul_s: float
    """Matrix FLOPs at their peaks."""
    vector_s: float
    """Vector FLOPs at theirs."""
    memory_s: float
    """HBM bytes at the datasheet's bandwidth."""
    network_s: float
    """Link bytes at the link's."""
    roofline_s: float
    """The longest of the four."""
    models: tuple[ModelTerm, ...]
    """Empty under the bare roofline."""
    beyond_s: float
    """What no kernel model says: links between nodes, the longer of several starts."""
    efficiency: float | None
    """What runs on this machine multiply the work by; None where none say so."""
    core_s: float
    """The work: what the models count and `beyond_s`, times `efficiency`; not below the roofline
    of a kernel that does more than stream."""
    floor_s: float
    """Start and drain, as a node of a graph."""
    starts: int
    """Device launches."""
    start_s: float
    """GPU time to start each, in a graph or launched."""
    held_s: float
    """What of that `floor_s` holds already."""
    collective_s: float
    """GPU time of a collective beyond its constants."""
    fixed_s: float
    """max(0, floor + starts × start − held) + starts × collective; zero without a launch."""
    launch_s: float
    """Host time of the launch; not in the kernel's time."""
    time_s: float
    """fixed + core."""
    log_low: float | None
    """80 % interval of log(real / predicted); None where no residuals are known."""
    log_high: float | None
    """Its other end."""
    busy_s: float
    """Sum over all kernels of the step: what shares are of."""
