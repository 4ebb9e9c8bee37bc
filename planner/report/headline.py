"""The first lines of a plan: how fast, whether it fits, what it costs, how far to trust it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from planner.plan.memory_types import MemoryPlan
from planner.plan.types import ModeTime, Plan, SpeculationPlan, StepTime
from planner.report.cells import DOT, facts, rate, usd, words
from planner.report.serving import serving_line
from planner.units import show_bytes, show_count, show_seconds

_UNITS = {"prefill": "prompt tokens/s", "shapes": "steps/s"}


def headline(plan: Plan) -> RenderableType:
    """Step time, throughput and mode; the fit; the cost; the interval or why there is none."""
    lines: list[RenderableType] = [words(DOT.join(_speed(plan)), "bold"), fit_line(plan.memory)]
    if not plan.memory.fits:
        lines.reverse()
    if plan.speculation:
        lines.append(words(_speculation(plan.speculation)))
    if plan.workload:
        lines.append(words(_workload(plan)))
    if plan.serving:
        lines.append(words(serving_line(plan.serving)))
    if plan.cost.price_per_hour is not None:
        lines.append(words(_price(plan)))
    lines.append(words(confidence(plan), "dim"))
    return Group(*lines)


def tokens_per_s(plan: Plan) -> float:
    """New tokens a second over all data replicas; steps a second for a graph that is no LLM."""
    if plan.speculation:
        return plan.speculation.output_tokens_per_s
    replicas = int(plan.deployment.get("parallel", {}).get("data", 1))
    return (plan.step.tokens or 1) * replicas / plan.step.time_s


def _speed(plan: Plan) -> list[str]:
    step = plan.step
    unit = _UNITS.get(step.kind, "tokens/s")
    return [
        f"{show_seconds(step.time_s)} a step",
        f"{rate(tokens_per_s(plan))} {unit}",
        mode_words(step),
    ]


def _speculation(found: SpeculationPlan) -> str:
    drafter = f"{found.draft} drafts in {show_seconds(found.draft_s)}" if found.draft else "drafts"
    return (
        f"speculation: {drafter}, {found.tokens + 1} tokens a sequence verified in "
        f"{show_seconds(found.verify_s)}; {found.yielded:.2f} of them stay: "
        f"{show_seconds(found.tpot_s)} a token"
    )


def mode_words(step: StepTime) -> str:
    """The capture mode, and what the load is padded to."""
    chosen = step.modes[step.mode]
    if step.mode == "eager":
        return "CUDA Graph: none (eager)"
    padded = captured(chosen, step)
    return f"CUDA Graph: {step.mode}" + (f" ({padded})" if padded else "")


def captured(mode: ModeTime, step: StepTime) -> str:
    """What a captured mode runs the load as; empty where it captures the shapes themselves."""
    if mode.captured_size is None or step.tokens is None:
        return ""
    what = "batch" if step.kind == "decode" else "tokens"
    return f"{what} {step.tokens:,} captured as {mode.captured_size:,}"


def fit_line(memory: MemoryPlan) -> Text:
    """The verdict with its amounts."""
    word = "KV and state" if memory.state_bytes_per_sequence else "KV"
    cache = f" + {show_bytes(memory.kv_bytes)} {word}" if memory.kv_bytes else ""
    amounts = (
        f"{show_bytes(memory.weights_bytes)} weights{cache}"
        f" of {show_bytes(memory.budget_bytes)} a GPU"
    )
    if memory.fits:
        return words(f"fits: {amounts}", "green")
    missing = show_bytes(memory.missing_bytes)
    return words(f"DOES NOT FIT: {missing} missing, {amounts}", "bold red")


def nearest_fit(memory: MemoryPlan) -> RenderableType:
    """Changes that would make it fit, as the command line takes them."""
    if not memory.nearest_fit:
        return words("no single change that was tried makes it fit", "red")
    lines = [words(f"  --set {change}") for change in memory.nearest_fit]
    return Group(words("any one of these would fit:"), *lines)


def _workload(plan: Plan) -> str:
    load = plan.workload
    assert load is not None
    return (
        f"static batch of {load.batch:,}: first token {show_seconds(load.ttft_s)}, then "
        f"{show_seconds(load.tpot_s)} a token; all done in {show_seconds(load.latency_s)}, "
        f"{rate(load.output_tokens_per_s)} output tokens/s"
    )


def _price(plan: Plan) -> str:
    cost = plan.cost
    assert cost.price_per_hour is not None
    gpus = f" for {cost.gpus} GPUs" if cost.gpus > 1 else ""
    text = f"{usd(cost.price_per_hour)}/h{gpus}"
    if cost.per_million_tokens is None:
        return text
    return f"{text}{DOT}{usd(cost.per_million_tokens)} per million tokens of this step"


def confidence(plan: Plan) -> str:
    """The interval, or why there is none."""
    step = plan.step
    if step.low_s is not None and step.high_s is not None:
        said = f"80 % interval: {show_seconds(step.low_s)} to {show_seconds(step.high_s)}"
        return f"{said} (kernels, and {step.scatter})" if step.scatter else said
    kinds = len(plan.kernels)
    bare = sum(row.evidence == "datasheet" for row in plan.kernels)
    if bare < kinds:
        return f"no interval: {bare} of the {kinds} kinds of kernel have no measured residuals"
    return (
        "lower bound: bare roofline + documented fixed costs, no interval yet: "
        "no measured residuals"
    )


def question(plan: Plan) -> Table:
    """What is planned."""
    said = plan.described
    model = plan.model
    size = f"{show_count(model.parameters)} parameters"
    if model.tower_parameters:
        size += f", {show_count(model.tower_parameters)} of them in the encoder"
    if model.mixture:
        size += f", {show_count(model.active_parameters)} active"
    if model.kv_bytes_per_token:
        size += f", {show_bytes(model.kv_bytes_per_token)} of KV cache a token"
    if model.state_bytes_per_sequence:
        size += f", {show_bytes(model.state_bytes_per_sequence)} of state a sequence"
    parallel = "" if plan.cost.gpus == 1 else f" × {plan.cost.gpus} ({said['parallel']})"
    return facts(
        [
            ("deployment", plan.name),
            ("model", f"{said['model']} ({size})"),
            ("GPU", said["device"] + parallel),
            ("engine", said["backend"]),
            ("precision", said["precision"]),
            ("load", said["workload"]),
        ]
    )
