"""Kernels as they run, and nodes as they would run alone."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType

from planner.plan.types import KernelRow, NodeRow, Plan
from planner.report.cells import (
    DASH,
    bound,
    flops,
    heading,
    node_names,
    ratio,
    share,
    small,
    table,
    times,
    words,
)
from planner.report.headline import captured
from planner.units import show_bytes, show_flops, show_seconds

SMALL = 0.005
"""Rows below this share of the step are told in one line."""

_ONWARD = "→"
"""Marks a kernel that reaches into the next block."""


def kernel_table(plan: Plan, *, explain: bool) -> RenderableType:
    """The kernels of one step, the costliest first."""
    headers = ("kernel", "block", "nodes", "FLOP/B", "bound", "each", "share")
    found = table(headers, left=(0, 1, 2, 4))
    found.columns[4].no_wrap = True
    rows = sorted(plan.kernels, key=lambda kernel: -kernel.share)
    shown = [row for row in rows if explain or row.share >= SMALL]
    for row in shown:
        found.add_row(
            words(row.engine_name or row.name),
            words(_where(row)),
            words(node_names(row.nodes)),
            ratio(_intensity(row)),
            bound(row.bound),
            show_seconds(row.time_s),
            share(row.share),
        )
    parts: list[RenderableType] = [heading(f"Kernels of one step{on_one(plan)}"), found]
    rest = rows[len(shown) :]
    if rest:
        parts.append(small(_rest(rest)))
    parts += map(small, [_evidence(rows), *_onward(shown), *_padding(plan)])
    return Group(*parts)


def on_one(plan: Plan) -> str:
    """Says that amounts are one GPU's, where there are several."""
    return f", on one of {plan.cost.gpus} GPUs" if plan.cost.gpus > 1 else ""


def _where(row: KernelRow) -> str:
    return times(row.block + (_ONWARD if row.straddles else ""), row.repeat)


def _intensity(row: KernelRow) -> float:
    done = row.matmul_flops or row.vector_flops
    return done / row.hbm_bytes if row.hbm_bytes else 0.0


def _rest(rows: list[KernelRow]) -> str:
    launches = sum(row.repeat * row.launches for row in rows)
    total = share(sum(row.share for row in rows))
    return (
        f"and {len(rows)} more below {share(SMALL)} each, {total} together, in {launches:,} of the "
        "launches (--explain lists them)"
    )


def _evidence(rows: list[KernelRow]) -> str:
    """Where the rates come from; bounds in words for those who see them first."""
    kinds = dict.fromkeys(row.evidence for row in rows)
    counted = ", ".join(
        f"{kind} ({sum(row.evidence == kind for row in rows)})" if len(kinds) > 1 else kind
        for kind in kinds
    )
    return (
        f"Evidence for rates: {counted}. Bound: memory = HBM bytes, compute = FLOPs, "
        "launch = fixed cost."
    )


def _onward(rows: list[KernelRow]) -> list[str]:
    if not any(row.straddles for row in rows):
        return []
    return [f"{_ONWARD} marks a kernel that reaches into the next block."]


def _padding(plan: Plan) -> list[str]:
    said = captured(plan.step.modes[plan.step.mode], plan.step)
    chosen = plan.step.modes[plan.step.mode]
    if not said or chosen.captured_size == plan.step.tokens:
        return []
    return [f"FLOP and bytes of kernels include rows of padding: {said}."]


def node_table(plan: Plan, *, explain: bool) -> RenderableType:
    """The roofline of every node run on its own."""
    headers = ("node", "block", "FLOP", "bytes", "FLOP/byte", "ridge", "regime", "M*", "share")
    found = table(headers, left=(0, 1, 6))
    hidden = []
    for row in plan.nodes:
        if not (explain or row.composite or row.matmul_flops or row.share >= SMALL):
            hidden.append(row)
            continue
        found.add_row(
            words(("  " if _is_part(row, plan.nodes) else "") + row.id),
            words(times(row.block, row.repeat)),
            flops(row.matmul_flops or row.vector_flops),
            show_bytes(row.hbm_bytes),
            ratio(row.flops_per_byte),
            ratio(row.ridge_flops_per_byte),
            bound(row.bound),
            DASH if row.crossing_tokens is None else f"{row.crossing_tokens:,.0f}",
            f"({share(row.share)})" if row.composite else share(row.share),
        )
    lines = [*_small_nodes(hidden), *_reading(plan)]
    return Group(
        heading(f"Arithmetic intensity, each node alone{on_one(plan)}"), found, *map(small, lines)
    )


def _is_part(row: NodeRow, rows: Iterable[NodeRow]) -> bool:
    return any(r.composite and r.block == row.block and row.id.startswith(f"{r.id}.") for r in rows)


def _small_nodes(rows: list[NodeRow]) -> list[str]:
    if not rows:
        return []
    names = ", ".join(dict.fromkeys(row.id for row in rows))
    return [f"and {names}: {share(sum(row.share for row in rows))} together"]


def _reading(plan: Plan) -> list[str]:
    """How to read the table, and how its rows make up the model's one number."""
    lines = []
    if any(row.crossing_tokens is not None for row in plan.nodes):
        lines.append(
            "M* = tokens in flight at which a GEMM passes its ridge and becomes compute-bound."
        )
    if any(row.composite for row in plan.nodes):
        lines.append(
            "A share in brackets is the row run as one kernel: it is not added to its parts below."
        )
    return lines + _whole(plan)


def _whole(plan: Plan) -> list[str]:
    """The byte-weighted mean, split into attention and the rest."""
    totals = plan.totals
    if not totals.matmul_flops:
        return []
    step = (
        f"The whole step: {show_flops(totals.matmul_flops)} over {show_bytes(totals.hbm_bytes)} = "
        f"{ratio(totals.flops_per_byte)} FLOP/byte, the byte-weighted mean of its kernels"
    )
    attention = [k for k in plan.kernels if any(n.startswith("attention.") for n in k.nodes)]
    attention_bytes = sum(k.repeat * k.hbm_bytes for k in attention)
    if not attention_bytes:
        return [step + "."]
    attention_flops = sum(k.repeat * k.matmul_flops for k in attention)
    rest_bytes = totals.hbm_bytes - attention_bytes
    rest = (totals.matmul_flops - attention_flops) / rest_bytes
    split = (
        f"{step}: attention {ratio(attention_flops / attention_bytes)} on "
        f"{share(attention_bytes / totals.hbm_bytes)} of the bytes, everything else {ratio(rest)}."
    )
    return [split, *_decode(plan)]


def _decode(plan: Plan) -> list[str]:
    if plan.step.kind != "decode" or not plan.step.tokens:
        return []
    said = (
        f"A GEMM reads its weights once a step for all {plan.step.tokens:,} tokens: batch 1 would "
        "give about 1 FLOP/byte in 16 bit. Attention reads each sequence's own KV cache: its "
        "intensity comes from the heads that share a KV head, not from batch or context."
    )
    return [said]
