"""From a deployment's step to the load of one data replica."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.errors import SpecError
from planner.graph.types import ModelGraph
from planner.num import Number, ceil_div
from planner.ops.attention import AttentionScores
from planner.ops.types import LOAD_SYMBOLS, Load, Pairs, SequenceGroup, Symbol
from planner.registry import nearest
from planner.spec.types import DeploymentSpec, Step, Workload


@dataclass(frozen=True)
class StepLoad:
    """What one replica has to do in one step."""

    kind: str
    """decode, prefill, mixed or shapes: what conditions of a catalogue call it."""
    load: Load
    items: int | None = None
    """Items for the encoder that each prompt brings; None for what the model says."""
    item_tokens: int | None = None
    """Rows of one of them; None for what the model says."""

    def with_encoder(self, tokens: int, items: int) -> StepLoad:
        """The step with its encoder's load, of the prompts that begin in it; as it is without any.

        ``tokens`` and ``items`` are what the model says of one item and of one prompt.
        """
        beginning = int(self.load.sequences - self.load.continued)
        count = beginning * (items if self.items is None else self.items)
        if not count:
            return self
        rows = self.item_tokens or tokens
        encoder = Load((SequenceGroup(count, rows, rows),))
        return replace(self, load=replace(self.load, encoder=encoder))

    @property
    def tokens(self) -> int | None:
        """New tokens; None for a graph that is no LLM."""
        return int(self.load.tokens) if self.load.groups else None

    @property
    def sequences(self) -> int | None:
        """Sequences; None for a graph that is no LLM."""
        return int(self.load.sequences) if self.load.groups else None


def step_load(deployment: DeploymentSpec) -> StepLoad:
    """The step to plan. A static batch is planned by the decode step halfway through its output.

    Data replicas share the batch evenly; the fullest one is planned.
    """
    replicas = deployment.parallel.data
    if deployment.step is not None:
        return of_step(deployment.step, replicas, drafted(deployment))
    assert deployment.workload is not None
    workload = deployment.workload
    context = workload.input + (workload.output + 1) // 2
    return decode(share(workload, replicas), context, drafted(deployment))


def drafted(deployment: DeploymentSpec) -> int:
    """Draft tokens that a decode step verifies for each sequence."""
    return deployment.speculation.tokens if deployment.speculation else 0


def of_step(step: Step, replicas: int, drafts: int = 0) -> StepLoad:
    """The load of an explicit step, ``drafts`` tokens a sequence verified in a decode step."""
    if step.decode:
        return decode(ceil_div(step.decode.batch, replicas), step.decode.context, drafts)
    if step.prefill:
        asked = step.prefill
        found = prefill(ceil_div(asked.batch, replicas), asked.tokens)
        return replace(found, items=asked.items, item_tokens=asked.item_tokens)
    if step.mixed:
        groups = (
            SequenceGroup(ceil_div(g.count, replicas), g.new_tokens, g.kv_tokens)
            for g in step.mixed
        )
        return StepLoad("mixed", Load(tuple(groups)))
    return StepLoad("shapes", Load(shapes=dict(step.shapes or {})))


def share(workload: Workload, replicas: int) -> int:
    """Requests of a static batch on the fullest replica."""
    return int(ceil_div(workload.batch or workload.concurrency or 1, replicas))


def decode(batch: Number, context: Number, drafts: int = 0) -> StepLoad:
    """One new token for each of ``batch`` sequences, and behind it ``drafts`` to be verified."""
    group = SequenceGroup(batch, 1 + drafts, context + drafts, verified=drafts > 0)
    return StepLoad("decode", Load((group,)))


def prefill(batch: Number, tokens: Number, before: Number = 0) -> StepLoad:
    """``tokens`` prompt tokens for each of ``batch`` sequences that hold ``before`` already."""
    return StepLoad("prefill", Load((SequenceGroup(batch, tokens, before + tokens),)))


def check_encoder_alone(deployment: DeploymentSpec, step: StepLoad, graph: ModelGraph) -> None:
    """Refuse steps that a model without any cache has not: it computes whole sequences at once.

    Raises SpecError at the step's place.
    """
    uncached = any(
        isinstance(node.op, AttentionScores) and not node.op.shape.cached
        for block in graph.kinds
        for node in block.nodes
    )
    if uncached and (deployment.workload or step.kind != "prefill"):
        origin = deployment.origin.at("step" if deployment.step else "workload")
        hint = "as in step: {prefill: {batch: 32, tokens: 512}}"
        raise SpecError([origin.fault("an encoder keeps no cache and generates nothing", hint)])


def check_load(deployment: DeploymentSpec, step: StepLoad, symbols: frozenset[Symbol]) -> None:
    """Hold a step against the sizes a graph needs. Raises SpecError at the step's place.

    A graph over tokens needs a decode, prefill or mixed step; one over dims of its own needs them
    bound in ``step.shapes``, all of them and no others.
    """
    origin = deployment.origin.at("step" if deployment.step else "workload")
    needs = {"tokens" if isinstance(symbol, Pairs) else symbol for symbol in symbols}
    own = sorted(needs - set(LOAD_SYMBOLS))
    if step.kind != "shapes":
        if own:
            hint = f"step: {{shapes: {{{', '.join(f'{name}: 1' for name in own)}}}}}"
            message = f"this model's shapes are bound by {', '.join(own)}, not by sequences"
            raise SpecError([origin.fault(message, hint)])
        return
    given = step.load.shapes
    origin = origin.at("shapes")
    faults = [
        origin.fault(f"the model needs a size for '{name}'", f"add {name}: 1")
        for name in sorted(needs - given.keys())
    ]
    for name in sorted(given.keys() - needs):
        guess = nearest(name, sorted(needs))
        message = f"no shape of the model depends on '{name}'"
        likely = f"did you mean '{guess}'?" if guess else None
        faults.append(origin.at(name).fault(message, likely, key=True))
    if faults:
        raise SpecError(faults)
