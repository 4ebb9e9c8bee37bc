"""From a question to its plan: every pass in order."""

from __future__ import annotations

from typing import Any

from planner.capture.solve import Solution
from planner.capture.types import MODE_WORDS, ModeChoice
from planner.cost.engine import Engine, flag_text
from planner.fusion.groups import RuleSet, refused_rules
from planner.graph.totals import (
    active_parameters,
    kv_bytes_per_token,
    parameters,
    state_bytes_per_sequence,
)
from planner.plan.first_kernel import first_kernels
from planner.plan.identity import digest, parts, plan_id
from planner.plan.interval import ENOUGH_RUNS, interval, spread_width
from planner.plan.load import StepLoad, check_encoder_alone, check_load, step_load
from planner.plan.megakernel import megakernels
from planner.plan.notes import notes
from planner.plan.precision import described
from planner.plan.prepare import Prepared, prepare, whole_graph
from planner.plan.rows import kernel_order, kernel_rows, node_rows, totals
from planner.plan.solve import SolvedStep, solve_flags, solve_ideal, solve_step
from planner.plan.speculation import speculation_plan
from planner.plan.start import whole_memory_plan
from planner.plan.types import (
    FORMAT,
    CostPlan,
    ModelSummary,
    ModeTime,
    Plan,
    RuleSetTime,
    StepTime,
    WorkloadPlan,
)
from planner.plan.values import plain
from planner.plan.workload import workload_plan
from planner.spec.question import Question
from planner.spec.types import DeploymentSpec, Parallel, Scalar
from planner.units import show_seconds


def assemble(question: Question, load: StepLoad | None = None) -> Plan:
    """The plan of a deployment. Pure: the same question gives the same plan, to the bit.

    ``load`` stands for the step of a workload whose steps are found elsewhere.
    """
    deployment, prepared = question.deployment, prepare(question)
    step = _checked(prepared, load or step_load(deployment))
    solved = solve_step(prepared, step)
    ideal = solve_ideal(solved)
    nodes = node_rows(solved.graph, solved.costs, prepared.device)
    kernels = kernel_rows(solved)
    hashes = parts(question, prepared.scheme, solved.engine)
    times = _step_time(solved, _rule_sets(solved, ideal))
    memory, workload = whole_memory_plan(prepared, step), _batch(prepared)
    result = digest([plain(each) for each in (times, memory, kernels, nodes, workload)])
    return Plan(
        FORMAT,
        plan_id(hashes),
        result,
        deployment.name,
        hashes,
        _described(prepared, solved),
        question.gpu.name,
        question.backend.name,
        deployment.model_dump(mode="json", by_alias=True, exclude_none=True),
        _model(prepared),
        times,
        memory,
        totals(kernels, nodes),
        nodes,
        kernels,
        refused_rules(solved.structure, solved.engine),
        solved.decision.sizes,
        workload,
        _cost(question, times),
        notes(prepared, solved, memory, ideal),
        kernel_order(solved, kernels),
        first_kernels(solved, ideal),
        speculation_plan(prepared, step, times.time_s),
    )


def _checked(prepared: Prepared, step: StepLoad) -> StepLoad:
    """The step, if the graph can run it. Raises SpecError at its place."""
    deployment, graph = prepared.question.deployment, prepared.graph
    check_load(deployment, step, graph.symbols)
    check_encoder_alone(deployment, step, graph)
    return step


def _batch(prepared: Prepared) -> WorkloadPlan | None:
    """The static batch that is asked for; None of any other load."""
    asked = prepared.question.deployment.workload
    return workload_plan(prepared, asked) if asked and asked.batch else None


def _rule_sets(solved: SolvedStep, ideal: Solution) -> dict[str, RuleSetTime]:
    best, flags = solve_flags(solved)
    found: dict[RuleSet, tuple[Solution, dict[str, Scalar]]] = {
        "engine": (solved.chosen, {}),
        "flags": (best, flags),
        "ideal": _captured_alike(solved, ideal, best, flags),
    }
    rows: dict[str, RuleSetTime] = {
        name: RuleSetTime(solution.timeline.time_s, solution.kernel_count, turned)
        for name, (solution, turned) in found.items()
    }
    return rows | megakernels(solved)


def _captured_alike(
    solved: SolvedStep, ideal: Solution, best: Solution, flags: dict[str, Scalar]
) -> tuple[Solution, dict[str, Scalar]]:
    """The ideal step, with the best flags too where these change how the step is captured."""
    if best.mode == ideal.mode:
        return ideal, {}
    solver, engine = solved.solver, solved.engine.with_flags(flags)
    turned = solve_ideal(solve_step(solver.prepared, solved.step, (), engine, solver))
    return (turned, flags) if turned.timeline.time_s < ideal.timeline.time_s else (ideal, {})


def _step_time(solved: SolvedStep, rule_sets: dict[str, RuleSetTime]) -> StepTime:
    chosen = solved.chosen
    step, fixed = solved.step, solved.fixed
    spread = spread_width(solved.solver.prepared.question, "pace")
    low_s, high_s = interval(chosen, step.kind, solved.adjusted.runs, spread) or (None, None)
    modes = {
        MODE_WORDS[mode]: _mode_time(solution, solved.decision.choice(mode))
        for mode, solution in solved.solutions.items()
    }
    return StepTime(
        chosen.timeline.time_s,
        low_s,
        high_s,
        MODE_WORDS[solved.decision.mode],
        step.kind,
        step.tokens,
        step.sequences,
        modes,
        rule_sets,
        {f"{name}_s": getattr(fixed, f"{name}_s") for name, _ in fixed.sources},
        dict(fixed.sources),
        solved.solver.prepared.stage_layers,
        solved.solver.micro.count,
        chosen.timeline.waiting_s,
        _scatter(solved) if spread and low_s is not None else "",
        sum(run.times * kernel.called_s for run in chosen.runs for kernel in run.kernels),
    )


def _scatter(solved: SolvedStep) -> str:
    """Whose whole runs make an interval wider; none once there are enough of this machine's."""
    question, runs = solved.solver.prepared.question, solved.adjusted.runs
    if question.spread is None or (runs and runs.count >= ENOUGH_RUNS):
        return ""
    known = question.spread.of(question.gpu.vendor)
    return f"{known['pace'].reports} reports of whole runs" if known else ""


def _mode_time(solution: Solution, choice: ModeChoice) -> ModeTime:
    line = solution.timeline
    return ModeTime(
        line.time_s,
        line.launch_share,
        solution.kernel_count,
        line.launches,
        choice.available,
        choice.reason,
        choice.captured_size,
    )


def _model(prepared: Prepared) -> ModelSummary:
    """Totals of the whole model."""
    model, whole = prepared.question.model, whole_graph(prepared)
    return ModelSummary(
        model.name,
        model.title,
        parameters(whole),
        active_parameters(whole),
        kv_bytes_per_token(whole),
        model.max_context,
        state_bytes_per_sequence(whole),
        parameters(whole) - parameters(whole.alone),
    )


def _described(prepared: Prepared, solved: SolvedStep) -> dict[str, str]:
    question = prepared.question
    deployment = question.deployment
    parallel = deployment.parallel
    return {
        "model": question.model.title,
        "precision": described(prepared.scheme),
        "parallel": describe_parallel(parallel) + _over(deployment),
        "device": question.gpu.title,
        "backend": _describe_backend(question, solved.engine),
        "workload": describe_load(deployment, solved.step),
        "calibration": _describe_constants(prepared),
        "cost_model": _COST_MODELS[question.cost_model],
    }


def describe_parallel(parallel: Parallel) -> str:
    """Ranks by kind; stages and experts only where there are several."""
    ways = {name: getattr(parallel, name) for name in ("tensor", "pipeline", "data", "expert")}
    shown = {name: n for name, n in ways.items() if n > 1 or name in {"tensor", "data"}}
    return ", ".join(f"{name} {n}" for name, n in shown.items())


def _over(deployment: DeploymentSpec) -> str:
    """The nodes that ranks lie on."""
    return f", on {deployment.nodes} nodes" if (deployment.nodes or 1) > 1 else ""


_COST_MODELS = {
    "calibrated": "kernel models with fitted constants, plus documented launch costs",
    "roofline": "bare roofline plus documented fixed costs",
}


def _describe_constants(prepared: Prepared) -> str:
    """Whose constants priced the step, the most used first."""
    used = prepared.constants.used.values()
    if prepared.question.cost_model == "roofline" or not used:
        return "none (bare roofline)"
    lent = [f"{f.source.split(':')[0]} ({f.evidence})" for f in used if f.measured]
    lent = lent or ["none measured: typical values (datasheet)"]
    adjusting = [f"{name} ({evidence})" for name, evidence in prepared.adjusted.names.items()]
    spread = prepared.question.spread
    scatter = [f"{spread.name} of {spread.date} (interval)"] if spread else []
    return ", ".join(dict.fromkeys([*lent, *adjusting, *scatter]))


def _describe_backend(question: Question, engine: Engine) -> str:
    """Engine and version, then what the deployment sets itself."""
    deployment = question.deployment
    said = [f"{question.backend.title} {engine.version}"]
    said += [f"{name} {flag_text(value)}" for name, value in deployment.backend.flags.items()]
    if deployment.memory.utilization is not None:
        said.append(f"utilization {deployment.memory.utilization:g}")
    if deployment.host.launch is not None:
        said.append(f"host launch {show_seconds(deployment.host.launch)}")
    return ", ".join(said)


def describe_load(deployment: Any, step: StepLoad) -> str:
    """The load in words, as the user put it."""
    if deployment.workload:
        w = deployment.workload
        who = f"static batch of {w.batch}" if w.batch else f"{w.concurrency} users in a closed loop"
        if w.rate is not None:
            who = f"{w.rate:g} requests a second"
        upto = "up to " if w.spread else ""
        return f"{who}, {upto}{w.input} tokens in, {upto}{w.output} out"
    s = deployment.step
    if s.decode:
        return f"decode, batch {s.decode.batch}, context {s.decode.context:,}"
    if s.prefill:
        return f"prefill, batch {s.prefill.batch}, {s.prefill.tokens:,} tokens each"
    if s.mixed:
        groups = " + ".join(f"{g.count}×{g.new_tokens}@{g.kv_tokens}" for g in s.mixed)
        return f"mixed step of {step.tokens:,} tokens: {groups}"
    return ", ".join(f"{name} {size}" for name, size in (s.shapes or {}).items())


def _cost(question: Question, times: StepTime) -> CostPlan:
    deployment = question.deployment
    parallel = deployment.parallel
    gpus = parallel.gpus
    price = deployment.price
    per_hour = price * gpus if price is not None else None
    million = None
    if per_hour is not None and times.tokens:
        million = per_hour / 3600 * times.time_s / (times.tokens * parallel.data) * 1e6
    return CostPlan(gpus, price, per_hour, million)
