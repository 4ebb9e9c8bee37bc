"""Ways to run a deployment on one kind of GPU: placements, number formats, flags of the engine."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from planner.cost.engine import Engine, flag_text
from planner.cost.scheduler import scheduler
from planner.errors import PlannerError
from planner.plan.load import StepLoad, decode
from planner.plan.memory import changed
from planner.plan.prepare import Prepared, prepare
from planner.plan.solve import behaviour, solve_step
from planner.plan.start import start_of
from planner.serving.placements import Placement
from planner.spec.conditions import holds
from planner.spec.question import Question
from planner.spec.types import NetworkSpec, Scalar

_WIDE = ("bf16", "fp16", "fp32")
_ROUND = 1024
"""Tokens that a longest sequence is rounded up to, where it must be given."""
_GAIN = 0.005
"""Of a step: a flag that gains less is left as it is."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to run one replica, or all of them where experts lie over all."""

    question: Question
    """With ``parallel.data`` replicas."""
    changes: tuple[tuple[str, Scalar], ...]
    """What differs from the deployment asked about, by dotted path."""
    lossless: bool
    """False where numbers are narrower than the deployment asks for."""

    @property
    def gpus(self) -> int:
        """Of what is rented together: a replica, or all where experts lie over all."""
        return self.question.deployment.parallel.gpus

    @property
    def nodes(self) -> int:
        """Nodes that one of it takes."""
        return self.question.deployment.nodes or 1

    @property
    def formats(self) -> frozenset[tuple[str, Scalar]]:
        """Its number formats, where they differ."""
        return frozenset(c for c in self.changes if c[0].startswith("precision."))

    @property
    def whole(self) -> bool:
        """Whether more replicas would be another candidate."""
        return self.question.deployment.parallel.data > 1

    def turned(self, flags: dict[str, Scalar]) -> Candidate:
        """With flags of the engine turned."""
        asked = {**self.question.deployment.backend.flags, **flags}
        named = tuple((f"backend.flags.{name}", value) for name, value in flags.items())
        question = changed(self.question, backend={"flags": asked})
        return replace(self, question=question, changes=(*self.changes, *named))


def candidates(
    question: Question,
    placements: Iterable[Placement],
    network: NetworkSpec | None = None,
    *,
    narrow: bool,
) -> Iterator[Candidate]:
    """Every placement, in every format worth trying.

    ``network`` joins the nodes of those that take several. ``narrow``: also in fewer bits than the
    deployment asks for. What cannot be built is among
    them: asking for it raises.
    """
    for placement in placements:
        placed = placement.of(question, network)
        moved = placement.moved(question.deployment)
        for formats in _formats(placed, narrow=narrow):
            named = tuple((f"precision.{name}", value) for name, value in formats.items())
            asked = changed(placed, precision=formats) if formats else placed
            yield Candidate(asked, (*moved, *named), not formats)


def _formats(question: Question, *, narrow: bool) -> Iterator[dict[str, Any]]:
    """As asked for; in FP8 where weights are wider and the GPU multiplies it; its cache in FP8."""
    yield {}
    if not narrow:
        return
    try:
        formats = prepare(question).formats
    except PlannerError:
        return
    narrower: dict[str, Any] = {}
    if formats.weights in _WIDE and "fp8" in question.gpu.matrix:
        narrower = {"weights": "fp8", "activations": "fp8"}
        yield narrower
    if formats.kv_cache in _WIDE:
        yield {**narrower, "kv_cache": "fp8"}


def started(candidate: Candidate) -> Candidate | None:
    """The candidate as its engine starts: with the longest sequence cut to what the workload needs
    where the model's own does not fit. None where it does not start even so.

    Raises SpecError for what cannot be built.
    """
    prepared = prepare(candidate.question)
    engine = prepared.engine("decode")
    found = start_of(prepared, engine)
    if found is None or found.starts:
        return candidate
    flag, workload = engine.spec.memory.longest, candidate.question.deployment.workload
    if flag is None or workload is None or engine.flags.get(flag) is not None:
        return None
    longest = -(-(workload.input + workload.output) // _ROUND) * _ROUND
    cut = start_of(prepared, engine.with_flags({flag: longest}))
    return candidate.turned({flag: longest}) if cut and cut.starts else None


def variants(candidate: Candidate, flags: frozenset[str]) -> Iterator[Candidate]:
    """The candidate with one flag turned that makes its decode step faster, or changes what steps
    hold.

    Flags are those that the engine's description marks tunable, among ``flags``. Of values that do
    the same the first counts.
    """
    prepared = prepare(candidate.question)
    engine = prepared.engine("decode")
    step, before = _step(prepared), _rules(prepared, engine)
    step_s = _step_s(prepared, engine, step)
    seen = {(behaviour(engine, step, prepared.graph), before)}
    for name, value in _turns(prepared, engine, flags):
        turned = engine.with_flags({name: value})
        acts = behaviour(turned, step, prepared.graph), _rules(prepared, turned)
        if acts in seen:
            continue
        seen.add(acts)
        if acts[1] != before or _step_s(prepared, turned, step) < step_s * (1 - _GAIN):
            yield candidate.turned({name: value})


def _turns(
    prepared: Prepared, engine: Engine, flags: frozenset[str]
) -> Iterator[tuple[str, Scalar]]:
    """Flags that this version has, with other values than they have."""
    for name, spec in prepared.question.backend.flags.items():
        if name in flags and spec.tunable and holds(spec.when, engine.as_asked.facts):
            choices = spec.choices or (True, False)
            yield from ((name, value) for value in choices if value != engine.flags.get(name))


def _step(prepared: Prepared) -> StepLoad:
    workload = prepared.question.deployment.workload
    assert workload is not None
    assert workload.concurrency is not None
    return decode(workload.concurrency, workload.input)


def _step_s(prepared: Prepared, engine: Engine, step: StepLoad) -> float:
    return float(solve_step(prepared, step, (), engine).chosen.timeline.time_s)


def _rules(prepared: Prepared, engine: Engine) -> Hashable:
    """What its scheduler lets share a step."""
    rules = scheduler(engine, prepared.question.model.max_context or _ROUND, 0)
    return replace(rules, sources=())


def as_set(change: tuple[str, Scalar]) -> str:
    """A change as ``--set`` takes it."""
    path, value = change
    return f"{path}={'null' if value is None else flag_text(value)}"
