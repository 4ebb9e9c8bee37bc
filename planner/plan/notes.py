"""What a reader should know before he trusts the numbers of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.capture.decide import offers
from planner.capture.solve import Solution
from planner.capture.types import MODES
from planner.cost.engine import Engine
from planner.cost.fitted import Fitted
from planner.plan.memory_types import MemoryPlan
from planner.plan.prepare import Prepared, whole_graph
from planner.plan.solve import SolvedStep
from planner.plan.towers import text_alone
from planner.spec.conditions import version_key
from planner.spec.question import Question
from planner.units import show_seconds


def notes(
    prepared: Prepared, solved: SolvedStep, memory: MemoryPlan, ideal: Solution
) -> tuple[str, ...]:
    """What a reader should know before he trusts the numbers."""
    question = prepared.question
    found = [*prepared.notes, *solved.engine.notes, *solved.decision.notes]
    flags = solved.engine.whole_flags
    sequences = solved.step.sequences
    limit = flags.get("max_num_seqs")
    if sequences and limit and sequences > limit:
        found.append(
            f"{sequences} sequences exceed max_num_seqs {limit}: the engine queues the rest"
        )
    budget = flags.get("max_num_batched_tokens")
    if solved.step.tokens and budget and solved.step.tokens > budget:
        found.append(
            f"{solved.step.tokens:,} tokens exceed max_num_batched_tokens {budget:,}: "
            "the engine would cut this step into several"
        )
    longest = max((int(g.kv_tokens) for g in solved.step.load.groups), default=0)
    trained = question.model.max_context
    if trained and longest > trained:
        found.append(f"a context of {longest:,} exceeds the {trained:,} the model was made for")
    if question.deployment.parallel.tensor > 1 and not solved.engine.facts["peer_to_peer"]:
        found.append(
            f"{question.gpu.title} has no peer-to-peer link: all-reduces pass through host memory "
            "and take longer than the link rate says"
        )
    found += (*_scales(prepared), *_towers(prepared, solved.engine))
    found += _crowded(question)
    found += _uncaptured(solved)
    found += _pipeline(prepared, solved)
    if not memory.fits:
        found.append("it does not fit: the times are those of a GPU with more memory")
    found += calibration_notes(
        solved.engine, question.deployment.backend.version, prepared.constants.used.values()
    )
    found += _other_runs(prepared, solved.engine)
    found += _gaps(solved, ideal)
    return tuple(dict.fromkeys(found))


def _scales(prepared: Prepared) -> Iterator[str]:
    if prepared.question.deployment.precision.scales == "tensor" and not prepared.scheme.one_scale:
        yield (
            "precision.scales is of FP8 activations that meet FP8 weights: no product here has such"
        )


def _towers(prepared: Prepared, engine: Engine) -> Iterator[str]:
    if rule := text_alone(whole_graph(prepared), engine):
        yield f"{engine.spec.title} holds no tower here: {rule.note}"


def _crowded(question: Question) -> Iterator[str]:
    """Ranks that talk to each other, more than one link joins."""
    parallel, gpu = question.deployment.parallel, question.gpu
    together = max(parallel.replica, parallel.expert)
    if question.deployment.nodes is None and together > gpu.node:
        nodes = -(-together // gpu.node)
        link = gpu.link.type if gpu.link else "its link"
        yield (
            f"{together} GPUs are taken to be one node, joined by {link}, which joins {gpu.node}: "
            f"say nodes: {nodes} and network: {{bandwidth: 50 GB/s, latency: 10 us}}"
        )


def _uncaptured(solved: SolvedStep) -> Iterator[str]:
    """What it costs that a step lies beyond the largest captured size."""
    wanted, mode = offers(solved.engine).wanted, solved.decision.mode
    usable = offers(solved.engine).modes[MODES.index(wanted)].sizes or ()
    tokens = solved.step.tokens
    if solved.step.kind != "decode" or mode == wanted or not usable or not tokens:
        return
    if tokens > usable[-1]:
        now_s = solved.chosen.timeline.time_s
        graph_s = solved.solver.solve("engine", wanted).timeline.time_s
        yield (
            f"{tokens:,} lies {tokens - usable[-1]:,} past the largest captured size: with a graph "
            f"the step takes {show_seconds(graph_s)}, without {now_s / graph_s - 1:.1%} more; a "
            f"slower step gathers more sequences, which stay past it. Capture up to {tokens:,} "
            f"(`planner capture`), or hold the batch at {usable[-1] // solved.engine.verified:,}"
        )


def _gaps(solved: SolvedStep, ideal: Solution) -> Iterator[str]:
    """A sentence for each search that did not look at everything: how far from the best at most."""
    for name, found in (("engine", solved.chosen), ("ideal", ideal)):
        if found.gap_s:
            share = found.gap_s / found.timeline.time_s
            yield (
                f"the {name} groupings are the best found of too many to try: no others are more "
                f"than {show_seconds(found.gap_s)} ({share:.2%}) quicker, which is proven"
            )


def _pipeline(prepared: Prepared, solved: SolvedStep) -> list[str]:
    """How a step goes through a pipeline."""
    layers = prepared.stage_layers
    if not layers:
        return []
    parts, waiting_s = solved.solver.micro, solved.chosen.timeline.waiting_s
    sizes = " + ".join(map(str, layers))
    if parts.count == 1:
        return [f"a pipeline of {sizes} layers: this step is one micro-batch, each stage in turn"]
    said = (
        f"a pipeline of {sizes} layers: kernels are those of one of {parts.count} micro-batches of "
        f"{parts.part.sequences} sequences, and {show_seconds(waiting_s)} of the step is waiting "
        "for the slowest stage"
    )
    return [said]


def _other_runs(prepared: Prepared, engine: Engine) -> list[str]:
    """Whole runs that another version of the engine made."""
    runs = prepared.adjusted.runs
    if runs is None or not runs.versions:
        return []
    if any(_order(version, engine.version) is None for version in runs.versions):
        return []
    ran = ", ".join(runs.versions)
    return [
        f"the runs that correct this plan were of {engine.spec.title} {ran}, not of its version"
    ]


_ANY_VERSION = "elementwise"
"""Kernels that stream tensors follow the GPU. SGLang's were measured in vLLM's tables."""


def calibration_notes(engine: Engine, asked: str | None, used: Iterable[Fitted]) -> Iterator[str]:
    """A sentence where constants in use were measured with an older version of the engine than
    the deployment runs, and one where with a newer. Those of other engines are evidence of a class,
    which the plan says already.
    """
    runs = asked or engine.version
    versions: dict[str, dict[str, set[str]]] = {"older": {}, "newer": {}}
    for fitted in used:
        if fitted.measured is None or fitted.backend != engine.spec.name:
            continue
        calibration, _, kernel = fitted.source.partition(": ")
        version = fitted.measured.version or ""
        order = None if kernel.startswith(_ANY_VERSION) else _order(version, runs)
        if order:
            versions[order].setdefault(version, set()).add(calibration)
    for order, found in versions.items():
        if found:
            names = ", ".join(sorted(set().union(*found.values())))
            listed = " and ".join(sorted(found, key=version_key))
            yield (
                f"kernel constants were measured with {engine.spec.title} {listed}, {order} than "
                f"{runs}: {_MEANS[order]} ({names})"
            )


_MEANS = {
    "older": "changes of the engine since then are not in the times",
    "newer": "changes of the engine up to then are in the times",
}


def _order(measured: str, runs: str) -> str | None:
    """Whether a version is older or newer, as far as both are written out: 0.26 is any 0.26.x."""
    numbers = min(measured.count("."), runs.count(".")) + 1
    one, other = (
        (*version_key(text), *(0,) * numbers)[:numbers] if version_key(text) else ()
        for text in (measured, runs)
    )
    if not one or not other or one == other:
        return None
    return "older" if one < other else "newer"
