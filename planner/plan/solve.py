"""One step of a deployment, solved in every capture mode and rule set."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from planner.capture.decide import decide, fixed_costs
from planner.capture.layout import Layout, layout, splitting
from planner.capture.solve import Problem, Solution
from planner.capture.types import MODES, Decision, FixedCosts, Mode
from planner.cost.adjust import Adjustments
from planner.cost.annotate import BlockCosts, annotate
from planner.cost.engine import Engine
from planner.cost.estimator import Estimate, Estimator, Kernel
from planner.fusion.groups import RuleSet, Structure, signature, structure
from planner.graph.active import active, idle_symbols
from planner.graph.types import ModelGraph
from planner.ops.context_prompts import shared_prompts
from planner.ops.types import ExpertLayout, Load
from planner.plan.context import check_prompts
from planner.plan.identity import spec_digest
from planner.plan.layout import routing
from planner.plan.load import StepLoad
from planner.plan.memo import remembered
from planner.plan.pipeline import MicroBatches, micro_batches, piped
from planner.plan.prepare import Prepared
from planner.spec.types import Scalar


def behaviour(engine: Engine, step: StepLoad, graph: ModelGraph) -> Hashable:
    """All that an engine's flags and version can change about a step of a graph."""
    groups = signature(engine, "engine", graph.op_names)
    return groups, decide(engine, step.tokens), fixed_costs(engine)


def running(graph: ModelGraph, load: Load) -> ModelGraph:
    """What of a graph a step of that load runs: the same object for all steps of like structure."""
    idle = idle_symbols(graph, load)
    if not idle:
        return graph
    whole, part = remembered(("active", id(graph), idle), lambda: (graph, active(graph, idle)))
    return part if whole is graph else active(graph, idle)


def layout_of(graph: ModelGraph, engine: Engine, rule_set: RuleSet) -> Layout:
    """The groups of a rule set and the search they make, found once for all loads and GPUs."""

    def new() -> Layout:
        return layout(structure(graph, engine, rule_set), engine)

    spec = spec_digest(engine.spec)
    rules = signature(engine, rule_set, graph.op_names)
    key = ("layout", id(graph), spec, rules, splitting(engine))
    kept: Layout = remembered(key, new)
    # an id may be that of a graph that is gone
    return kept if kept.structure.graph is graph else new()


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
    check_prompts(deployment, prepared.layout, step.kind)
    micro = micro_batches(_on_one_group(step, prepared.layout), deployment.parallel.pipeline)
    decision = decide(engine, micro.part.tokens)
    fixed = fixed_costs(engine, deployment.host.launch, prepared.adjusted)
    graph = running(graph, step.load)
    solver = Solver(prepared, micro, engine, fixed, decision, prepared.estimator(fixed), graph)
    if like:
        solver.learn(like)
    wanted = dict.fromkeys((*modes, decision.mode))
    solutions = {mode: solver.solve("engine", mode) for mode in wanted}
    return SolvedStep(step, engine, fixed, decision, solutions, solver)


def _on_one_group(step: StepLoad, layout: ExpertLayout) -> StepLoad:
    """The step of one of the groups of ranks that share prompts."""
    return replace(step, load=shared_prompts(step.load, layout.prompts))


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
    _known: dict[int, dict[str, tuple[Kernel, Estimate]]] = field(default_factory=dict)
    _problems: dict[tuple[RuleSet, int], Problem] = field(default_factory=dict)

    def learn(self, other: Solver) -> None:
        """Take over what another knows of the same step, times too where they must be the same."""
        self._costs = other._costs
        if self.fixed == other.fixed:
            self._known, self.estimator = other._known, other.estimator

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
        return layout_of(self.graph, self.engine, rule_set).structure

    def problem(self, rule_set: RuleSet, mode: Mode) -> Problem:
        """The groups of a rule set priced under this load, padded as the mode pads."""
        padding = self.decision.choice(mode).padding_tokens
        if (rule_set, padding) not in self._problems:
            self._problems[rule_set, padding] = Problem(
                layout_of(self.graph, self.engine, rule_set),
                self.costs(padding),
                self.prepared.device,
                self.engine,
                self.fixed,
                self.estimator,
                self.micro.part.sequences,
                self._known.setdefault(padding, {}),
            )
        return self._problems[rule_set, padding]
