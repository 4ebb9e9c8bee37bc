"""A plan: a frozen value. What follows from it is computed, not stored twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from planner.display import Displayed
from planner.plan.memory_types import MemoryPlan
from planner.plan.serving_types import ServingPlan
from planner.records import dataclass

FORMAT = 1
"""Version of the plan's JSON. Fields may be added within a version, not renamed."""


@dataclass(frozen=True)
class ModeTime:
    """The step in one capture mode."""

    time_s: float
    launch_share: float
    """Share of the step that is not work: launches, gaps and kernel starts."""
    kernels: int
    launches: int
    """Launches and replays the host makes."""
    available: bool
    reason: str | None
    captured_size: int | None


@dataclass(frozen=True)
class RuleSetTime:
    """The step with the groupings of one rule set, in the plan's mode; or the limit of one kernel
    for each block, or for all of them.
    """

    time_s: float
    kernels: int
    flags: Mapping[str, Any]
    """Flags of the engine that must be turned for it."""
    parts_s: Mapping[str, float] = field(default_factory=dict)
    """Of a limit: how long each resource is needed, and `latency`, the hops of messages that wait
    for each other; in a pipeline of one micro-batch, all stages together."""
    bound: str = ""
    """Of a limit: the part that it is made of, or most of it."""
    messages: int = 0
    """Of a limit: how many messages wait for each other."""
    exposed_s: float = 0.0
    """Of a limit: what latency adds to it; the rest hides behind other parts."""


@dataclass(frozen=True)
class StepTime:
    """The predicted step."""

    time_s: float
    low_s: float | None
    high_s: float | None
    """80 % interval; None where no residuals are known (the bare roofline has none)."""
    mode: str
    kind: str
    """decode, prefill, mixed or shapes."""
    tokens: int | None
    sequences: int | None
    modes: Mapping[str, ModeTime]
    rule_sets: Mapping[str, RuleSetTime]
    fixed_s: Mapping[str, float]
    fixed_sources: Mapping[str, str]
    stages: tuple[int, ...] = ()
    """Layers of each pipeline stage; empty without a pipeline."""
    micro_batches: int = 1
    """Parts in which the step goes through the pipeline; kernels are those of one."""
    waiting_s: float = 0.0
    """Of the step: what the slowest stage makes the others wait."""
    scatter: str = ""
    """Whose whole runs the interval holds the scatter of; empty where it is of kernels alone, or of
    runs on this machine."""
    called_s: float = 0.0
    """What calling its kernels takes the host beyond launches, were there no graph."""


@dataclass(frozen=True)
class NodeRow:
    """One node of one kind of block, unfused, one occurrence on one rank."""

    id: str
    block: str
    repeat: int
    op: str
    dtype: str
    matmul_flops: float
    vector_flops: float
    hbm_bytes: float
    weight_bytes: float
    link_bytes: float
    flops_per_byte: float
    ridge_flops_per_byte: float
    bound: str
    crossing_tokens: float | None
    share: float
    """Share of the unfused roofline step, all repeats counted."""
    composite: bool = False
    """True for a summary row whose parts stand beside it: not to be added into sums."""


@dataclass(frozen=True)
class KernelRow:
    """One kernel of the chosen grouping, all repeats of one kind together."""

    name: str
    engine_name: str
    rule: str | None
    block: str
    repeat: int
    nodes: tuple[str, ...]
    straddles: bool
    launches: int
    matmul_flops: float
    vector_flops: float
    hbm_bytes: float
    unfused_bytes: float
    """HBM bytes of its nodes each run alone."""
    saved_bytes: float
    link_bytes: float
    time_s: float
    """Device time of one occurrence."""
    fixed_s: float
    """What of it is starting and draining."""
    roofline_s: float
    """Its bare roofline: what no kernel beats at the datasheet's rates."""
    low_s: float | None
    high_s: float | None
    """80 % interval of one occurrence; None where no residuals are known."""
    bound: str
    share: float
    evidence: str
    in_graph: bool
    profile_patterns: tuple[str, ...]


@dataclass(frozen=True)
class KernelRun:
    """Kernels that run one after the other, the whole of it ``times`` over."""

    times: int
    """How often they run so."""
    kernels: tuple[int, ...]
    """Positions in the plan's ``kernels``."""


@dataclass(frozen=True)
class ModelSummary:
    """The model behind the plan."""

    name: str
    title: str
    parameters: int
    active_parameters: int
    kv_bytes_per_token: float
    max_context: int | None
    state_bytes_per_sequence: float = 0.0
    """What each sequence keeps whatever its length: recurrent states."""
    tower_parameters: int = 0
    """How many of ``parameters`` are the encoder's, which runs where prompts begin."""

    @property
    def mixture(self) -> bool:
        """Whether a token of text meets less than the whole text model."""
        return self.active_parameters != self.parameters - self.tower_parameters


@dataclass(frozen=True)
class Totals:
    """The whole step, unfused and fused, on one rank."""

    matmul_flops: float
    vector_flops: float
    hbm_bytes: float
    unfused_hbm_bytes: float
    flops_per_byte: float
    """Matrix FLOPs over HBM bytes of the chosen kernels: the byte-weighted mean of the kernels'."""
    roofline_s: float
    """Sum of the kernels' bare rooflines: no step of these kernels beats it."""


@dataclass(frozen=True)
class CostPlan:
    """Money, where a price is given."""

    gpus: int
    price_per_gpu_hour: float | None
    price_per_hour: float | None
    per_million_tokens: float | None
    """Of this step's new tokens, the GPUs busy with nothing else."""


@dataclass(frozen=True)
class WorkloadPlan:
    """A static batch, from its steps."""

    batch: int
    input: int
    output: int
    ttft_s: float
    tpot_s: float
    latency_s: float
    output_tokens_per_s: float
    prefill_steps: int


@dataclass(frozen=True)
class SpeculationPlan:
    """A decode step with draft tokens. The plan's tables are those of its verification."""

    draft: str | None
    """The model that drafts; None where drafting costs nothing."""
    tokens: int
    """Drafts of each sequence and step."""
    yielded: float
    """Tokens a step yields for each sequence, on average."""
    verify_s: float
    """The step of the plan's tables."""
    draft_s: float
    """All steps of the draft model for it."""
    step_s: float
    """Verification and drafting."""
    tpot_s: float
    """`step_s` over what it yields."""
    output_tokens_per_s: float
    """Over all data replicas."""


@dataclass(frozen=True)
class FirstKernel:
    """A kernel that no engine has yet, and what writing it alone would buy."""

    blocks: tuple[str, ...]
    """Labels of the kinds of block that it would start in."""
    nodes: tuple[str, ...]
    repeat: int
    """How often a step would run it."""
    time_s: float
    """Device time of one occurrence, in the first of its blocks."""
    gain_s: float
    """Device time of a step that it saves."""
    launches_saved: int
    """Device launches of a step that it saves."""
    level: str = ""
    """Where what it keeps lies: block, cluster or grid; empty where the GPU's on-chip memory is not
    known, or of attention alone."""
    tile: tuple[int, int] = (0, 0)
    """Rows and columns of its tile."""
    multiprocessors: int = 1
    """So many share a tile, as a cluster."""
    kept_bytes: float = 0.0
    """Sums and rows that each of them keeps."""


@dataclass(frozen=True)
class Plan(Displayed):
    """The answer to a deployment. Identity is ``plan_id``, a hash over ``parts``."""

    format: int
    plan_id: str
    result_hash: str
    name: str
    parts: Mapping[str, str]
    """SHA-256 of model, precision, parallel, device, backend, workload, calibration, cost_model."""
    described: Mapping[str, str]
    """What each part is, in words."""
    gpu: str
    backend: str
    deployment: Mapping[str, Any]
    """The deployment as a spec that plans again."""
    model: ModelSummary
    step: StepTime
    memory: MemoryPlan
    totals: Totals
    nodes: tuple[NodeRow, ...]
    kernels: tuple[KernelRow, ...]
    refusals: tuple[str, ...]
    """Why rules of the engine did not run, a sentence each."""
    captured_sizes: tuple[int, ...]
    workload: WorkloadPlan | None
    cost: CostPlan
    notes: tuple[str, ...]
    order: tuple[KernelRun, ...] = ()
    """The step in order of execution; empty in a plan stored before it was kept."""
    first_kernels: tuple[FirstKernel, ...] = ()
    """Single kernels worth writing, the best first."""
    speculation: SpeculationPlan | None = None
    """Drafting and verification together; None where nothing is drafted."""
    serving: ServingPlan | None = None
    """What users see of a closed loop; None of any other load."""
