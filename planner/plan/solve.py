"""One step of a deployment, solved in every capture mode and rule set."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from planner.capture.decide import decide, fixed_costs
from planner.capture.solve import Problem, Solution
from planner.capture.types import MODES, Decision, FixedCosts, Mode
from planner.cost.adjust import Adjustments, MeasuredEstimator, adjustments
from planner.cost.annotate import BlockCosts, annotate
from planner.cost.constants import Constants, candidates
from planner.cost.engine import Engine, resolve
from planner.cost.estimate import (
    CalibratedEstimator,
    Estimate,
    Estimator,
    RooflineEstimator,
)
from planner.cost.network import Network
from planner.cost.types import Device, KernelWork, device
from planner.errors import SpecError
from planner.fusion.explore import Space
from planner.fusion.groups import RuleSet, Structure, signature, structure
from planner.graph.active import active, idle_symbols
from planner.graph.build import model_graph
from planner.graph.modules import FormatsError, Scheme
from planner.graph.scheme import notes
from planner.graph.stages import layer_count, pipelined, stage_graphs
from planner.graph.types import ModelGraph
from planner.ops.types import ExpertLayout, Formats, Load
from planner.plan.identity import model_digest, spec_digest
from planner.plan.layout import check_experts, expert_layout, routing
from planner.plan.load import StepLoad
from planner.plan.pipeline import MicroBatches, micro_batches, piped
from planner.plan.precision import scheme_of
from planner.spec.question import Question
from planner.spec.types import DeploymentSpec, Scalar


@dataclass(frozen=True, eq=False)
class Prepared:
    """A question with its graph built: all that does not depend on the load."""

    question: Question
    scheme: Scheme
    graph: ModelGraph
    device: Device
    constants: Constants
    """Calibrated constants to draw on, and which of them were."""
    stages: tuple[ModelGraph, ...]
    """What one rank of each pipeline stage holds; of no pipeline the graph itself."""
    adjusted: Adjustments
    """What whole runs on this machine say."""

    @property
    def formats(self) -> Formats:
        """Formats of what no rule names."""
        return self.scheme.formats

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of formats."""
        return notes(self.scheme, self.graph)

    @property
    def stage_layers(self) -> tuple[int, ...]:
        """Layers of each pipeline stage; none without a pipeline."""
        return tuple(map(layer_count, self.stages)) if len(self.stages) > 1 else ()

    def estimator(self, fixed: FixedCosts) -> Estimator:
        """What prices kernels under the question's cost model."""
        if self.question.cost_model == "roofline":
            return RooflineEstimator(fixed.graph_node_s)
        modelled = CalibratedEstimator(
            self.device, self.constants, network_of(self.question.deployment)
        )
        efficiency = self.adjusted.efficiency
        return MeasuredEstimator(modelled, efficiency) if efficiency else modelled

    def engine(self, kind: str) -> Engine:
        """The engine as a step of that kind sees it."""
        question = self.question
        return resolve(question.deployment, question.backend, question.gpu, self.formats, kind)


def network_of(deployment: DeploymentSpec) -> Network | None:
    """What joins the nodes of a deployment; None of a single one.

    Ranks lie side by side: tensor ranks, then stages, then replicas.
    """
    if deployment.network is None or not deployment.nodes:
        return None
    parallel, link = deployment.parallel, deployment.network
    replica = parallel.tensor * parallel.pipeline
    each = replica * parallel.data // deployment.nodes
    return Network(each, link.bandwidth, link.latency, parallel.tensor, replica)


def prepare(question: Question) -> Prepared:
    """Build the graph of a question on one rank. Raises SpecError with every fault."""
    deployment = question.deployment
    chosen = scheme_of(question)
    layout = expert_layout(question, chosen.formats)
    ranks = max(layout.tensor, layout.experts)
    origin = deployment.origin.at("parallel", "tensor" if layout.experts == 1 else "expert")
    if max(ranks, deployment.parallel.pipeline) > 1 and question.gpu.link is None:
        message = (
            f"{question.gpu.title} has no link described, so {ranks} of them cannot share work"
        )
        raise SpecError([origin.fault(message, "set parallel.tensor: 1")])
    try:
        graph = _remembered(
            ("graph", model_digest(question), chosen, layout),
            lambda: model_graph(question.model, question.blocks, chosen, layout=layout),
        )
    except FormatsError:
        raise
    except SpecError as error:
        if ranks == 1:
            raise
        message = f"{question.model.title} does not split over {ranks} GPUs"
        reasons = sorted({fault.message for fault in error.faults})
        raise SpecError([origin.fault(f"{message}: {'; '.join(reasons)}")]) from error
    check_experts(deployment, graph)
    whole, stages = _staged(question, (chosen, layout), graph)
    measured, named, engine = question.calibrations, question.named, question.backend.name
    return Prepared(
        question,
        chosen,
        whole,
        device(question.gpu),
        Constants(candidates(measured, named, question.gpu, engine), question.gpu.name),
        stages,
        adjustments(measured, named, question.gpu.name, engine),
    )


def _staged(
    question: Question, key: Hashable, graph: ModelGraph
) -> tuple[ModelGraph, tuple[ModelGraph, ...]]:
    """The graph with sends between pipeline stages, and what each stage holds.

    ``key`` tells graphs of one model apart.
    Raises SpecError where layers are too few.
    """
    parallel = question.deployment.parallel
    if parallel.pipeline == 1:
        return graph, (graph,)
    origin = question.deployment.origin.at("parallel", "pipeline")
    try:
        found: tuple[ModelGraph, tuple[ModelGraph, ...]] = _remembered(
            ("stages", model_digest(question), key, parallel.pipeline),
            lambda: (
                pipelined(graph, parallel.pipeline),
                stage_graphs(graph, parallel.pipeline),
            ),
        )
    except ValueError as error:
        raise SpecError([origin.fault(str(error), "use fewer stages")]) from error
    return found


def behaviour(engine: Engine, step: StepLoad) -> Hashable:
    """All that an engine's flags and version can change about a step."""
    return signature(engine, "engine"), decide(engine, step.tokens), fixed_costs(engine)


def whole_graph(prepared: Prepared) -> ModelGraph:
    """The model's graph on one rank, whose totals several ranks don't show."""
    question, chosen = prepared.question, prepared.scheme
    key = ("graph", model_digest(question), chosen, ExpertLayout())
    graph: ModelGraph = _remembered(
        key, lambda: model_graph(question.model, question.blocks, chosen)
    )
    return graph


def running(graph: ModelGraph, load: Load) -> ModelGraph:
    """What of a graph a step of that load runs: the same object for all steps of like structure."""
    idle = idle_symbols(graph, load)
    if not idle:
        return graph
    whole, part = _remembered(("active", id(graph), idle), lambda: (graph, active(graph, idle)))
    return part if whole is graph else active(graph, idle)


@dataclass(frozen=True, eq=False)
class SolvedStep:
    """A step in every mode the plan shows."""

    step: StepLoad
    engine: Engine
    fixed: FixedCosts
    decision: Decision
    solutions: dict[Mode, Solution]
    solver: Solver

    @property
    def adjusted(self) -> Adjustments:
        """What whole runs on this machine say."""
        return self.solver.prepared.adjusted

    @property
    def graph(self) -> ModelGraph:
        """What of the model's graph the step runs."""
        return self.solver.graph

    @property
    def costs(self) -> tuple[BlockCosts, ...]:
        """Ledgers of each kind of block without padding."""
        return self.solver.costs(0)

    @property
    def structure(self) -> Structure:
        """The groups that the engine's rules allow."""
        return self.solver.structure("engine")

    @property
    def chosen(self) -> Solution:
        """The solution in the mode the engine's flags select."""
        return self.solutions[self.decision.mode]


def solve_step(
    prepared: Prepared,
    step: StepLoad,
    modes: tuple[Mode, ...] = MODES,
    engine: Engine | None = None,
    like: Solver | None = None,
) -> SolvedStep:
    """Search kernels and capture of one step. The chosen mode is always among the solutions.

    ``engine`` stands in for the deployment's own, as with some flags turned; ``like`` has solved
    the same step with others.
    """
    step, graph = _in_front(prepared.graph, step)
    engine = engine or prepared.engine(step.kind)
    deployment = prepared.question.deployment
    micro = micro_batches(step, deployment.parallel.pipeline)
    decision = decide(engine, micro.part.tokens)
    fixed = fixed_costs(engine, deployment.host.launch, prepared.adjusted)
    graph = running(graph, step.load)
    solver = Solver(prepared, micro, engine, fixed, decision, prepared.estimator(fixed), graph)
    if like:
        solver.learn(like)
    wanted = dict.fromkeys((*modes, decision.mode))
    solutions = {mode: solver.solve("engine", mode) for mode in wanted}
    return SolvedStep(step, engine, fixed, decision, solutions, solver)


def _in_front(graph: ModelGraph, step: StepLoad) -> tuple[StepLoad, ModelGraph]:
    """A step and its graph: behind the encoder where prompts begin that need it, else without."""
    if graph.encoder is None:
        return step, graph
    step = step.with_encoder(graph.encoder_tokens, graph.encoder_items)
    return step, graph.behind_encoder if step.load.encoder else graph.alone


def solve_ideal(solved: SolvedStep) -> Solution:
    """The step in the chosen mode with any group a perfect compiler could build."""
    mode = solved.decision.mode
    return solved.solver.solve("ideal", mode)


def solve_flags(solved: SolvedStep) -> tuple[Solution, dict[str, Scalar]]:
    """The step with the engine's own fusion flags turned for the best, and which to turn.

    The search picks among groups that some flag would allow; what is returned is the step that the
    engine then runs with those flags, so that two flags that get in each other's way cannot both
    be counted. Without a gain the step as it is, and no flags.
    """
    mode, solver = solved.decision.mode, solved.solver
    flags = {}
    if solver.structure("flags").needs_flags:
        flags = solver.solve("flags", mode).flags()
    if flags:
        engine = solved.engine.with_flags(flags)
        turned = solve_step(solver.prepared, solved.step, (), engine, solver).chosen
        if turned.timeline.time_s < solved.chosen.timeline.time_s:
            return turned, flags
    return solved.chosen, {}


@dataclass(eq=False)
class Solver:
    """Prices one step once for every mode and rule set that asks."""

    prepared: Prepared
    micro: MicroBatches
    engine: Engine
    fixed: FixedCosts
    decision: Decision
    estimator: Estimator
    graph: ModelGraph
    """What of the model's graph this step runs."""
    _costs: dict[int, tuple[BlockCosts, ...]] = field(default_factory=dict)
    _known: dict[Hashable, tuple[KernelWork, Estimate]] = field(default_factory=dict)
    _problems: dict[tuple[RuleSet, int], Problem] = field(default_factory=dict)

    def learn(self, other: Solver) -> None:
        """Take over what another knows of the same step, times too where they must be the same."""
        self._costs = other._costs
        if self.fixed == other.fixed:
            self._known = other._known

    def costs(self, padding: int) -> tuple[BlockCosts, ...]:
        """Ledgers of each kind of block with so many rows of padding."""
        if padding not in self._costs:
            spread = routing(self.prepared.question.deployment)
            graph, device = self.graph, self.prepared.device
            load = replace(self.micro.part.load, padding_tokens=padding, routing=spread)
            self._costs[padding] = tuple(
                annotate(block, graph.load_of(kind, load), device)
                for kind, block in enumerate(graph.kinds)
            )
        return self._costs[padding]

    def solve(self, rule_set: RuleSet, mode: Mode) -> Solution:
        """The cheapest kernels in a mode; of a pipeline, with what its stages wait."""
        solution = self.problem(rule_set, mode).solve(mode)
        pipeline = self.prepared.question.deployment.parallel.pipeline
        return piped(solution, self.micro) if pipeline > 1 else solution

    def structure(self, rule_set: RuleSet) -> Structure:
        """The groups of a rule set: they depend on structure and flags, not on sizes."""
        return self._entry(rule_set)[0]

    def _entry(self, rule_set: RuleSet) -> tuple[Structure, dict[bool, Space]]:
        graph, engine = self.graph, self.engine
        key = ("structure", id(graph), spec_digest(engine.spec), signature(engine, rule_set))
        kept: tuple[Structure, dict[bool, Space]] = _remembered(
            key, lambda: (structure(graph, engine, rule_set), {})
        )
        if kept[0].graph is graph:
            return kept
        return structure(graph, engine, rule_set), {}

    def problem(self, rule_set: RuleSet, mode: Mode) -> Problem:
        """The groups of a rule set priced under this load, padded as the mode pads."""
        padding = self.decision.choice(mode).padding_tokens
        if (rule_set, padding) not in self._problems:
            groups, spaces = self._entry(rule_set)
            device = self.prepared.device
            self._problems[rule_set, padding] = Problem(
                groups,
                self.costs(padding),
                device,
                self.engine,
                self.fixed,
                self.estimator,
                self.micro.part.sequences,
                spaces,
                self._known,
            )
        return self._problems[rule_set, padding]


_kept: dict[Any, Any] = {}
_KEPT_MOST = 512


def _remembered(key: Any, make: Callable[[], Any]) -> Any:
    """Structures are pure functions of their key and cost more than any number in them."""
    if key not in _kept:
        if len(_kept) >= _KEPT_MOST:
            _kept.clear()
        _kept[key] = make()
    return _kept[key]
