"""The service's routes and limits, and its figures under load of docs/measured/load.json."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from builders.markup import table
from planner.service.app import create
from planner.service.settings import MIB, Limits, Settings

LOAD = Path(__file__).resolve().parents[1] / "measured" / "load.json"
_GIB = 2**30
_SAID = {
    "body_bytes": "a request that brings no file",
    "upload_bytes": "an uploaded file",
    "buffered_bytes": "all bodies that are being received or read at one moment",
    "memory_bytes": "one worker process",
    "plan_s": "one plan, or the reading of one file",
    "sweep_s": "one sweep",
    "sweep_rows": "rows of one sweep",
    "sweeps_running": "sweeps that run at one moment",
    "sweeps_waiting": "sweeps that wait",
    "sweeps_kept": "finished sweeps whose answer can still be read",
    "sweep_lease_s": "without a sign of life of a service before another goes on with its sweeps",
    "sweep_starts": "beginnings of a sweep before it counts as failed",
    "gpus": "GPUs compared side by side",
    "waiting": "requests that wait for a worker; more get 429 and `Retry-After`",
    "streams": "clients that watch sweeps at one moment",
    "connections": "connections",
    "header_s": "until the head of a request has arrived, and between two requests",
    "body_s": "until the body has arrived",
    "send_s": "that a client may take to accept a piece of an answer",
    "drain_s": "from SIGTERM until what still runs is cut off",
}


def routes() -> str:
    """Every route with what it does."""
    document = create(Settings()).openapi()
    rows = [
        (f"`{method.upper()} {path}`", route["summary"])
        for path, methods in document["paths"].items()
        for method, route in methods.items()
    ]
    return table(("route", "what it does"), rows)


def limits() -> str:
    """What one request, and all together, may ask for."""
    known = Limits()
    assert _SAID.keys() == {field.name for field in fields(Limits)}
    return table(("of", "limit"), [(said, _limit(name, known)) for name, said in _SAID.items()])


def _limit(name: str, known: Limits) -> str:
    value = getattr(known, name)
    if name.endswith("_bytes"):
        return f"{value // _GIB} GiB" if value >= _GIB else f"{value // MIB} MiB"
    return f"{value:g} s" if name.endswith("_s") else f"{value:,}"


def load() -> str:
    """What the clients of `make load` saw."""
    found = json.loads(LOAD.read_text("utf-8"))
    stores = found["stores"]
    head = (
        f"{found['clients']} clients, {found['seconds']:g} s each way, {found['machine']['cpus']} "
        f"cores that clients, service and database share; {found['date']}. {found['note']}".rstrip()
        + "\n\n"
    )
    rows = [(name, *(of(each) for each in stores.values())) for name, of in _FIGURES.items()]
    return head + table(("figure", *(_NAMES[name] for name in stores)), rows)


_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms"


def _lost(each: dict[str, Any]) -> str:
    written = each["written"]
    lost = written["lost_plans"] + written["lost_runs"]
    return f"{lost} of {written['plans'] + written['runs']:,}"


_FIGURES = {
    "one plan, alone (median)": lambda each: _ms(each["single_plan_s"]),
    "saturation": lambda each: f"{each['saturation_per_s']:.1f} requests/s",
    "of these, plans": lambda each: f"{_plans_per_s(each):.1f} plans/s",
    "open loop at 60 % of it": lambda each: f"{each['open_loop_per_s']:.1f} requests/s",
    "plan there, median": lambda each: _ms(each["open_loop"]["plan"]["p50_s"]),
    "plan there, P99": lambda each: _ms(each["open_loop"]["plan"]["p99_s"]),
    "P99 over alone": lambda each: f"{each['p99_over_single']:.1f} ×",
    "read there, P99": lambda each: _ms(each["open_loop"]["read"]["p99_s"]),
    "upload there, P99": lambda each: _ms(each["open_loop"]["upload"]["p99_s"]),
    "errors": lambda each: str(sum(each["errors"].values())),
    "acknowledged writes lost": _lost,
}


def _plans_per_s(each: dict[str, Any]) -> float:
    counts = {kind: figures["count"] for kind, figures in each["saturated"].items()}
    return float(each["saturation_per_s"] * counts["plan"] / sum(counts.values()))
