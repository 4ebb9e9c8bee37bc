"""Deployments, runs and settings for tests of the service."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager

from planner.service.serve import opened, server_of
from planner.service.settings import Limits, Settings

DECODE = """\
name: chat
model: qwen2.5-0.5b-instruct
gpu: rtx-4090
backend: {name: vllm, version: "0.26"}
step: {decode: {batch: 4, context: 1024}}
"""
STATIC = """\
name: static
model: qwen2.5-0.5b-instruct
gpu: rtx-4090
backend: {name: vllm, version: "0.26"}
workload: {batch: 4, input: 128, output: 128}
"""
YAML = {"content-type": "application/yaml"}
BYTES = {"content-type": "application/octet-stream"}


def settings(db, **changes):
    """Of a service on loopback that plans in threads of this process."""
    hosts = frozenset({"127.0.0.1", "localhost"})
    return Settings(**{"db": str(db), "hosts": hosts, "workers": 0, **changes})


def limits(**changes):
    return Limits(**changes)


def post_plan(client, text, **query):
    query = {"advice": "false", **query}
    return client.post("/api/v1/plans", content=text, headers=YAML, params=query)


def latency_file(latencies_s):
    """What `vllm bench latency --output-json` writes."""
    ordered = sorted(latencies_s)
    share = {str(p): ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in (10, 50, 90)}
    mean = sum(ordered) / len(ordered)
    return json.dumps(
        {"avg_latency": mean, "latencies": list(latencies_s), "percentiles": share}
    ).encode()


@contextmanager
def served(chosen):
    """The base address of a service that runs meanwhile."""
    ready = threading.Event()
    server = server_of(chosen, ready.set)
    listening = opened("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    assert ready.wait(120)
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join(120)
        listening.close()
