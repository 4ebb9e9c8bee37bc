"""Steps along batch or length: time and throughput, M*, and where the KV cache ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.charts import panels
from planner.charts.files import altair
from planner.charts.modes import scale_of
from planner.charts.served import served_chart
from planner.charts.theme import WIDTH, Theme, finish
from planner.plan.around import Around
from planner.plan.types import Plan
from planner.serving.around import ServedAround

_HEIGHT = 190
_TITLES = {
    ("decode", "batch"): "batch, sequences over all GPUs",
    ("decode", "context"): "context, tokens of each sequence",
    ("prefill", "batch"): "batch, prompts over all GPUs",
    ("prefill", "context"): "prompt, tokens of each sequence",
}
_LENGTHS = {"decode": "context", "prefill": "length of prompts"}
_RATES = {"decode": "output tokens/s", "prefill": "prompt tokens/s"}


def sweep_chart(plan: Plan, found: Around | ServedAround, *, theme: Theme = "light") -> Any:
    """Panels over one axis: of steps their time and rate, of served loads what users see. Raises
    UsageError without Altair.
    """
    alt = altair()
    if isinstance(found, ServedAround):
        return served_chart(plan, found, theme=theme)
    factor, unit = scale_of(max(found.step_s))
    rows = list(_rows(found, factor))
    ends, below = (found.values[0], found.values[-1]), _TITLES[found.kind, found.axis]
    drawn = [
        alt.layer(
            *_marks(alt, found, theme, above=name == "step"),
            *panels.curve(alt, rows, name, theme),
        )
        .encode(y=panels.up(alt, rows, name, title))
        .encode(x=panels.along(alt, ends, below if name == "tokens" else None))
        .properties(width=WIDTH, height=_HEIGHT)
        for name, title in (("step", f"time of a step, {unit}"), ("tokens", _RATES[found.kind]))
    ]
    whole = alt.vconcat(*drawn, spacing=12)
    other = "batch" if found.axis == "context" else _LENGTHS[found.kind]
    kept = f"{other} {found.kept:,}"
    along = "batch" if found.axis == "batch" else _LENGTHS[found.kind]
    subtitle = [
        f"{plan.described['model']} on {plan.described['device']}, {kept}",
        "band: 80 % interval; point: this plan; thin line and shade: does not fit",
    ]
    return finish(whole, f"{found.kind.capitalize()} steps by {along}", subtitle, theme)


def _rows(found: Around, factor: float) -> Iterator[dict[str, Any]]:
    times = zip(found.step_s, found.low_s, found.high_s, strict=True)
    columns = zip(found.values, times, found.tokens_per_s, found.fits, strict=True)
    for value, (step, low, high), tokens, fits in columns:
        yield {
            "at": value,
            "step": step / factor,
            "step_low": (step if low is None else low) / factor,
            "step_high": (step if high is None else high) / factor,
            "tokens": tokens,
            "tokens_low": tokens if high is None else tokens * step / high,
            "tokens_high": tokens if low is None else tokens * step / low,
            "fits": fits,
            "here": value == found.here,
        }


def _marks(alt: Any, found: Around, theme: Theme, *, above: bool) -> Iterator[Any]:
    """The end of the KV cache with a shade beyond it, and M*: each is named in one panel."""
    first, last = ends = found.values[0], found.values[-1]
    if found.limit is not None and found.limit < last:
        at = max(found.limit, first)
        yield panels.shade(alt, at, last, _HEIGHT, theme)
        yield panels.rule(alt, at, [1, 0], _HEIGHT)
    yield from panels.crossed(alt, found.crossings, ends, _HEIGHT, None if above else theme)
    if above and found.limit is not None and found.limit < last:
        said = max(found.limit, first), f"KV cache full: {found.limit:,}"
        yield from panels.words(alt, ends, said, _HEIGHT - 8, theme)
