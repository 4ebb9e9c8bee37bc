"""Small tables: stored plans, intensity, and rows whose field names carry their units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from planner import units
from planner.plan.attention_rows import AttentionRow
from planner.plan.intensity import GemmRow, Intensity
from planner.report.cells import DASH, bound, heading, ratio, small, table, words

if TYPE_CHECKING:
    from rich.table import Table


def plans_view(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Stored plans, the newest first, as `planner list` prints them."""
    if not rows:
        return small("no stored plan matches; `planner plan FILE` makes one")
    headers = ("plan", "saved (UTC)", "name", "model", "GPU", "engine", "step", "fits")
    found = table(headers, left=(0, 1, 2, 3, 4, 5, 7), whole=(0, 1, 7))
    for row in rows:
        found.add_row(
            words(row["plan_id"]),
            f"{row['created_at']:%Y-%m-%d}",
            *(words(row[name]) for name in ("name", "model", "gpu", "backend")),
            units.show_seconds(row["step_time_s"]),
            "yes" if row["fits"] else "NO",
        )
    return found


def intensity_view(found: Intensity) -> RenderableType:
    """FLOP/byte of GEMMs over tokens in flight, and of attention over context."""
    ridge = f"{found.ridge_flops_per_byte:.1f}"
    title = f"{found.model} on {found.gpu}: ridge {ridge} FLOP/byte in {found.dtype}"
    return Group(
        words(title, "bold"),
        small(_CONVENTIONS[found.convention]),
        _gemms(found.gemms),
        _attention(found.attention),
    )


_CONVENTIONS = {
    "exact": "exact: biases, Q and O count; prefill attention does causal work alone.",
    "textbook": (
        "textbook: no biases; attention moves K and V alone and does the full square in prefill."
    ),
}


def _gemms(rows: Iterable[GemmRow]) -> RenderableType:
    headers = ("GEMM", "block", "K × N", "FLOP/byte", "ridge", "regime", "M*")
    parts: list[RenderableType] = []
    for tokens, group in groupby(rows, lambda row: row.tokens):
        found = table(headers, left=(0, 1, 5))
        for row, names in _alike(group):
            found.add_row(
                words(", ".join(names)),
                words(row.block),
                _size(row),
                f"{row.flops_per_byte:.1f}",
                f"{row.ridge_flops_per_byte:.1f}",
                bound(row.bound),
                _tokens(row.crossing_tokens),
            )
        parts += [heading(f"GEMMs, {tokens:,} tokens in flight"), found]
    return Group(*parts, small(_CROSSING))


_CROSSING = "M* = tokens in flight at which the GEMM becomes compute-bound."


def _size(row: GemmRow) -> str:
    each = f"{row.depth} × {row.features}"
    return each if row.experts is None else f"{row.top_k} of {row.experts} experts, {each}"


def crossings_view(found: Mapping[str, Intensity]) -> RenderableType:
    """M* of one model's GEMMs on several GPUs, by their names, side by side."""
    first, *_ = found.values()
    shown = table(("GEMM", "block", "K × N", *found), left=(0, 1))
    sides = [
        [row for row in each.gemms if row.tokens == each.gemms[0].tokens] for each in found.values()
    ]
    merged: dict[Any, list[str]] = {}
    for rows in zip(*sides, strict=True):
        crossing = tuple(row.crossing_tokens for row in rows)
        merged.setdefault((rows[0].block, _size(rows[0]), crossing), []).append(rows[0].name)
    for (block, size, crossing), names in merged.items():
        shown.add_row(words(", ".join(names)), words(block), size, *map(_tokens, crossing))
    ridges = ", ".join(f"{name} {each.ridge_flops_per_byte:.1f}" for name, each in found.items())
    return Group(
        words(f"{first.model} in {first.dtype}: M*, where GEMMs meet the ridge", "bold"),
        words(f"ridge in FLOP/byte: {ridges}"),
        shown,
        small(f"{_CROSSING} {DASH}: at no number does it."),
        small(_constant(first)),
    )


def _constant(found: Intensity) -> str:
    if not found.attention:
        return ""
    most = max(row.limit_flops_per_byte for row in found.attention)
    return f"Attention of decode stays below {most:.1f} FLOP/byte, whatever the batch and context."


def _tokens(value: float | None) -> str:
    return DASH if value is None else f"{value:.1f}"


def _alike(rows: Iterable[GemmRow]) -> list[tuple[GemmRow, list[str]]]:
    """Rows of one shape and one result in one line."""
    merged: dict[Any, tuple[GemmRow, list[str]]] = {}
    for row in rows:
        key = (row.block, _size(row), row.flops_per_byte)
        merged.setdefault(key, (row, []))[1].append(row.name)
    return list(merged.values())


def _attention(rows: Sequence[AttentionRow]) -> RenderableType:
    if not rows:
        return words("")
    headers = ("attention", "block", "context", "decode", "regime", "limit", "prefill", "regime")
    found = table(headers, left=(0, 1, 4, 7))
    for row in rows:
        found.add_row(
            words(row.name),
            words(row.block),
            f"{row.context:,}",
            f"{row.decode_flops_per_byte:.1f}",
            bound(row.decode_bound),
            f"{row.limit_flops_per_byte:.1f}",
            f"{row.prefill_flops_per_byte:.1f}",
            bound(row.prefill_bound),
        )
    said = "limit = 2·n_q / (n_kv·b): decode with Q and O left out, whatever the context."
    return Group(heading("Attention of one sequence, FLOP/byte"), found, small(said))


_BY_SUFFIX: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("_flops_per_byte", lambda value: f"{ratio(value)} FLOP/byte"),
    ("_bytes_per_s", units.show_bandwidth),
    ("_flops_per_s", units.show_flops_per_s),
    ("_bytes", units.show_bytes),
    ("_w", lambda value: f"{value:,.0f} W"),
    ("parameters", units.show_count),
)
"""A field's name says its unit, and so how it is shown."""


def rows_view(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Rows of like fields as a table, units taken from the fields' names."""
    if not rows:
        return small("none")
    first = rows[0]
    numeric = [name for name in first if _formatter(name) or isinstance(first[name], int)]
    headers = [header(name) for name in first]
    found = table(headers, left=(i for i, name in enumerate(first) if name not in numeric))
    for row in rows:
        found.add_row(*(words(cell(name, value)) for name, value in row.items()))
    return _first_unbroken(found)


def _first_unbroken(found: Table) -> Table:
    found.columns[0].no_wrap = True
    return found


def _formatter(name: str) -> Callable[[float], str] | None:
    return next((show for suffix, show in _BY_SUFFIX if name.endswith(suffix)), None)


def header(name: str) -> str:
    """A field's name in words, without its unit."""
    for suffix in ("_flops_per_byte", "_bytes_per_s", "_flops_per_s", "_bytes", "_w"):
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def cell(name: str, value: Any) -> str:
    """A field's value with the unit its name says."""
    if value is None or value == []:
        return DASH
    show = _formatter(name)
    if show:
        return show(value)
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)
