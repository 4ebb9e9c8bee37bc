"""The ledger of attention as people read it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table

from planner.plan.attention_ledger import AttentionLedger, LedgerRow
from planner.report.cells import heading, ratio, small, table, words
from planner.units import show_bytes


def attention_view(found: AttentionLedger) -> RenderableType:
    """Bytes by the way attention runs, FLOP/byte of each, and where GPUs end."""
    heads = f"{found.heads} query and {found.kv_heads} key-value heads of {found.head_dim}"
    parts: list[RenderableType] = [
        words(f"{found.model}: attention of one layer, one sequence, {heads}"),
        heading("Bytes, and FLOP by byte"),
        _bytes(found.rows),
        small(
            "apart: scores, mask, softmax and values as kernels of their own, scores in FP32. "
            "resident: fused, keys and values read once, as where the L2 holds them. re-read: "
            "fused, every tile row reads its keys again. split: partial outputs of each part added."
        ),
    ]
    if found.gpus:
        parts += [heading("Where attention apart is out of reach"), _gpus(found)]
        parts.append(
            small(
                "outlasts layer: prompt tokens from which its bytes take longer than the layer's "
                "matrix products compute. over fused: its bytes at the bandwidth over the causal "
                "FLOPs at the matrix peak, at any length. fits: the longest prompt whose scores, "
                "one tensor written while another is read, fit beside the weights (*: the weights "
                "do not fit, and scores have the memory to themselves)."
            )
        )
    return Group(*parts)


def _bytes(rows: tuple[LedgerRow, ...]) -> Table:
    columns = ("new", "keys", "tile", "splits", "apart", "resident", "re-read", "split")
    shown = table((*columns, "FLOP/B apart", "resident"), left=())
    for row in rows:
        shown.add_row(
            f"{row.new_tokens:,}",
            f"{row.kv_tokens:,}",
            f"{row.tile}",
            f"{row.splits}",
            *map(show_bytes, (row.apart_bytes, row.resident_bytes)),
            *map(show_bytes, (row.reread_bytes, row.split_bytes)),
            ratio(row.flops / row.apart_bytes),
            ratio(row.flops / row.resident_bytes),
        )
    return shown


def _gpus(found: AttentionLedger) -> Table:
    shown = table(("GPU", "outlasts layer", "over fused", "fits"), left=(0,))
    for gpu in found.gpus:
        shown.add_row(
            words(gpu.gpu),
            f"{gpu.slower_than_layer:,}",
            ratio(gpu.slower_than_fused),
            f"{gpu.largest:,}{'' if gpu.weights_fit else ' *'}",
        )
    return shown
