"""``planner serve`` as a process: what it refuses, its signals, its streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from service_examples import DECODE, post_plan

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "from planner.cli.main import main; main()", "serve"]


def start(*arguments, log=None):
    known = {name: value for name, value in os.environ.items() if not name.startswith("PLANNER_")}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=log.open("w") if log else subprocess.PIPE, text=True,
        env={**known, "PYTHONPATH": path, "COLUMNS": "100"},
    )  # fmt: skip


@pytest.fixture
def running(tmp_path):
    """A process with one worker, and its address."""
    process = start("--port", 0, "--db", tmp_path / "plans.db", "--workers", 1)
    line = process.stdout.readline()
    assert " at http://127.0.0.1:" in line, process.communicate()[1]
    yield process, line.split(" at ")[1].strip()
    process.kill()
    process.communicate()


def planning(client):
    """Whether a worker works: sweeps have none of these."""
    return "planner_jobs_running 1.0" in client.get("/metrics").text


def test_sigterm_finishes_what_runs_ends_streams_and_stops(running):
    """A plan asked for before the signal is answered after it; a watched sweep's stream ends."""
    process, address = running
    found, watched = {}, threading.Event()
    with httpx.Client(base_url=address, timeout=60) as client:
        assert post_plan(client, DECODE).status_code == 201
        body = {"deployment": DECODE, "over": ["backend.flags.max_num_seqs=1:16384:1"]}
        sweep = client.post("/api/v1/sweeps", json=body).json()

        def watch():
            url = f"{address}/api/v1/sweeps/{sweep['sweep_id']}/events"
            with httpx.stream("GET", url, timeout=60) as stream:
                found["status"] = stream.status_code
                watched.set()
                found["events"] = stream.read().decode()

        def plan():
            other = DECODE.replace("1024", "2048")
            with httpx.Client(base_url=address, timeout=60) as own:
                found["plan"] = post_plan(own, other, advice="true").status_code

        threads = [threading.Thread(target=watch), threading.Thread(target=plan)]
        for thread in threads:
            thread.start()
        assert watched.wait(60)
        while "plan" not in found and not planning(client):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert (found["status"], found["plan"]) == (200, 201)
    first = found["events"].split("\n\n")[0].splitlines()
    assert json.loads(first[2].removeprefix("data: "))["sweep_id"] == sweep["sweep_id"]
