"""Every kind of spec, as frozen values. Reading ``planner/spec/kinds`` is reading what users write.

The field descriptions become the JSON Schema that ``planner schema KIND`` prints.
"""

from __future__ import annotations

from planner.spec.kinds.backend import (
    BackendSpec,
    BytesChoice,
    CaptureMode,
    CaptureSizes,
    CaptureSpec,
    Choice,
    FlagSpec,
    FusionRule,
    HostSpec,
    KernelName,
    Limit,
    ReserveSpec,
    SizeRange,
    SlotSpec,
    TimeChoice,
)
from planner.spec.kinds.base import (
    CatalogSpec,
    Conditions,
    Expression,
    Name,
    Scalar,
    Spec,
)
from planner.spec.kinds.calibration import (
    CalibrationSpec,
    PricesSpec,
)
from planner.spec.kinds.deployment import (
    Backend,
    Decode,
    DeploymentSpec,
    Host,
    Memory,
    Parallel,
    Precision,
    Prefill,
    SequenceGroup,
    Step,
    Workload,
)
from planner.spec.kinds.gpu import (
    GpuLink,
    GpuMemory,
    GpuSpec,
)
from planner.spec.kinds.model import (
    BlockCycle,
    BlockSpec,
    BlockUse,
    ModelSpec,
    NodeSpec,
    Published,
    SequenceItem,
)

__all__ = [
    "KINDS",
    "Backend",
    "BackendSpec",
    "BlockCycle",
    "BlockSpec",
    "BlockUse",
    "BytesChoice",
    "CalibrationSpec",
    "CaptureMode",
    "CaptureSizes",
    "CaptureSpec",
    "CatalogSpec",
    "Choice",
    "Conditions",
    "Decode",
    "DeploymentSpec",
    "Expression",
    "FlagSpec",
    "FusionRule",
    "GpuLink",
    "GpuMemory",
    "GpuSpec",
    "Host",
    "HostSpec",
    "KernelName",
    "Limit",
    "Memory",
    "ModelSpec",
    "Name",
    "NodeSpec",
    "Parallel",
    "Precision",
    "Prefill",
    "PricesSpec",
    "Published",
    "ReserveSpec",
    "Scalar",
    "SequenceGroup",
    "SequenceItem",
    "SizeRange",
    "SlotSpec",
    "Spec",
    "Step",
    "TimeChoice",
    "Workload",
]

KINDS: dict[str, type[Spec]] = {
    "deployment": DeploymentSpec,
    "model": ModelSpec,
    "block": BlockSpec,
    "gpu": GpuSpec,
    "backend": BackendSpec,
    "calibration": CalibrationSpec,
    "prices": PricesSpec,
}
