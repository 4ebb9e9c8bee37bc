"""Counts and times for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from planner.service.sweeps import Sweeps
    from planner.service.workers import Workers

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The figures of one service; labels are routes, never what a client wrote."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "planner_requests",
            "Requests answered",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._times = Histogram(
            "planner_request_seconds",
            "From the head of a request to the end of its answer",
            ["route"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._plans = Counter("planner_plans", "Plans made", ["new"], registry=self._registry)
        self._runs = Counter("planner_runs", "Runs recorded", ["new"], registry=self._registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request."""
        self._requests.labels(method, route, str(status)).inc()
        self._times.labels(route).observe(seconds)

    def planned(self, *, new: bool) -> None:
        """One plan."""
        self._plans.labels(str(new).lower()).inc()

    def recorded(self, *, new: bool) -> None:
        """One run."""
        self._runs.labels(str(new).lower()).inc()

    def watch(self, workers: Workers, sweeps: Sweeps) -> None:
        """Show what these are doing when asked."""
        gauges = {
            "planner_jobs_waiting": ("Requests that wait for a worker", lambda: workers.waiting),
            "planner_jobs_running": ("Workers that work", lambda: workers.running),
            "planner_worker_restarts": ("Workers killed or dead", lambda: workers.restarts),
            "planner_sweeps_unfinished": ("Sweeps queued or running", lambda: sweeps.unfinished),
        }
        for name, (about, value) in gauges.items():
            Gauge(name, about, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)
