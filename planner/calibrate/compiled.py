"""Groupings of a plan held against those of a compiler that compiled the same graph."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from planner.fusion.agreement import (
    Counts,
    Edge,
    Homes,
    Verdict,
    contracted,
    counted,
    homes,
    judged,
    reached,
)
from planner.fusion.loops import loops_of
from planner.graph.types import Block, Node
from planner.graph.window import window_of
from planner.ops.types import OpClass
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.solve import SolvedStep, solve_step
from planner.spec.again import deployment_again
from planner.spec.catalog import Catalog
from planner.spec.conditions import holds
from planner.spec.load import load_text
from planner.spec.question import Question, blocks_of
from planner.spec.types import ModelSpec

GPU = "h100-sxm"
"""Whose bandwidth prices what a grouping is worth."""
BACKEND = "pytorch-compiled"


@dataclass(frozen=True)
class TheirKernel:
    """One kernel of the compiler's."""

    kind: str
    """``loops``, or ``extern`` for a call of a library."""
    name: str
    origins: tuple[str, ...]
    """Operators of the export that it computes."""


@dataclass(frozen=True)
class Recorded:
    """A model as it was exported and compiled."""

    name: str
    rules: str
    """Of which code generator."""
    spec: Mapping[str, Any]
    """The model spec of the export, all in one block."""
    steps: Mapping[str, tuple[str, ...]]
    """By node of the spec: the operators of the export that it stands for."""
    kernels: tuple[TheirKernel, ...]
    batch: int
    tokens: int
    """Of each sequence; 0 of a graph without sequences."""
    apart: bool = False
    """Whether rules were settled without it."""
    functions: int | None = None
    error: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Compared:
    """One model's two groupings."""

    recorded: Recorded
    solved: SolvedStep
    operators: Mapping[str, tuple[str, ...]]
    """What is compared, by name: nodes of the plan that are one operator of the export."""
    theirs: Homes
    ours: Mapping[str, int]
    again: frozenset[Edge]
    """Edges into kernels that, by the engine's rule, compute the producer again."""
    edges: tuple[Edge, ...]

    @cached_property
    def verdicts(self) -> dict[Edge, Verdict]:
        """Who fuses each edge, what is computed again included."""
        return judged(self.edges, self.ours, self.theirs, self.again)

    @property
    def counts(self) -> Counts:
        """Edges of each verdict."""
        return counted(self.verdicts.values())

    @property
    def groupings(self) -> Counts:
        """The same of groupings alone: nobody computes anything twice."""
        return counted(judged(self.edges, self.ours, self.theirs).values())

    @property
    def block(self) -> Block:
        """The graph."""
        return self.solved.graph.kinds[0]

    def node(self, operator: str) -> Node:
        """The node that ends an operator."""
        return self.block.by_id[self.operators[operator][-1]]

    @cached_property
    def launches(self) -> dict[str, int]:
        """Launches of the kernel of ours that each operator is in."""
        kernels = [kernel for run in self.solved.chosen.runs for kernel in run.kernels]
        return {name: kernels[number].group.launches for name, number in self.ours.items()}

    @cached_property
    def our_kernels(self) -> tuple[frozenset[str], ...]:
        """Nodes of each of our kernels that launches anything."""
        runs = self.solved.chosen.runs
        kernels = [kernel for run in runs for kernel in run.kernels if kernel.group.launches]
        return tuple(frozenset(name for _, name in kernel.group.nodes) for kernel in kernels)


def compared(recorded: Recorded, catalog: Catalog) -> Compared:
    """Plan the graph as the engine's rules fuse it, and find each operator on both sides."""
    solved = _solved(recorded, catalog)
    block = solved.graph.kinds[0]
    steps = _node_steps(block, recorded.steps)
    operators = _operators(steps)
    name_of = {node: name for name, nodes in operators.items() for node in nodes}
    own = {name: steps[nodes[0]] for name, nodes in operators.items()}
    theirs = _where_called(recorded, homes([k.origins for k in recorded.kernels], own), own)
    ties = dict.fromkeys((name_of[a], name_of[b]) for a, b in _edges(block))
    theirs = _taken_in(block, operators, theirs, ties)
    views = {node.id for node in block.nodes if node.op.op_class == OpClass.VIEW}
    without = [name for name in operators if not theirs.first[name] or views & {*operators[name]}]
    edges = contracted([tie for tie in ties if tie[0] != tie[1]], without)
    kernels = [kernel for run in solved.chosen.runs for kernel in run.kernels]
    place = {name: n for n, kernel in enumerate(kernels) for _, name in kernel.group.nodes}
    ours = {name: place[nodes[-1]] for name, nodes in operators.items()}
    again = frozenset(_again(solved, name_of, ours, ties)) & {*edges}
    return Compared(recorded, solved, operators, theirs, ours, again, edges)


def _taken_in(
    block: Block, operators: Mapping[str, tuple[str, ...]], theirs: Homes, ties: Iterable[Edge]
) -> Homes:
    """A product without a kernel is part of the call that its reader became, as in an addmm."""
    first = dict(theirs.first)
    for producer, consumer in ties:
        matrix = block.by_id[operators[producer][-1]].op.op_class == OpClass.CONTRACTION
        if matrix and not theirs.first[producer]:
            first[producer] = theirs.first[consumer]
    return Homes(first, theirs.again)


def _again(
    solved: SolvedStep, name_of: Mapping[str, str], ours: Mapping[str, int], ties: Collection[Edge]
) -> Iterator[Edge]:
    """Edges from what is not stored into kernels of loops, views and the like in between."""
    block = solved.graph.kinds[0]
    rules = [rule for rule in solved.engine.spec.fusions if rule.loops]
    rules = [rule for rule in rules if holds(rule.when, solved.engine.facts)]
    loops = {word for rule in rules for word in rule.classes}
    window = window_of(block)
    nests = [loops_of(window, rule.loops) for rule in rules if rule.loops]
    thin = {name_of[node] for each in nests for _, node in each.repeated}
    inside = set(name_of.values())
    inside -= {name_of[node.id] for node in block.nodes if str(node.op.op_class) not in loops}
    inside -= {name_of[node] for each in nests for _, node in each.calls}
    views = {name_of[node.id] for node in block.nodes if node.op.op_class == OpClass.VIEW}
    for producer in thin:
        for consumer in reached(ties, producer, thin | views) & inside:
            if ours[producer] != ours[consumer]:
                yield producer, consumer


def _solved(recorded: Recorded, catalog: Catalog) -> SolvedStep:
    question = _question(recorded, catalog)
    return solve_step(prepare(question), step_load(question.deployment), ())


def _question(recorded: Recorded, catalog: Catalog) -> Question:
    model = cast("ModelSpec", load_text(json.dumps(recorded.spec), recorded.name, "model"))
    step: dict[str, Any] = {"shapes": {}}
    if recorded.tokens:
        step = {"prefill": {"batch": recorded.batch, "tokens": recorded.tokens}}
    asked = {
        "name": recorded.name,
        "model": recorded.name,
        "gpu": GPU,
        "backend": {"name": BACKEND, "flags": dict(_flags(recorded))},
        "step": step,
    }
    deployment = deployment_again(asked, recorded.name)
    gpu = catalog.find("gpu", GPU, deployment.origin.at("gpu"))
    backend = catalog.find("backend", BACKEND, deployment.origin.at("backend"))
    return Question(
        deployment, model, blocks_of(model, catalog), gpu, backend, cost_model="roofline"
    )


def _flags(recorded: Recorded) -> Iterator[tuple[str, str]]:
    """Flags that say what was compiled."""
    fused = any(kernel.name.startswith("aten._scaled_dot") for kernel in recorded.kernels)
    yield "codegen", recorded.rules
    yield "mode", "reduce-overhead"
    yield "attn_implementation", "sdpa" if fused else "eager"


def _edges(block: Block) -> Iterator[Edge]:
    makers = {tensor: node.id for node in block.nodes for tensor in node.outputs}
    for node in block.nodes:
        for tensor in node.inputs:
            if tensor in makers:
                yield makers[tensor], node.id


_PARTS = ("scores", "mask", "softmax", "values")


def _node_steps(block: Block, steps: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Steps of each node of the graph; those of attention that was written out part by part."""
    found = {}
    for node in block.nodes:
        whole, _, part = node.id.rpartition(".")
        own = steps[whole or node.id]
        found[node.id] = _part(own, part) if part in _PARTS else own
    return found


def _part(steps: tuple[str, ...], part: str) -> tuple[str, ...]:
    """What of an attention's steps one of its parts is: all where a single call is all of it."""
    products = [at for at, step in enumerate(steps) if step.startswith(("matmul", "bmm"))]
    if len(products) != 2:  # noqa: PLR2004 - scores and values
        return steps
    first, second = products
    return {
        "scores": steps[first : first + 1],
        "values": steps[second : second + 1],
    }.get(part, steps[first + 1 : second])


def _operators(steps: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Nodes of equal steps as one operator, under the first one's name."""
    first: dict[tuple[str, ...], str] = {}
    found: dict[str, tuple[str, ...]] = {}
    for node, own in steps.items():
        name = first.setdefault(own, node) if own else node
        found[name] = (*found.get(name, ()), node)
    return found


def _where_called(recorded: Recorded, found: Homes, steps: Mapping[str, tuple[str, ...]]) -> Homes:
    """An operator that a library's call computes is where the call is; copies before it are not."""
    calls = {
        step: number
        for number, kernel in enumerate(recorded.kernels)
        if kernel.kind == "extern"
        for step in kernel.origins
    }
    first = {
        name: tuple(sorted({calls[step] for step in steps[name] if step in calls}))
        or found.first[name]
        for name in found.first
    }
    return Homes(first, found.again)
