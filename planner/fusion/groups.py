"""Every group of nodes that may be one kernel in a deployment, and why others may not.

Legality is structure and conditions (here), feasibility is sizes (`planner.fusion.limits`), benefit
is the search's. Each no leaves a sentence.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Literal
from weakref import WeakKeyDictionary

from planner.cost.engine import Engine
from planner.cost.flow import Flow
from planner.cost.kernel import Border, known_border
from planner.fusion.again import Saves, computed_again
from planner.fusion.attended import attention_rule
from planner.fusion.ideal import known_ideal
from planner.fusion.match import Match, known_matches, named, qualifies
from planner.graph.types import ModelGraph, Node
from planner.graph.window import NodeKey, Window, window_of
from planner.ops.moe import Moe
from planner.ops.types import OpClass
from planner.records import dataclass
from planner.spec.conditions import first, holds, refusals
from planner.spec.types import Conditions, FusionRule, KernelName, Scalar

RuleSet = Literal["engine", "flags", "ideal"]
RULE_SETS: tuple[RuleSet, ...] = ("engine", "flags", "ideal")


@dataclass(frozen=True, eq=False)
class Group:
    """Nodes that may run as one kernel."""

    name: str
    """The rule's name, or the node's."""
    engine_name: str
    """The engine's class or op for it."""
    nodes: frozenset[NodeKey]
    border: Border
    launches: int
    profile_patterns: tuple[str, ...] = ()
    rule: FusionRule | None = None
    slots: tuple[tuple[str, NodeKey], ...] = ()
    kernel: str | None = None
    """Which kernel of the kernel models it is, where the engine says so."""
    flags: tuple[tuple[str, Scalar], ...] = ()
    """Flags that must be turned for it, in the ``flags`` rule set."""
    flow: Flow | None = None
    """How one kernel would run it, of a group that no engine has."""
    parts: int = 0
    """Launches of the engine's chain for its experts, whose starts their price holds."""
    together: tuple[Group, ...] = ()
    """Kernels that it stands for, each of which computes some node for itself."""
    saves: Saves | None = None
    unwritten: bool = False
    """Whether kernels beside those would miss what it computes."""


@dataclass(frozen=True, eq=False)
class Structure:
    """The groups of a whole model: by kind of block, and across each seam between kinds."""

    graph: ModelGraph
    rule_set: RuleSet
    inside: tuple[tuple[Group, ...], ...]
    """For each kind, groups within one block."""
    across: dict[tuple[int, int], tuple[Group, ...]]
    """For each kind and the kind after it, groups of both."""
    unfitted: tuple[str, ...] = ()
    """Rules that hold but fit nowhere in this model."""

    @property
    def needs_flags(self) -> bool:
        """Whether any of its groups needs a flag turned."""
        groups = (*self.inside, *self.across.values())
        return any(group.flags for each in groups for group in each)


def structure(graph: ModelGraph, engine: Engine, rule_set: RuleSet) -> Structure:
    """All groups that ``rule_set`` allows in a model on an engine."""
    rules = _rules(engine, rule_set)
    inside, across = [], {}
    fitted: set[str] = set()
    for block in graph.kinds:
        window = window_of(block)
        singles = [_single(key, window, engine) for key in window.keys]
        inside.append((*singles, *_fused(window, rules, rule_set, fitted, engine)))
    for kind, following in graph.pairs:
        if following is not None:
            window = window_of(graph.kinds[kind], graph.kinds[following])
            groups = _fused(window, rules, rule_set, fitted, engine)
            across[kind, following] = tuple(g for g in groups if _straddles(g.nodes))
    unfitted = tuple(rule.name for rule, _ in rules if rule.name not in fitted)
    return Structure(graph, rule_set, tuple(inside), across, unfitted)


@lru_cache(maxsize=512)
def signature(engine: Engine, rule_set: RuleSet, ops: frozenset[str]) -> Hashable:
    """What a structure depends on besides the graph, whose operators are ``ops``: engines alike in
    it share their structures.
    """
    kernels = tuple(
        (view, n)
        for view, facts in enumerate((engine.facts, engine.as_asked.facts))
        for n, kernel in enumerate(engine.spec.kernels)
        if ops.intersection((kernel.op,) if isinstance(kernel.op, str) else kernel.op)
        and holds(_beside_own(kernel.when), facts)
    )
    return rule_set, tuple(_running(engine, rule_set)), kernels


def refused_rules(found: Structure, engine: Engine) -> tuple[str, ...]:
    """A sentence for each rule of the engine that does not run in a model, and why."""
    sentences = [
        f"{rule.name} ({rule.engine_name}): {'; '.join(refusals(rule.when, engine.facts))}"
        for rule in engine.spec.fusions
        if not holds(rule.when, engine.facts)
    ]
    return (*sentences, *(f"{name}: no place in this model fits it" for name in found.unfitted))


def _straddles(nodes: frozenset[NodeKey]) -> bool:
    return len({offset for offset, _ in nodes}) > 1


Flags = tuple[tuple[str, Scalar], ...]


def _rules(engine: Engine, rule_set: RuleSet) -> list[tuple[FusionRule, Flags]]:
    """Rules that may run, with the flags that must be turned for them."""
    rules = engine.spec.fusions
    return [(rules[number], flags) for number, flags in _running(engine, rule_set)]


def _running(engine: Engine, rule_set: RuleSet) -> Iterator[tuple[int, Flags]]:
    """The same by number: all that a structure knows of flags and versions."""
    for number, rule in enumerate(engine.spec.fusions):
        if holds(rule.when, engine.facts):
            yield number, ()
        elif rule_set != "engine":
            turned = _turning(rule.when, engine)
            if turned is not None:
                yield number, turned


def _turning(when: Conditions, engine: Engine) -> Flags | None:
    """Tunable flags that would make the conditions hold; None where more than flags fails."""
    changes: dict[str, Scalar] = {}
    for name, wanted in when.items():
        if holds({name: wanted}, engine.facts):
            continue
        flag = engine.spec.flags.get(name.removeprefix("flag."))
        if not name.startswith("flag.") or flag is None or not flag.tunable:
            return None
        if not holds(flag.when, engine.as_asked.facts):
            return None
        choices = flag.choices or (True, False)
        fitting = [c for c in choices if holds({name: wanted}, {**engine.facts, name: c})]
        if not fitting:
            return None
        changes[name.removeprefix("flag.")] = fitting[0]
    return tuple(changes.items())


BY_VERSION = ("all_reduce",)
"""Operators whose kernels are named version by version, between the described ones too."""
OWN_FACTS = ("weights", "matmul", "experts", "top_k", "expert_shape")
"""Facts that a node may have of its own, as experts in four bits beside attention in sixteen."""


def _facts(node: Node, engine: Engine) -> Mapping[str, Scalar]:
    """What conditions of a kernel see: the engine's facts, and the node's own."""
    if not node.op.matrix or not node.parameters:
        return engine.as_asked.facts if node.op_name in BY_VERSION else engine.facts
    own: dict[str, Scalar] = {
        "weights": node.parameters[0].dtype,
        "matmul": node.matmul_dtype,
    }
    if isinstance(node.op, Moe):
        own |= {"experts": node.op.experts, "top_k": node.op.top_k}
        own["expert_shape"] = node.op.shape_of_rank
    return {**engine.facts, **own}


def _beside_own(when: Conditions) -> Conditions:
    """The conditions that the graph alone does not settle."""
    return {name: wanted for name, wanted in when.items() if name not in OWN_FACTS}


@lru_cache(maxsize=4096)
def _kernels_of(engine: Engine, op: str) -> tuple[KernelName, ...]:
    """The engine's names for kernels of an operator."""
    kernels = engine.spec.kernels
    return tuple(k for k in kernels if op == k.op or (not isinstance(k.op, str) and op in k.op))


def _single(key: NodeKey, window: Window, engine: Engine) -> Group:
    node = window.node(key)
    fitting = [kernel for kernel in _kernels_of(engine, node.op_name) if named(kernel, node)]
    kernel = first(fitting, _facts(node, engine))
    launches = kernel.launches if kernel else int(node.op.op_class != OpClass.VIEW)
    nodes = frozenset({key})
    return Group(
        node.id,
        kernel.engine_name if kernel else node.op_name,
        nodes,
        known_border(window, nodes),
        launches,
        kernel.profile_patterns if kernel else (),
        kernel=kernel.kernel if kernel else None,
    )


def _fused(
    window: Window,
    rules: list[tuple[FusionRule, Flags]],
    rule_set: RuleSet,
    fitted: set[str],
    engine: Engine,
) -> list[Group]:
    """Fused groups of a window, one for each set of nodes: the engine's own rules name it first."""
    found: dict[frozenset[NodeKey], Group] = {}
    for rule, flags in rules:
        for match in known_matches(rule, window):
            fitted.add(rule.name)
            if match.nodes not in found:
                group = _known_group(match, window, flags)
                found[match.nodes] = _with_experts(group, window, engine)
    if rule_set == "ideal":
        for match in known_ideal(window):
            if match.nodes not in found:
                group = _known_group(match, window, ())
                found[match.nodes] = _as_engine(group, window, engine, rules)
        found |= computed_again(window, found)
    return list(found.values())


def _with_experts(group: Group, window: Window, engine: Engine) -> Group:
    """A group of a rule that names no kernel: it is the engine's of the experts in it."""
    rule = group.rule
    if rule is None or rule.kernel is not None:
        return group
    routed = [key for _, key in group.slots if window.node(key).op_name == "moe"]
    return replace(group, kernel=_single(routed[0], window, engine).kernel) if routed else group


def _as_engine(
    group: Group, window: Window, engine: Engine, rules: Iterable[tuple[FusionRule, Flags]]
) -> Group:
    """A group with what the engine's kernels of its attention or experts are, if it has any."""
    flow = group.flow
    if flow is not None and flow.attention:
        rule = attention_rule(flow, window, (rule for rule, _ in rules)) or group.rule
        return replace(group, kernel=rule.kernel if rule else None, rule=rule)
    if flow is None or flow.experts is None:
        return group
    chain = _single(flow.experts, window, engine)
    return replace(group, kernel=chain.kernel, parts=chain.launches)


_made: WeakKeyDictionary[Window, dict[tuple[int, Flags], Group]] = WeakKeyDictionary()


def _known_group(match: Match, window: Window, flags: Flags) -> Group:
    """As `_of_match`, made once for all structures. Matches live as long as their window."""
    made = _made.setdefault(window, {})
    key = id(match), flags
    if key not in made:
        made[key] = _of_match(match, window, flags)
    return made[key]


def _of_match(match: Match, window: Window, flags: Flags) -> Group:
    rule = match.rule
    return Group(
        rule.name,
        rule.engine_name,
        match.nodes,
        known_border(window, match.nodes),
        1 + rule.extra_launches,
        _patterns(match, window),
        rule,
        match.slots,
        rule.kernel,
        flags,
        match.flow,
    )


def _patterns(match: Match, window: Window) -> tuple[str, ...]:
    """The rule's patterns, or those of the first operator it names that the group holds."""
    nodes = [window.node(key) for key in match.nodes]
    for each in match.rule.by_op:
        if any(qualifies(each.op, None, node) for node in nodes):
            return each.profile_patterns
    return match.rule.profile_patterns
