"""Deployments: the question a plan answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from planner.spec.kinds.base import Scalar, Spec
from planner.spec.kinds.precision import Precision
from planner.spec.quantity import BytesPerS, PricePerHour, Seconds


class Parallel(Spec):
    """How many GPUs, and how they share the work.

    GPUs used = tensor × pipeline × data × prefill_context.
    """

    tensor: int = Field(1, ge=1, le=1024)
    pipeline: int = Field(1, ge=1, le=1024)
    expert: int = Field(1, ge=1, le=1024)
    data: int = Field(1, ge=1, le=1024)
    context: int = Field(
        1,
        ge=1,
        le=1024,
        description="Tensor ranks that share each sequence's KV cache, where by default each holds"
        " all of it for its heads (decode context parallelism); adds no GPUs",
    )
    prefill_context: int = Field(
        1,
        ge=1,
        le=1024,
        description="Groups of tensor ranks that share the tokens of each prompt, and repeat"
        " decoding (prefill context parallelism)",
    )

    @property
    def replica(self) -> int:
        """GPUs of one data replica."""
        return self.tensor * self.pipeline * self.prefill_context

    @property
    def gpus(self) -> int:
        """GPUs used."""
        return self.replica * self.data


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
    items: int | None = Field(
        None,
        ge=0,
        le=100_000,
        description="Images or windows of sound that each prompt brings for the model's encoder;"
        " the tokens they become in the prompt are part of `tokens`",
    )
    item_tokens: int | None = Field(
        None,
        gt=0,
        le=10_000_000,
        description="Patches or frames of one; by default as the model says",
    )


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
    """Requests of `input` tokens that generate `output` each: exactly one of `batch`,
    `concurrency`, `rate` and `trace`.
    """

    batch: int | None = Field(
        None, gt=0, le=1_000_000, description="A static batch: so many at once, then no more"
    )
    concurrency: int | None = Field(
        None,
        gt=0,
        le=1_000_000,
        description="A closed loop: so many users, each of which sends its next request when the"
        " last one is answered",
    )
    rate: float | None = Field(
        None,
        gt=0,
        le=1_000_000,
        description="An open loop: requests a second over all data replicas, sent (a Poisson"
        " process) whatever became of those before",
    )
    trace: str | None = Field(
        None,
        max_length=4096,
        description="A file of requests with the time each was sent at: CSV with the columns"
        " TIMESTAMP, ContextTokens and GeneratedTokens of the Azure LLM inference traces, or"
        " arrival_s, input and output; or lines of JSON with Mooncake's timestamp (ms),"
        " input_length and output_length. A relative path begins at the deployment's folder",
    )
    input: int = Field(
        0,
        gt=0,
        le=100_000_000,
        description="Prompt tokens of each request; needed without a trace",
    )
    output: int = Field(
        0,
        gt=0,
        le=100_000_000,
        description="Tokens that each generates; needed without a trace",
    )
    spread: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="How far lengths vary: evenly between (1 − spread) of `input` and `output` and"
        " the whole, so that 0.2 is --random-range-ratio 0.8 of benchmark tools. By default not at"
        " all, and then users in a closed loop stay in step with each other",
    )
    burstiness: float | None = Field(
        None,
        gt=0,
        le=1000,
        description="Shape of the gamma distribution of the times between requests of a `rate`: 1,"
        " the default, is a Poisson process, less comes in bursts, more is more even",
    )
    cached: float | None = Field(
        None, ge=0, lt=1, description="Share of a prompt's tokens that the prefix cache holds"
    )
    requests: int | None = Field(
        None,
        gt=0,
        le=1_000_000_000,
        description="Requests of a run that is counted from the first to the last, and of a closed"
        " loop begins with all users at once; by default without end",
    )


class Experts(Spec):
    """How the router of a mixture of experts is taken to choose."""

    load: Literal["uniform", "balanced", "power-law"] = Field(
        "uniform",
        description="`uniform`: every expert as likely as any other; `balanced`: as many tokens"
        " for each; `power-law`: some far more popular, as benchmarks draw them",
    )
    alpha: float = Field(
        1.2, gt=0, le=4, description="Exponent of the power law; 1.01 and 1.2 are customary"
    )


class Speculation(Spec):
    """Draft tokens that a step verifies together: `tokens` + 1 of each sequence."""

    tokens: int = Field(gt=0, le=64, description="Draft tokens of each sequence and step")
    draft: str | None = Field(
        None,
        description="The model that drafts, one step a token: a catalogue name, or a path, as of"
        " an EAGLE or multi-token-prediction head; none where drafting is free (n-grams)",
    )
    acceptance: float | None = Field(
        None, gt=0, le=1, description="Chance of a draft token, if those before it were accepted"
    )
    length: float | None = Field(
        None, ge=1, description="Tokens a step yields, measured; instead of `acceptance`"
    )


class Host(Spec):
    """The machine around the GPU."""

    launch: Seconds | None = Field(
        None,
        le=1,
        description="Host time per kernel launch, up to 1 s; a slow CPU makes eager decode slow",
    )
    cpu: str | None = None


class NetworkSpec(Spec):
    """What joins the nodes of a deployment."""

    bandwidth: BytesPerS = Field(description="Of one GPU's share of the cards, each way")
    latency: Seconds = Field(description="One message between two nodes")


class Pool(Spec):
    """Servers that only compute prompts, or only decode. What it leaves out is the deployment's."""

    gpu: str | None = Field(None, description="Catalogue name, or path of a gpu spec")
    parallel: Parallel | None = Field(None, description="`data` is the number of servers")
    flags: dict[str, Scalar] = Field(
        default_factory=dict, description="Of the engine, beside those of the deployment"
    )


class PoolLink(Spec):
    """What a prompt's KV cache crosses."""

    bandwidth: BytesPerS = Field(description="Out of one prefill server")
    latency: Seconds = Field(description="Before the first byte of a prompt's KV is there")


class Pools(Spec):
    """Prefill and decode on servers of their own, joined by a link."""

    prefill: Pool = Field(default_factory=Pool)
    decode: Pool = Field(default_factory=Pool)
    link: PoolLink


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
    experts: Experts = Field(default_factory=Experts)
    calibration: str | None = Field(
        None, description="Catalogue name or path; by default the nearest one of the catalogue"
    )
    price: PricePerHour | None = Field(None, description="Per GPU, as in '0.69 USD/h'")
    nodes: int | None = Field(
        None, ge=1, le=10_000, description="Machines that share the GPUs evenly; by default one"
    )
    network: NetworkSpec | None = None
    speculation: Speculation | None = None
    prefix_cache: Any = None
    pools: Pools | None = Field(
        None,
        description="Disaggregated serving: prompts on some servers, decoding on others;"
        " `planner simulate` runs it",
    )
    adapters: Any = None
