"""A question with its graph built on one rank: all that no load changes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from planner.capture.types import FixedCosts
from planner.cost.adjust import Adjustments, MeasuredEstimator, adjustments
from planner.cost.constants import Constants, candidates
from planner.cost.engine import Engine
from planner.cost.estimate import CalibratedEstimator
from planner.cost.estimator import Estimator, RooflineEstimator
from planner.cost.network import Network
from planner.cost.types import Device, device
from planner.errors import SpecError
from planner.graph.build import model_graph, told
from planner.graph.modules import FormatsError, Scheme
from planner.graph.scheme import notes
from planner.graph.stages import layer_count, pipelined, stage_graphs
from planner.graph.types import ModelGraph
from planner.ops.types import ExpertLayout, Formats
from planner.plan.context import check_context
from planner.plan.engines import engine_of
from planner.plan.identity import model_digest
from planner.plan.layout import check_experts, layout_of
from planner.plan.load import StepLoad, step_load
from planner.plan.memo import remembered
from planner.plan.precision import scheme_of
from planner.plan.refusals import check_refusals
from planner.plan.towers import held
from planner.spec.origin import Origin
from planner.spec.question import Question
from planner.spec.types import DeploymentSpec


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
    layout: ExpertLayout
    """How ranks share the model."""

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
        return engine_of(self.question, self.formats, kind)


def network_of(deployment: DeploymentSpec) -> Network | None:
    """What joins the nodes of a deployment; None of a single one.

    Ranks lie side by side: tensor ranks, then stages, then replicas.
    """
    if deployment.network is None or not deployment.nodes:
        return None
    parallel, link = deployment.parallel, deployment.network
    replica = parallel.replica
    each = parallel.gpus // deployment.nodes
    return Network(each, link.bandwidth, link.latency, parallel.tensor, replica)


def for_step(prepared: Prepared, step: StepLoad) -> Prepared:
    """The question as the engine lays it out for a step of that size."""
    layout = layout_of(prepared.question, prepared.formats, step)
    return prepared if layout == prepared.layout else prepare(prepared.question, step)


def prepare(question: Question, step: StepLoad | None = None) -> Prepared:
    """Build the graph of a question on one rank, laid out for its own step or another.

    Raises SpecError with every fault.
    """
    deployment = question.deployment
    chosen = scheme_of(question)
    step = step or step_load(deployment)
    layout = layout_of(question, chosen.formats, step)
    ranks, origin = _ranks(question, layout)
    if question.gpu.link is None:
        _check_alone(question, ranks, origin)
    seen = engine_of(question, chosen.formats, step.kind)
    check_refusals(deployment, seen)
    if max(deployment.parallel.context, deployment.parallel.prefill_context) > 1:
        check_context(deployment, seen, _on_one_rank(question, chosen))
    graph = held(_graph(question, chosen, layout), seen, deployment)
    check_experts(deployment, graph)
    whole, stages = _staged(question, (chosen, layout, graph.encoder is None), graph)
    measured, named, engine = question.calibrations, question.named, question.backend.name
    return Prepared(
        question,
        chosen,
        whole,
        device(question.gpu),
        Constants(candidates(measured, named, question.gpu, engine), question.gpu.name),
        stages,
        adjustments(measured, named, question.gpu.name, engine),
        layout,
    )


def _graph(question: Question, chosen: Scheme, layout: ExpertLayout) -> ModelGraph:
    """The graph on one rank. Raises SpecError, at what asks for ranks if those may be why."""
    ranks, origin = _ranks(question, layout)
    try:
        graph: ModelGraph = remembered(
            ("graph", model_digest(question), chosen, layout),
            lambda: model_graph(question.model, question.blocks, chosen, layout=layout),
        )
    except FormatsError:
        raise
    except SpecError as error:
        if ranks == 1:
            raise told(error, question.model) from error
        message = f"{question.model.title} does not split over {ranks} GPUs"
        reasons = sorted({fault.message for fault in error.faults})
        raise SpecError([origin.fault(f"{message}: {'; '.join(reasons)}")]) from error
    return graph


def _ranks(question: Question, layout: ExpertLayout) -> tuple[int, Origin]:
    """Ranks that share a step, and the place that asks for them."""
    ranks = max(layout.tensor * layout.prompts, layout.experts)
    field = "tensor" if layout.experts == 1 else "expert"
    return ranks, question.deployment.origin.at("parallel", field)


def _check_alone(question: Question, ranks: int, origin: Origin) -> None:
    """Raises SpecError where several GPUs are asked for."""
    field = "tensor"
    if ranks == 1:
        ranks, field = question.deployment.parallel.pipeline, "pipeline"
        origin = question.deployment.origin.at("parallel", field)
    if ranks > 1:
        name = question.gpu.title
        message = f"{name} has no link described, so {ranks} of them cannot share work"
        raise SpecError([origin.fault(message, f"set parallel.{field}: 1")])


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
        found: tuple[ModelGraph, tuple[ModelGraph, ...]] = remembered(
            ("stages", model_digest(question), key, parallel.pipeline),
            lambda: (
                pipelined(graph, parallel.pipeline),
                stage_graphs(graph, parallel.pipeline),
            ),
        )
    except ValueError as error:
        raise SpecError([origin.fault(str(error), "use fewer stages")]) from error
    return found


def whole_graph(prepared: Prepared) -> ModelGraph:
    """The model's graph on one rank, whose totals several ranks don't show."""
    return _on_one_rank(prepared.question, prepared.scheme)


def graph_on_one_rank(question: Question) -> ModelGraph:
    """The same of a question that may not be possible as asked. Raises SpecError."""
    return _on_one_rank(question, scheme_of(question))


def _on_one_rank(question: Question, chosen: Scheme) -> ModelGraph:
    key = ("graph", model_digest(question), chosen, ExpertLayout())
    graph: ModelGraph = remembered(
        key, lambda: model_graph(question.model, question.blocks, chosen)
    )
    return graph
