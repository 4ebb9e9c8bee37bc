"""Whether the engine starts, and what single changes would free."""

from __future__ import annotations

from rich.console import RenderableType

from planner.plan.memory_types import MemoryPlan, StartPlan
from planner.report.cells import table, words
from planner.units import show_bytes


def start_parts(memory: MemoryPlan) -> list[RenderableType]:
    """A line on the start and a table of changes; nothing of a graph without a cache."""
    if memory.start is None:
        return []
    parts: list[RenderableType] = [words(_line(memory.start))]
    if memory.frees:
        found = table(("change", "KV cache", "KV tokens", "starts"), left=(0, 3))
        for row in memory.frees:
            sign = "−" if row.kv_bytes < 0 else "+"
            found.add_row(
                words(row.change),
                f"{sign}{show_bytes(abs(row.kv_bytes))}" if row.kv_bytes else "",
                f"{row.kv_tokens:+,}".replace("-", "−"),
                "yes" if row.starts else "no",
            )
        parts.append(found)
    return parts


def _line(start: StartPlan) -> str:
    length = f"sequences of up to {start.max_model_len:,} tokens"
    if start.starts:
        printed = f"{start.kv_tokens:,} KV tokens, {start.concurrency:.2f} such sequences"
        return f"for {length} the engine starts, and prints {printed}"
    longest = start.largest_max_model_len
    hint = f"; it starts for up to {longest:,}" if longest else ""
    return f"for {length} the engine does not start: {start.reason}{hint}"
