"""Three ledgers: what fusion saves, what launches cost, where the memory goes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType

from planner.plan.memory_types import MemoryPlan, StatesPlan
from planner.plan.types import FirstKernel, KernelRow, Plan, RuleSetTime, StepTime
from planner.report.cells import (
    DASH,
    gain,
    heading,
    node_names,
    optional_count,
    share,
    small,
    table,
    times,
    words,
)
from planner.report.headline import captured
from planner.report.start import start_parts
from planner.units import show_bytes, show_seconds


def fusion_ledger(plan: Plan) -> RenderableType:
    """Bytes of each fused group: its nodes apart, the group, and what that saves."""
    groups = [kernel for kernel in plan.kernels if len(kernel.nodes) > 1]
    title = heading("Fusion ledger: HBM bytes that groups of nodes save")
    if not groups:
        return Group(title, small("no group of nodes runs as one kernel"))
    found = table(("group", "block", "nodes", "apart", "fused", "saved", "a step"), left=(0, 1, 2))
    for kernel in sorted(groups, key=lambda k: -k.repeat * k.saved_bytes):
        found.add_row(
            words(kernel.name),
            words(times(kernel.block, kernel.repeat)),
            words(node_names(kernel.nodes)),
            show_bytes(kernel.unfused_bytes),
            show_bytes(kernel.hbm_bytes),
            _saved(kernel.saved_bytes),
            _saved(kernel.repeat * kernel.saved_bytes),
        )
    return Group(title, found, small(_fused_sum(plan, groups)))


def _saved(value: float) -> str:
    return show_bytes(value) if value >= 0 else f"−{show_bytes(-value)}"


def _fused_sum(plan: Plan, groups: list[KernelRow]) -> str:
    saved = sum(kernel.repeat * kernel.saved_bytes for kernel in groups)
    apart = plan.totals.hbm_bytes + saved
    return (
        f"the step: {show_bytes(apart)} → {show_bytes(plan.totals.hbm_bytes)}, "
        f"{share(saved / apart if apart else 0.0)} saved. A tensor that stays inside a group saves "
        "one write, and one read for each of its readers inside."
    )


def launch_ledger(plan: Plan) -> RenderableType:
    """The step in every capture mode, and the two closed forms that bound it."""
    step = plan.step
    found = table(
        ("mode", "step", "overhead", "kernels", "host launches", ""),
        left=(0, 5),
    )
    for name, mode in step.modes.items():
        chosen = name == step.mode
        found.add_row(
            words(f"{name} (this plan)" if chosen else name, "bold" if chosen else ""),
            show_seconds(mode.time_s) if mode.available else DASH,
            share(mode.launch_share) if mode.available else DASH,
            f"{mode.kernels:,}" if mode.available else DASH,
            f"{mode.launches:,}" if mode.available else DASH,
            words(mode.reason or captured(mode, step)),
        )
    return Group(heading("Launch ledger: what CUDA Graphs save"), found, *map(small, _limits(plan)))


def _limits(plan: Plan) -> list[str]:
    """T_loop and T_graph, between which the recurrence of two clocks lies."""
    work_s, fixed = plan.totals.roofline_s, plan.step.fixed_s
    kernels = plan.step.modes[plan.step.mode].kernels
    launch_s, replay_s, called_s = fixed["launch_s"], fixed["replay_s"], plan.step.called_s
    form, calls = ("", "") if not called_s else (" + t_calls", f" + {show_seconds(called_s)}")
    loop = (
        f"T_loop = T + N·t_launch{form} = {show_seconds(work_s)} + {kernels:,} × "
        f"{show_seconds(launch_s)}{calls} = {show_seconds(work_s + kernels * launch_s + called_s)}:"
        " the limit of a host that never runs ahead of the GPU."
    )
    graph = (
        f"T_graph = T + t_once = {show_seconds(work_s)} + {show_seconds(replay_s)} = "
        f"{show_seconds(work_s + replay_s)}: the limit of one replay whose kernels start for free."
    )
    return [
        "Overhead: the share of the step that is launches, gaps and kernel starts.",
        loop,
        graph,
    ]


def rule_sets(plan: Plan) -> RenderableType:
    """The step under the groupings of each rule set."""
    step = plan.step
    found = table(("groupings", "step", "against engine", "kernels", "flags to turn"), left=(0, 4))
    for name, row in step.rule_sets.items():
        found.add_row(
            words(name),
            show_seconds(row.time_s),
            DASH if name == "engine" else gain(row.time_s / step.time_s - 1),
            f"{row.kernels:,}",
            words(flag_words(row.flags)),
        )
    said = (
        "engine: what these flags run. flags: the best of the engine's own flags. ideal: any legal "
        "grouping a perfect compiler could build. blocks, megakernel: the limit of one persistent "
        "kernel for each block, or for all (of a stage): weights and caches read once, at the "
        "datasheet's rates."
    )
    parts: list[RenderableType] = [heading("Groupings: what is left on the table"), found]
    parts.append(small(said))
    if limit := step.rule_sets.get("megakernel"):
        parts.append(small(_limited(limit)))
    return Group(*parts, *_first_kernels(plan))


def _limited(row: RuleSetTime) -> str:
    """What the limit of one kernel is made of, and what messages add to it."""
    held = f"megakernel: a limit, not a promise, made of {_PART_WORDS.get(row.bound, row.bound)}"
    if not row.messages:
        return f"{held}."
    hops = f"{row.messages:,} messages" if row.messages > 1 else "one message"
    waits = " that wait for each other take" if row.messages > 1 else " takes"
    added = show_seconds(row.exposed_s) if row.exposed_s else "none"
    hops_s = show_seconds(row.parts_s.get("latency", 0.0))
    return f"{held}. Hops of {hops}{waits} {hops_s}, of which {added} exposed."


_PART_WORDS = {
    "matrix": "matrix products",
    "vector": "vector work",
    "memory": "memory traffic",
    "link": "bytes over the link",
    "network": "bytes between nodes",
    "latency": "hops between GPUs",
}


def _first_kernels(plan: Plan) -> list[RenderableType]:
    """The single kernels worth writing, and which one first."""
    if not plan.first_kernels:
        return []
    names = ("kernel to write", "block", "tile", "each", "saves a step", "launches")
    found = table(names, left=(0, 1, 2))
    for row in plan.first_kernels:
        found.add_row(
            words(node_names(row.nodes)),
            words(times(", ".join(row.blocks), row.repeat)),
            words(_tile(row)),
            show_seconds(row.time_s),
            f"{show_seconds(row.gain_s)} ({share(row.gain_s / plan.step.time_s)})",
            f"−{row.launches_saved:,}" if row.launches_saved >= 0 else f"{-row.launches_saved:,}",
        )
    said = (
        "Write the first row first. Each saves about this much GPU time alone, beside the "
        "kernels the engine has; together they do not add up where they share nodes. Tile: rows "
        "by columns; over so many SMs as a cluster; grid: with a barrier for row statistics."
    )
    return [found, small(said)]


def _tile(row: FirstKernel) -> str:
    """The tile a kernel would be written with, and where its rows meet."""
    if not row.level:
        return DASH
    sides = f"{row.tile[0]}×{row.tile[1]}"
    over = f" over {row.multiprocessors}" if row.multiprocessors > 1 else ""
    return sides + (" grid" if row.level == "grid" else over)


def flag_words(flags: Mapping[str, Any]) -> str:
    """Flags as ``name=value``; a dash for none."""
    spelt = (f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in flags.items())
    return ", ".join(spelt) or DASH


def memory_ledger(plan: Plan) -> RenderableType:
    """The memory of one GPU: what the engine may take, and what takes it."""
    memory = plan.memory
    found = table(("memory of one GPU", "", ""), left=(0, 2))
    for name, amount, remark in _amounts(memory):
        found.add_row(words(name), show_bytes(amount), words(remark, "dim"))
    parts: list[RenderableType] = [heading("Memory ledger"), found]
    if memory.kv_bytes_per_token or memory.state_bytes_per_sequence:
        parts.append(words(_room(memory, plan.step)))
    return Group(*parts, *start_parts(memory))


def _amounts(memory: MemoryPlan) -> list[tuple[str, float, str]]:
    """Rows in the order in which they are taken."""
    known = memory.visible_bytes != memory.capacity_bytes
    visible = "as the driver reports it" if known else "not described: taken as the capacity"
    free = memory.budget_bytes < memory.utilization * memory.visible_bytes * 0.999
    whole = "what is free" if free else "what is visible"
    budget = f"{memory.utilization:g} of {whole}" if memory.utilization < 1 else "all of it"
    context = ("CUDA context", memory.context_bytes, "outside the budget")
    places = [("states", memory.states.held_bytes, _places(memory.states))] if memory.states else []
    cached, state = memory.kv_bytes_per_token, memory.state_bytes_per_sequence
    each = [f"{show_bytes(cached)} a token"] if cached else []
    each += [f"{show_bytes(state)} a sequence"] if state else []
    return [
        ("capacity", memory.capacity_bytes, "as the vendor prints it"),
        ("visible", memory.visible_bytes, visible),
        ("budget", memory.budget_bytes, budget),
        ("weights", memory.weights_bytes, ""),
        ("activations", memory.activations_bytes, "peak of the engine's profiling step"),
        ("runtime", memory.runtime_bytes, "libraries, communication buffers"),
        ("CUDA Graphs", memory.graphs_bytes, ""),
        *([context] if memory.context_bytes else []),
        *places,
        ("KV available", memory.kv_available_bytes, _kv_rule(memory)),
        ("KV needed", memory.kv_bytes, " and ".join(each)),
    ]


def _places(states: StatesPlan) -> str:
    behind = f", {states.drafted:,} behind drafts" if states.drafted else ""
    each = f"{states.each} a running sequence: at most {states.sequences:,} of them"
    return f"{states.slots:,} places{behind}, {each}"


def _kv_rule(memory: MemoryPlan) -> str:
    """Which of the engines' three ways leads to the memory for KV."""
    if memory.states:
        return "what states leave of the budget less weights"
    less_weights = memory.budget_bytes - memory.weights_bytes
    graphs = memory.graphs_bytes if memory.graphs_inside else 0.0
    less_all = less_weights - memory.activations_bytes - memory.runtime_bytes - graphs
    if math.isclose(memory.kv_available_bytes, less_all, abs_tol=1.0):
        return "budget less all of these" if memory.graphs_inside else "budget less all but graphs"
    if math.isclose(memory.kv_available_bytes, less_weights, abs_tol=1.0):
        return "budget less weights; the rest lies outside the budget"
    return f"{memory.utilization:g} of what the others leave free"


def _room(memory: MemoryPlan, step: StepTime) -> str:
    text = f"room for {memory.kv_tokens:,} tokens of KV cache"
    if step.kind == "shapes":
        return text
    return (
        f"{text}: at this length at most {optional_count(memory.max_batch)} sequences; at this "
        f"batch at most {optional_count(memory.max_context)} tokens each"
    )
