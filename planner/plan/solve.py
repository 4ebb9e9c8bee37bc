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
    Estimator,
    RooflineEstimator,
)
from planner.cost.types import Device, device
from planner.errors import SpecError
from planner.fusion.explore import Space
from planner.fusion.groups import RuleSet, Structure, signature, structure
from planner.graph.build import model_graph
from planner.graph.formats import asked
from planner.graph.modules import Scheme
from planner.graph.scheme import Engine as EngineFormats
from planner.graph.scheme import scheme
from planner.graph.types import ModelGraph
from planner.ops.types import Formats
from planner.plan.identity import model_digest, spec_digest
from planner.plan.load import StepLoad
from planner.spec.question import Question
from planner.spec.types import Scalar


@dataclass(frozen=True, eq=False)
class Prepared:
    """A question with its graph built: all that does not depend on the load."""

    question: Question
    scheme: Scheme
    graph: ModelGraph
    device: Device
    constants: Constants
    """Calibrated constants to draw on, and which of them were."""
    adjusted: Adjustments
    """What whole runs on this machine say."""

    @property
    def formats(self) -> Formats:
        """Formats of what no rule names."""
        return self.scheme.formats

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of formats."""
        return self.scheme.notes

    def estimator(self, fixed: FixedCosts) -> Estimator:
        """What prices kernels under the question's cost model."""
        if self.question.cost_model == "roofline":
            return RooflineEstimator(fixed.graph_node_s)
        modelled = CalibratedEstimator(self.device, self.constants)
        efficiency = self.adjusted.efficiency
        return MeasuredEstimator(modelled, efficiency) if efficiency else modelled

    def engine(self, kind: str) -> Engine:
        """The engine as a step of that kind sees it."""
        question = self.question
        return resolve(question.deployment, question.backend, question.gpu, self.formats, kind)


def running(question: Question) -> Scheme:
    """The formats of every module as the engine runs them on the GPU. Raises SpecError."""
    deployment, gpu, backend = question.deployment, question.gpu, question.backend
    wanted = asked(deployment, question.model, gpu)
    facts = resolve(deployment, backend, gpu, wanted.formats, "decode").facts
    blocks = (*question.blocks.values(), *question.model.blocks.values())
    ops = (node.op for block in blocks for node in block.nodes.values())
    engine = EngineFormats(backend.title, backend.formats, facts)
    return scheme(wanted, gpu, ops, engine, deployment.origin)


def prepare(question: Question) -> Prepared:
    """Build the graph of a question on one rank. Raises SpecError with every fault."""
    deployment = question.deployment
    chosen = running(question)
    ranks = deployment.parallel.tensor
    origin = deployment.origin.at("parallel", "tensor")
    if ranks > 1 and question.gpu.link is None:
        message = (
            f"{question.gpu.title} has no link described, so {ranks} of them cannot share work"
        )
        raise SpecError([origin.fault(message, "set parallel.tensor: 1")])
    try:
        graph = _remembered(
            ("graph", model_digest(question), chosen, ranks),
            lambda: model_graph(question.model, question.blocks, chosen, ranks),
        )
    except SpecError as error:
        if ranks == 1:
            raise
        message = f"{question.model.title} does not split over {ranks} GPUs"
        reasons = sorted({fault.message for fault in error.faults})
        raise SpecError([origin.fault(f"{message}: {'; '.join(reasons)}")]) from error
    measured, named, engine = question.calibrations, question.named, question.backend.name
    return Prepared(
        question,
        chosen,
        graph,
        device(question.gpu),
        Constants(candidates(measured, named, question.gpu, engine), question.gpu.name),
        adjustments(measured, named, question.gpu.name, engine),
    )


def behaviour(engine: Engine, step: StepLoad) -> Hashable:
    """All that an engine's flags and version can change about a step."""
    return signature(engine, "engine"), decide(engine, step.tokens), fixed_costs(engine)


def whole_graph(prepared: Prepared) -> ModelGraph:
    """The model's graph on one rank, whose totals several ranks don't show."""
    question, chosen = prepared.question, prepared.scheme
    key = ("graph", model_digest(question), chosen, 1)
    graph: ModelGraph = _remembered(
        key, lambda: model_graph(question.model, question.blocks, chosen)
    )
    return graph


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
) -> SolvedStep:
    """Search kernels and capture of one step. The chosen mode is always among the solutions.

    ``engine`` stands in for the deployment's own, as with some flags turned.
    """
    engine = engine or prepared.engine(step.kind)
    deployment = prepared.question.deployment
    decision = decide(engine, step.tokens)
    fixed = fixed_costs(engine, deployment.host.launch, prepared.adjusted)
    solver = Solver(prepared, step, engine, fixed, decision, prepared.estimator(fixed))
    wanted = dict.fromkeys((*modes, decision.mode))
    solutions = {mode: solver.problem("engine", mode).solve(mode) for mode in wanted}
    return SolvedStep(step, engine, fixed, decision, solutions, solver)


def solve_ideal(solved: SolvedStep) -> Solution:
    """The step in the chosen mode with any group a perfect compiler could build."""
    mode = solved.decision.mode
    return solved.solver.problem("ideal", mode).solve(mode)


def solve_flags(solved: SolvedStep) -> tuple[Solution, dict[str, Scalar]]:
    """The step with the engine's own fusion flags turned for the best, and which to turn.

    The search picks among groups that some flag would allow; what is returned is the step that the
    engine then runs with those flags, so that two flags that get in each other's way cannot both
    be counted. Without a gain the step as it is, and no flags.
    """
    mode, solver = solved.decision.mode, solved.solver
    flags = {}
    if solver.structure("flags").needs_flags:
        flags = solver.problem("flags", mode).solve(mode).flags()
    if flags:
        engine = solved.engine.with_flags(flags)
        turned = solve_step(solver.prepared, solved.step, (), engine).chosen
        if turned.timeline.time_s < solved.chosen.timeline.time_s:
            return turned, flags
    return solved.chosen, {}


@dataclass(eq=False)
class Solver:
    """Prices one step once for every mode and rule set that asks."""

    prepared: Prepared
    step: StepLoad
    engine: Engine
    fixed: FixedCosts
    decision: Decision
    estimator: Estimator
    _costs: dict[int, tuple[BlockCosts, ...]] = field(default_factory=dict)
    _problems: dict[tuple[RuleSet, int], Problem] = field(default_factory=dict)

    def costs(self, padding: int) -> tuple[BlockCosts, ...]:
        """Ledgers of each kind of block with so many rows of padding."""
        if padding not in self._costs:
            load = replace(self.step.load, padding_tokens=padding)
            self._costs[padding] = tuple(
                annotate(block, load, self.prepared.device) for block in self.prepared.graph.kinds
            )
        return self._costs[padding]

    def structure(self, rule_set: RuleSet) -> Structure:
        """The groups of a rule set: they depend on structure and flags, not on sizes."""
        return self._entry(rule_set)[0]

    def _entry(self, rule_set: RuleSet) -> tuple[Structure, dict[bool, Space]]:
        graph, engine = self.prepared.graph, self.engine
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
                self.step.sequences,
                spaces,
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
