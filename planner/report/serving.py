"""A closed loop as people read it: what users see, and the steps behind it."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group, RenderableType

from planner.plan.serving_types import Range, ServingPlan, StepKind
from planner.report.cells import facts, heading, rate, share, small, table, words
from planner.units import show_seconds

_LIMITS = {
    "users": "what is sent: more of it would be served",
    "kv": "the KV cache: no more sequences fit at once",
    "sequences": "the engine's limit of sequences at once",
    "states": "states: no more places are set aside for them",
    "prefill": "prompts: every step is full of them",
    "host": "the host: its loop takes longer than the GPU's step",
}


def serving_line(found: ServingPlan) -> str:
    """What users see, in a line."""
    users = f"{found.concurrency:,} users" if found.concurrency > 1 else "one user"
    if found.rate_per_s is not None:
        users = f"{found.rate_per_s:g} requests/s"
    if _swamped(found):
        most = f"{found.saturation_per_s:.3g}"
        return f"{users} are more than the {most} that are served: the queue grows without end"
    return (
        f"{users}: first token after {show_seconds(found.ttft_s.value)}, then "
        f"{show_seconds(found.tpot_s.value)} a token, {rate(found.tokens_per_s_per_user)} tokens/s "
        f"for each; {rate(found.output_tokens_per_s.value)} output tokens/s in all"
    )


def serving_view(found: ServingPlan) -> RenderableType:
    """What users see with its intervals, what the replica is full of, and its two kinds of step."""
    seen = table(("what users see, on average", "", "80 %"), left=(0,))
    for name, each in (
        ("time to first token", found.ttft_s),
        ("time per output token", found.tpot_s),
        ("whole request", found.latency_s),
    ):
        seen.add_row(words(name), *_shown(each, show_seconds))
    output = found.output_tokens_per_s
    ends = (
        ""
        if output.low is None or output.high is None
        else f"{rate(output.low)}–{rate(output.high)}"
    )
    seen.add_row(words("output tokens/s, all GPUs"), rate(output.value), ends)
    state = [
        *_open(found),
        ("limited by", _LIMITS[found.limit]),
        ("running", f"{found.running:,} of at most {found.most_running:,} sequences a replica"),
        ("waiting", f"{found.waiting:,} requests a replica"),
        ("KV in use", share(found.kv_share)),
        *_evicted(found),
        ("GPU busy", share(found.device_share)),
        ("a GPU", f"{rate(found.output_tokens_per_s_per_gpu)} output tokens/s"),
    ]
    steps = table(("step", "share", "decoding", "prompt tokens", "GPU", "host", "to the next"))
    for name, kind in (("decode", found.decode), ("with prompts", found.prefill)):
        steps.add_row(words(name), *_step(kind))
    sent = "Users send their next request when they have the answer to the last."
    if found.rate_per_s is not None:
        sent = "Requests come as they come, whatever became of those before."
    about = f"{sent} Means of the steady state; `planner simulate` shows the slowest of many."
    how = "in a closed loop" if found.rate_per_s is None else "as requests come"
    title = heading(f"Served {how}")
    return Group(title, seen, words(""), facts(state), words(""), steps, small(about))


def _swamped(found: ServingPlan) -> bool:
    """Whether more is asked for than is served."""
    rate_per_s, most = found.rate_per_s, found.saturation_per_s
    return rate_per_s is not None and most is not None and rate_per_s >= most


def _open(found: ServingPlan) -> list[tuple[str, str]]:
    if found.rate_per_s is None:
        return []
    return [
        ("in flight", f"{found.concurrency:,} requests, over all replicas"),
        ("saturation", f"{found.saturation_per_s or 0:.3g} requests/s at most"),
        *([("queue", "grows without end; figures are without it")] if _swamped(found) else []),
    ]


def _evicted(found: ServingPlan) -> list[tuple[str, str]]:
    if not found.evictions:
        return []
    again = f"{found.again_tokens:,.0f} tokens computed again, of {found.output:,} generated"
    hint = "fewer sequences at once, or more memory for KV, evict fewer"
    return [("evicted", f"{found.evictions:.2g} times a request: {again}"), ("", hint)]


def _shown(each: Range, said: Callable[[float], str]) -> tuple[str, str]:
    if each.low is None or each.high is None:
        return said(each.value), ""
    return said(each.value), f"{said(each.low)}–{said(each.high)}"


def _step(kind: StepKind) -> tuple[str, ...]:
    return (
        share(kind.share),
        f"{kind.sequences:,}",
        f"{kind.prompt_tokens:,}",
        show_seconds(kind.device_s),
        show_seconds(kind.host_s),
        show_seconds(kind.time_s),
    )
