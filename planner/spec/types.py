"""Every kind of spec, as frozen values. Reading this file is reading what users may write.

The field descriptions become the JSON Schema that ``planner schema KIND`` prints.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PrivateAttr, Tag

from planner.dtypes import DType
from planner.spec.origin import Origin
from planner.spec.quantity import (
    Bytes,
    BytesPerS,
    Count,
    Figure,
    FlopsPerS,
    Hertz,
    PricePerHour,
    Seconds,
    Watts,
)

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._+-]*$", max_length=80)]
Expression = int | str
"""A whole number or arithmetic over dims: ``heads * head_dim``."""
Scalar = bool | int | float | str | None


class Spec(BaseModel):
    """A frozen value that remembers where it was written."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    _origin: Origin = PrivateAttr(default_factory=Origin.unknown)

    @property
    def origin(self) -> Origin:
        """Where this value stands in the user's text, for errors found after reading it."""
        return self._origin

    def remember(self, origin: Origin) -> None:
        """Note where this value stands. Only the loader calls it, before it hands the value out."""
        self._origin = origin


class CatalogSpec(Spec):
    """What all catalogue files have."""

    name: Name
    title: str = Field(description="The name as its maker writes it")
    about: str | None = Field(None, description="One or two sentences for `planner catalog show`")
    sources: dict[str, str] = Field(
        default_factory=dict, description="Short keys for the places the figures were read in"
    )


# --- gpu ---------------------------------------------------------------------------------------


class GpuMemory(Spec):
    """Device memory."""

    type: str = Field(description="HBM3, GDDR6X, …")
    capacity: Figure[Bytes] = Field(description="What the vendor prints")
    visible: Figure[Bytes] | None = Field(
        None, description="What CUDA (or HIP) reports as total; engines budget against this"
    )
    bandwidth: Figure[BytesPerS]


class GpuLink(Spec):
    """How one GPU reaches its peers inside a node."""

    type: str = Field(description="NVLink4, PCIe4 x16, XGMI, …")
    bandwidth: Figure[BytesPerS] = Field(description="Per GPU and direction")
    peer_to_peer: bool = Field(True, description="False where traffic goes through host memory")


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


# --- model and block ---------------------------------------------------------------------------


class NodeSpec(Spec):
    """One operator of a block. Further fields are the operator's own attributes."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    op: str = Field(description="The operator, as in `linear`; `planner catalog list ops`")
    inputs: str | tuple[str, ...] = Field(
        alias="in", description="Tensors read: block inputs or other nodes' outputs"
    )
    outputs: str | tuple[str, ...] | None = Field(
        None, alias="out", description="Names of the tensors written; by default the node's name"
    )


class BlockSpec(CatalogSpec):
    """A graph of operators that a model repeats."""

    kind: Literal["block"] = "block"
    title: str = ""
    inputs: dict[str, tuple[Expression, ...]] = Field(
        description="Tensors that come in, with their shapes, as in `x: [tokens, hidden]`"
    )
    nodes: dict[str, NodeSpec] = Field(min_length=1)
    outputs: tuple[str, ...] = Field(
        min_length=1, description="Tensors handed to the next block, in its inputs' order"
    )
    options: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Names that nodes may use as attributes, with their defaults",
    )
    shapes: dict[str, tuple[Expression, ...]] = Field(
        default_factory=dict, description="Shapes to be checked against what the operators infer"
    )


class BlockUse(Spec):
    """A block in a model's sequence."""

    block: str = Field(description="A block of this file or of the catalogue")
    times: int = Field(1, ge=1, le=10_000)
    label: str | None = Field(None, description="Name in tables; by default the block's")
    given: dict[str, Scalar] = Field(
        default_factory=dict, alias="with", description="Dims and options of this use alone"
    )


class BlockCycle(Spec):
    """Several blocks repeated together, as in five local layers and one global."""

    repeat: int = Field(ge=1, le=10_000)
    blocks: tuple[BlockUse, ...] = Field(min_length=1)


def _use_or_cycle(value: object) -> str:
    keys = value if isinstance(value, dict) else getattr(type(value), "model_fields", {})
    return "cycle" if "repeat" in keys else "use"


SequenceItem = Annotated[
    Annotated[BlockUse, Tag("use")] | Annotated[BlockCycle, Tag("cycle")],
    Discriminator(_use_or_cycle),
]


class Published(Spec):
    """Figures the maker prints, to hold the graph against."""

    parameters: int = Field(gt=0)
    active_parameters: int | None = Field(None, gt=0)
    source: str


class ModelSpec(CatalogSpec):
    """A model: dims, and a sequence of blocks."""

    kind: Literal["model"] = "model"
    source: str = Field("", description="Where the dims were read")
    dims: dict[str, Expression] = Field(default_factory=dict)
    options: dict[str, Scalar] = Field(default_factory=dict)
    inputs: dict[str, tuple[Expression, ...]] = Field(
        default={"token_ids": ("tokens",)},
        description="What enters the first block; by default one id a token",
    )
    sequence: tuple[SequenceItem, ...] = Field(min_length=1)
    blocks: dict[str, BlockSpec] = Field(
        default_factory=dict, description="Blocks of this model alone"
    )
    max_context: int | None = Field(None, gt=0, description="Longest context it was trained for")
    weights: DType = Field("bf16", description="Format of the checkpoint")
    published: Published | None = None


# --- backend -----------------------------------------------------------------------------------

Conditions = dict[str, Scalar | tuple[Scalar, ...]]
"""Facts that must hold: ``{flag.enforce_eager: false, tensor: '> 1', capability: [9.0, 10.0]}``.
A value is equalled; a list offers choices; a text may open with a comparison."""


class Choice(Spec):
    """A value that holds under conditions; of a list of choices the first that holds is taken."""

    when: Conditions = Field(default_factory=dict)
    value: Scalar
    source: str | None = None
    note: str | None = None


class TimeChoice(Spec):
    """A documented duration that holds under conditions."""

    when: Conditions = Field(default_factory=dict)
    value: Seconds
    source: str | None = None
    note: str | None = None


class BytesChoice(Spec):
    """A documented amount of memory that holds under conditions."""

    when: Conditions = Field(default_factory=dict)
    value: Bytes
    source: str | None = None
    note: str | None = None


class FlagSpec(Spec):
    """A flag of the engine that changes a plan."""

    type: Literal["bool", "int", "float", "str"]
    about: str
    default: tuple[Choice, ...] = Field(min_length=1)
    choices: tuple[Scalar, ...] = Field(
        (), description="Values it may take; the `flags` rule set tries them where `tunable`"
    )
    tunable: bool = Field(False, description="Whether the `flags` rule set may turn it")
    spelling: str | None = Field(None, description="How the engine's command line writes it")


class SlotSpec(Spec):
    """One node of a fusion pattern, tied to an earlier slot."""

    slot: Name
    op: str | tuple[str, ...]
    id: str | tuple[str, ...] | None = Field(
        None, description="Names of nodes that qualify; `*` matches any run of characters"
    )
    reads: str | None = Field(None, description="An earlier slot whose output this one reads")
    feeds: str | None = Field(None, description="An earlier slot that reads this one's output")
    beside: str | None = Field(None, description="An earlier slot with which it shares an input")
    optional: bool = False


class Limit(Spec):
    """How large a fused tensor may be, under conditions; beyond it the engine runs unfused."""

    when: Conditions = Field(default_factory=dict)
    slot: Name = Field(description="The slot whose output is measured")
    max_bytes: Bytes
    source: str | None = None


class FusionRule(Spec):
    """A fused kernel the engine has, and when it runs."""

    name: Name
    engine_name: str = Field(description="The engine's class or op for it")
    profile_patterns: tuple[str, ...] = Field(
        (), description="Regular expressions that find it in a trace"
    )
    pattern: tuple[SlotSpec, ...] = Field((), description="Nodes that become one kernel")
    classes: tuple[str, ...] = Field(
        (),
        description="Instead of a pattern: any connected group of operators of these classes",
    )
    max_nodes: int = Field(8, ge=2, le=16, description="Largest group by classes")
    excludes: tuple[str, ...] = Field(
        (),
        description="Operators that join no group by classes; `*` matches any run of characters",
    )
    extra_launches: int = Field(0, ge=0, description="Launches beyond the first")
    query_tile: int | None = Field(
        None, description="Rows of Q a tile covers (attention): KV is re-read once per tile row"
    )
    when: Conditions = Field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    source: str
    about: str | None = None


class KernelName(Spec):
    """The engine's name for an operator that runs on its own."""

    op: str | tuple[str, ...]
    id: str | tuple[str, ...] | None = None
    when: Conditions = Field(default_factory=dict)
    engine_name: str
    profile_patterns: tuple[str, ...] = ()
    launches: int = Field(1, ge=0, description="0 for a view that runs no kernel")


class CaptureMode(Spec):
    """Which CUDA Graph mode runs under which conditions."""

    when: Conditions = Field(default_factory=dict)
    mode: Literal["none", "piecewise", "full"]
    source: str | None = None
    note: str | None = None


class SizeRange(Spec):
    """Capture sizes first, first+step, … up to last (at most `cap`), both ends in."""

    first: Expression = Field(description="Over flags, and `cap`")
    last: Expression = Field(description="Over flags, and `cap`")
    step: int = Field(ge=1)


class CaptureSizes(Spec):
    """The engine's own rule for the batch sizes it captures."""

    when: Conditions = Field(default_factory=dict)
    cap: Expression = Field(description="Largest size, over flags: `min(max_num_seqs * 2, 512)`")
    sizes: tuple[int, ...] = ()
    ranges: tuple[SizeRange, ...] = ()
    powers_of_two_from: int | None = Field(
        None, ge=1, description="Every power of two from here up to `cap`"
    )
    extra: tuple[Expression, ...] = Field(
        (), description="Further sizes over flags, and `cap`; those above `cap` are left out"
    )
    full_cap: Expression | None = Field(
        None, description="Largest size with a full graph, where it differs"
    )
    source: str | None = None


class CaptureSpec(Spec):
    """How the engine captures CUDA Graphs."""

    modes: tuple[CaptureMode, ...] = Field(min_length=1)
    available: tuple[CaptureMode, ...] = Field(
        (), description="Modes the engine can run at all, beside those its flags select"
    )
    splits: tuple[KernelName, ...] = Field((), description="Operators that split a piecewise graph")
    outside: tuple[str, ...] = Field((), description="Names of nodes that no graph holds")
    sizes: tuple[CaptureSizes, ...] = Field(
        (), description="The first whose conditions hold; without any, each size met is captured"
    )
    pads: tuple[Choice, ...] = Field((), description="Whether a batch is padded to a captured size")


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


class ReserveSpec(Spec):
    """Memory that is neither weights nor KV cache."""

    budget: Literal["whole", "static", "free"] = Field(
        "whole",
        description="What shares `utilization` of visible memory: `whole`, everything the engine"
        " holds; `static`, weights and KV cache alone, the rest lying outside; `free`, the KV"
        " cache, which gets that share of what weights, activations and runtime leave",
    )
    utilization: tuple[Choice, ...] = Field(
        min_length=1, description="Share of visible (or free) memory the engine may take"
    )
    runtime: tuple[BytesChoice, ...] = Field(min_length=1, description="Context, NCCL, workspaces")
    graphs: tuple[BytesChoice, ...] = Field(min_length=1, description="Captured CUDA Graphs")
    graphs_inside: tuple[Choice, ...] = Field(
        min_length=1, description="Whether graph memory counts against the budget"
    )
    profile_tokens: tuple[Choice, ...] = Field(
        min_length=1, description="Tokens of the dummy step that sizes activations, over flags"
    )
    profile_sequences: tuple[Choice, ...] = Field(
        min_length=1, description="Sequences of its sampler run, over flags"
    )
    kv_block: int = Field(16, ge=1, description="Tokens per KV block")


class BackendSpec(CatalogSpec):
    """An inference engine: flags, fused kernels, graph capture, fixed costs, memory."""

    kind: Literal["backend"] = "backend"
    versions: tuple[str, ...] = Field(min_length=1, description="Versions described, oldest first")
    flags: dict[str, FlagSpec] = Field(default_factory=dict)
    fusions: tuple[FusionRule, ...] = ()
    kernels: tuple[KernelName, ...] = ()
    capture: CaptureSpec
    host: HostSpec
    memory: ReserveSpec


# --- calibration and prices --------------------------------------------------------------------


class CalibrationSpec(CatalogSpec):
    """Fitted constants for one GPU and engine, with where they came from."""

    kind: Literal["calibration"] = "calibration"
    gpu: str
    backend: str
    version: str | None = None
    date: str
    script: str = Field(description="The command that reproduces the fit")
    constants: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="By kernel family: constants in SI units"
    )


class PricesSpec(CatalogSpec):
    """What GPUs cost, on a day."""

    kind: Literal["prices"] = "prices"
    date: str = Field(description="The day the prices were read, as in 2026-11-30")
    gpus: dict[str, PricePerHour] = Field(description="Per GPU and hour, by catalogue name")


# --- deployment --------------------------------------------------------------------------------


class Parallel(Spec):
    """How many GPUs, and how they share the work. GPUs used = tensor × pipeline × data."""

    tensor: int = Field(1, ge=1, le=1024)
    pipeline: int = Field(1, ge=1, le=1024)
    expert: int = Field(1, ge=1, le=1024)
    data: int = Field(1, ge=1, le=1024)


class Precision(Spec):
    """Formats of weights, of what matrix units read, and of the KV cache."""

    weights: DType | None = Field(None, description="By default the checkpoint's")
    activations: DType | None = Field(None, description="Operands of the GEMMs; by default 16 bit")
    kv_cache: DType | None = Field(None, description="By default as the activations' 16 bit")


class Backend(Spec):
    """The engine, its version and flags."""

    name: str = Field(description="A backend of the catalogue, or a path")
    version: str | None = Field(None, description="By default the newest described")
    flags: dict[str, Scalar] = Field(default_factory=dict)


class Memory(Spec):
    """How much of the device the engine may take."""

    utilization: float | None = Field(None, gt=0, le=1, description="By default the engine's own")


class Decode(Spec):
    """One new token for each of `batch` sequences."""

    batch: int = Field(gt=0, le=1_000_000)
    context: int = Field(
        gt=0, le=100_000_000, description="KV length the new token attends to, itself included"
    )


class Prefill(Spec):
    """`tokens` prompt tokens for each of `batch` sequences."""

    batch: int = Field(1, gt=0, le=1_000_000)
    tokens: int = Field(gt=0, le=100_000_000)


class SequenceGroup(Spec):
    """Like sequences in one step."""

    count: int = Field(gt=0, le=1_000_000)
    new_tokens: int = Field(gt=0, le=100_000_000)
    kv_tokens: int = Field(
        gt=0, le=100_000_000, description="KV length attended to, the new tokens included"
    )


class Step(Spec):
    """One step of the engine: exactly one of these."""

    decode: Decode | None = None
    prefill: Prefill | None = None
    mixed: tuple[SequenceGroup, ...] | None = Field(None, min_length=1)
    shapes: dict[str, Annotated[int, Field(gt=0)]] | None = Field(
        None, description="Dims of a graph that is no LLM, as in `{batch: 32}`"
    )


class Workload(Spec):
    """A static batch: `batch` requests of `input` tokens that generate `output` each."""

    batch: int | None = Field(None, gt=0, le=1_000_000)
    concurrency: int | None = Field(None, gt=0, le=1_000_000)
    input: int = Field(gt=0, le=100_000_000)
    output: int = Field(gt=0, le=100_000_000)


class Host(Spec):
    """The machine around the GPU."""

    launch: Seconds | None = Field(
        None, description="Host time per kernel launch; a slow CPU makes eager decode slow"
    )
    cpu: str | None = None


class DeploymentSpec(Spec):
    """A deployment: the question a plan answers."""

    kind: Literal["deployment"] = "deployment"
    name: str = Field("deployment", max_length=200)
    model: str = Field(description="Catalogue name, or path of a model spec")
    gpu: str = Field(description="Catalogue name, or path of a gpu spec")
    parallel: Parallel = Field(default_factory=Parallel)
    precision: Precision = Field(default_factory=Precision)
    backend: Backend = Field(default_factory=lambda: Backend(name="vllm"))
    memory: Memory = Field(default_factory=Memory)
    step: Step | None = None
    workload: Workload | None = None
    host: Host = Field(default_factory=Host)
    calibration: str | None = Field(
        None, description="Catalogue name or path; none = bare roofline"
    )
    price: PricePerHour | None = Field(None, description="Per GPU, as in '0.69 USD/h'")
    nodes: int | None = None
    network: dict[str, Any] | None = None
    speculation: dict[str, Any] | None = None
    prefix_cache: Any = None
    pools: Any = None
    adapters: Any = None


KINDS: dict[str, type[Spec]] = {
    "deployment": DeploymentSpec,
    "model": ModelSpec,
    "block": BlockSpec,
    "gpu": GpuSpec,
    "backend": BackendSpec,
    "calibration": CalibrationSpec,
    "prices": PricesSpec,
}
