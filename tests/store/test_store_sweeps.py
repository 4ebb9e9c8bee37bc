"""Sweeps of services in the store: kept, claimed by one alone, gone on with after SIGKILL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from store_examples import ROOT

from planner.service import jobs
from planner.service.serve import opened, server_of
from planner.service.settings import Limits, Settings
from planner.store.database import open_store
from planner.store.types import StoredSweep

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=15)
DECODE = """\
name: chat
model: qwen2.5-0.5b-instruct
gpu: rtx-4090
backend: {name: vllm}
step: {decode: {batch: 4, context: 1024}}
"""
ROWS = 80
OVER = [f"backend.flags.max_num_seqs=1:{ROWS}:1"]
"""Not a size of the load, so that each row is planned by itself: seconds, of which the first tells
how far it is.
"""
SERVE = """
import sys
from planner.service.serve import opened, serve
from planner.service.settings import Limits, Settings
listening = opened("127.0.0.1", 0)
limits = Limits(sweep_lease_s=0.4)
settings = Settings(sys.argv[1], hosts=frozenset({"127.0.0.1"}), workers=0, limits=limits)
port = listening.getsockname()[1]
serve(settings, listening, lambda: print(f"http://127.0.0.1:{port}", flush=True))
"""


def example(number: int = 1, **changes) -> StoredSweep:
    """A sweep that a service has begun at noon."""
    asked = {"deployment": "a\x00b", "over": ["batch=1:8"]}
    found = StoredSweep(
        *(f"{number:012x}", NOON + timedelta(minutes=number), "running", 3, 8),
        *("ann", NOON, 1, asked, {"error": None, "summary": None}),
    )
    return replace(found, **changes)


def test_a_sweep_comes_back_as_it_was_whatever_letters_it_holds(store):
    store.save_sweep(example())
    assert store.sweep(example().sweep_id) == example()
    assert store.sweep("ffffffffffff") is None


def test_the_newest_come_first_and_the_oldest_that_ended_are_forgotten(store):
    for number in range(1, 6):
        store.save_sweep(example(number, status="done" if number < 5 else "running"))
    store.forget_sweeps(2)
    assert [int(row.sweep_id, 16) for row in store.sweeps(10)] == [5, 4, 3]


def test_only_the_service_that_is_at_a_sweep_changes_it_and_not_after_its_end(store):
    store.save_sweep(example())
    one = example().sweep_id
    assert not store.keep_sweep(one, "bob", rows=4)
    assert store.keep_sweep(one, "ann", rows=4, status="done")
    assert not store.keep_sweep(one, "ann", rows=5)
    store.cancel_sweep(one, NOON, 6)
    assert (store.sweep(one).status, store.sweep(one).rows) == ("done", 4)
    store.save_sweep(example(2))
    store.cancel_sweep(example(2).sweep_id, NOON, 6)
    assert store.sweep(example(2).sweep_id) == example(2, status="cancelled", rows=6)


def test_what_nobody_has_been_heard_of_is_claimed_once(store):
    """Of three, one was seen within the lease, and one has ended."""
    store.save_sweep(example(1))
    store.save_sweep(example(2, seen_at=NOON + LEASE))
    store.save_sweep(example(3, status="done"))
    now = NOON + LEASE + timedelta(seconds=1)
    assert store.claim_sweeps("ann", now - LEASE, now, 9) == []  # its own, after a long sleep
    (taken,) = store.claim_sweeps("bob", now - LEASE, now, 9)
    assert taken == example(1, owner="bob", seen_at=now, starts=2)
    assert store.sweep(taken.sweep_id) == taken
    assert store.claim_sweeps("eve", now - LEASE, now, 9) == []


@pytest.fixture
def doomed(url):
    """A service in a process of its own, and its address."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    yield process, process.stdout.readline().strip()
    process.kill()
    process.communicate()


@contextmanager
def another(url):
    """The address of a service of this process."""
    ready, listening = threading.Event(), opened("127.0.0.1", 0)
    hosts, limits = frozenset({"127.0.0.1"}), Limits(sweep_lease_s=0.4)
    server = server_of(Settings(url, hosts=hosts, workers=0, limits=limits), ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    assert ready.wait(120)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)
    listening.close()


def until(ask, wanted):
    """What ``ask`` says once it is as wanted."""
    for _ in range(2400):  # two minutes
        found = ask()
        if wanted(found):
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_a_killed_service_loses_no_sweep(doomed, url):
    """The next goes on from the last summary, and finds what one that was not killed finds."""
    process, address = doomed
    body = {"deployment": DECODE, "over": OVER, "sort": "step_ms", "top": 5}
    sweep_id = httpx.post(f"{address}/api/v1/sweeps", json=body, timeout=120).json()["sweep_id"]
    with open_store(url) as store:
        until(lambda: store.sweep(sweep_id), lambda row: row.answer["summary"])
        process.kill()
        process.wait()
        left = store.sweep(sweep_id)
    assert (left.status, 0 < left.answer["summary"]["count"] < ROWS) == ("running", True)
    with another(url) as address:
        place = f"{address}/api/v1/sweeps/{sweep_id}"
        found = until(lambda: httpx.get(place, timeout=60).json(), lambda each: each["summary"])
    assert (found["status"], found["rows"], found["summary"]["count"]) == ("done", ROWS, ROWS)
    assert found["summary"]["resumed"] >= left.answer["summary"]["count"]
    whole = jobs.sweep(
        lambda _: None, (), DECODE.encode(), (), OVER,
        cost_model="calibrated", sort="step_ms", top=5,
    )  # fmt: skip
    assert found["summary"]["rows"] == json.loads(json.dumps(whole["rows"]))
