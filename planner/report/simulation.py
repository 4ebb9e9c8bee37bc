"""An event run as people read it: what requests saw, what servers did, and the steady state."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table

from planner.plan.serving_types import ServingPlan
from planner.report.cells import DASH, facts, heading, rate, share, small, table, words
from planner.serving.percentiles import Spread
from planner.serving.simulation import Simulation
from planner.serving.tally import PoolState
from planner.units import show_seconds

_LOOPS = {
    "closed": "users that send when they have their answer",
    "open": "requests that come at a rate",
    "trace": "requests of a trace",
}


def simulation_view(found: Simulation) -> RenderableType:
    """Times with their percentiles, rates, pools, and the analytic result with the difference."""
    parts: list[RenderableType] = [
        words(_headline(found)),
        heading("What requests saw"),
        _seen(found),
        words(""),
        facts(_rates(found)),
        heading("What servers did"),
        _pools(found.pools),
    ]
    if found.steady:
        parts += [
            heading("Beside the steady state of a plan"),
            _beside(found, found.steady),
        ]
    parts.append(small(f"{_LOOPS[found.loop].capitalize()}, seed {found.seed}. {_about(found)}"))
    return Group(*parts)


def _headline(found: Simulation) -> str:
    sent = f"{found.requests:,} requests in {show_seconds(found.duration_s)}"
    if not found.stable:
        return f"{sent}: they come faster than they are served, and the queue grows without end"
    return (
        f"{sent}: first token after {show_seconds(found.ttft.mean_s)}, then "
        f"{show_seconds(found.tpot.mean_s)} a token, {rate(found.output_tokens_per_s)} "
        "output tokens/s in all"
    )


def _about(found: Simulation) -> str:
    said = "A percentile that fewer than five requests lie beyond is not told."
    if found.refused:
        are = "request is" if found.refused == 1 else "requests are"
        said += f" {found.refused:,} {are} too long for the engine: refused."
    return said


def _seen(found: Simulation) -> Table:
    seen = table(("", "mean", "P50", "P95", "P99"), left=(0,))
    for name, each in (
        ("time to first token", found.ttft),
        ("time per output token", found.tpot),
        ("between two tokens", found.itl),
        ("whole request", found.latency),
    ):
        seen.add_row(words(name), *_times(each))
    return seen


def _times(each: Spread) -> Iterator[str]:
    yield show_seconds(each.mean_s)
    for time_s in (each.p50_s, each.p95_s, each.p99_s):
        yield DASH if time_s is None else show_seconds(time_s)


def _rates(found: Simulation) -> list[tuple[str, str]]:
    rows = [
        ("requests", f"{found.requests_per_s:.4g} a second"),
        ("output", f"{rate(found.output_tokens_per_s)} tokens/s, all GPUs"),
        ("in and out", f"{rate(found.total_tokens_per_s)} tokens/s"),
        ("a GPU", f"{rate(found.output_tokens_per_s_per_gpu)} output tokens/s"),
        ("a user", f"{rate(found.tokens_per_s_per_user)} tokens/s"),
    ]
    if found.saturation_per_s is not None:
        rows.append(("saturation", f"{found.saturation_per_s:.4g} requests a second at most"))
    return rows


def _pools(pools: tuple[PoolState, ...]) -> Table:
    columns = ("servers", "", "GPU busy", "KV", "most", "running", "waiting", "most", "evicted")
    shown = table(columns, left=(0,))
    for pool in pools:
        shown.add_row(
            words(pool.name),
            f"{pool.replicas:,} × {pool.gpus // pool.replicas:,} GPU",
            share(pool.device_share),
            share(pool.kv_share),
            share(pool.kv_most),
            f"{pool.running:,.1f}",
            f"{pool.waiting:,.1f}",
            f"{pool.waiting_most:,}",
            f"{pool.evictions:,}",
        )
    return shown


def _beside(found: Simulation, steady: ServingPlan) -> Table:
    shown = table(("mean", "event run", "steady state", "difference"), left=(0,))
    times = (
        ("time to first token", found.ttft.mean_s, steady.ttft_s.value),
        ("time per output token", found.tpot.mean_s, steady.tpot_s.value),
        ("whole request", found.latency.mean_s, steady.latency_s.value),
    )
    for name, run_s, steady_s in times if found.stable else times[1:2]:
        row = (show_seconds(run_s), show_seconds(steady_s), _difference(steady_s, run_s))
        shown.add_row(words(name), *row)
    pairs = [("output tokens/s", found.output_tokens_per_s, steady.output_tokens_per_s.value)]
    if found.saturation_per_s is not None and steady.saturation_per_s is not None:
        pairs.append(("saturation, requests/s", found.saturation_per_s, steady.saturation_per_s))
    for name, run, other in pairs:
        shown.add_row(words(name), f"{run:.4g}", f"{other:.4g}", _difference(other, run))
    return shown


def _difference(steady: float, run: float) -> str:
    return f"{steady / run - 1:+.1%}" if run else DASH
