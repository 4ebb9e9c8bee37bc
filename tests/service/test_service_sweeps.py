"""Sweeps in the background: what they find, their progress, their end."""

from __future__ import annotations

import json
import time

from service_examples import DECODE


def begin(client, over, **more):
    return client.post("/api/v1/sweeps", json={"deployment": DECODE, "over": over, **more})


def ended(client, sweep_id):
    for _ in range(1200):  # a minute
        found = client.get(f"/api/v1/sweeps/{sweep_id}").json()
        if found["status"] not in ("queued", "running"):
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_a_sweep_runs_in_the_background_and_keeps_its_best_rows(client):
    """3 batches × 2 GPUs are 6 rows."""
    answer = begin(client, ["batch=1:4", "gpu=rtx-4090,h100-sxm"], top=2, sort="step_ms")
    assert answer.status_code == 202, answer.text
    head = answer.json()
    assert (head["total"], head["summary"]) == (6, None)
    assert answer.headers["location"] == f"/api/v1/sweeps/{head['sweep_id']}"
    found = ended(client, head["sweep_id"])
    assert (found["status"], found["rows"]) == ("done", 6)
    rows = found["summary"]["rows"]
    assert [row["cells"]["gpu"] for row in rows] == ["h100-sxm", "h100-sxm"]
    assert rows[0]["predicted"]["step_ms"]["value"] <= rows[1]["predicted"]["step_ms"]["value"]
    listed = client.get("/api/v1/sweeps").json()["sweeps"]
    assert listed[0]["sweep_id"] == head["sweep_id"]


def test_events_tell_of_a_sweep_until_its_end(client):
    sweep_id = begin(client, ["batch=1:64", "gpu=rtx-4090,l40s"]).json()["sweep_id"]
    with client.stream("GET", f"/api/v1/sweeps/{sweep_id}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        text = "".join(stream.iter_text())
    events = [
        dict(line.split(": ", 1) for line in each.splitlines())
        for each in text.split("\n\n")
        if each
    ]
    assert events[-1]["event"] == "end"
    assert all(each["event"] == "progress" for each in events[:-1])
    states = [json.loads(each["data"]) for each in events]
    assert states[-1]["status"] == "done"
    assert [state["rows"] for state in states] == sorted(state["rows"] for state in states)


def test_a_cancelled_sweep_stays_cancelled(client):
    sweep_id = begin(client, [f"backend.flags.max_num_seqs=1:{2**14}:1"]).json()["sweep_id"]
    assert client.delete(f"/api/v1/sweeps/{sweep_id}").json()["status"] == "cancelled"
    assert ended(client, sweep_id)["status"] == "cancelled"
    assert client.delete(f"/api/v1/sweeps/{sweep_id}").json()["status"] == "cancelled"
    assert client.delete("/api/v1/sweeps/ffffffffffff").status_code == 404


def test_wrong_rows_are_errors_of_the_sweep_and_wrong_sweeps_are_refused(client):
    found = ended(client, begin(client, ["gpu=rtx-4090,./x.yaml"]).json()["sweep_id"])
    assert found["summary"]["errors"] == 1
    assert "is a path" in found["summary"]["reasons"][0]["error"]
    assert begin(client, ["batch=1:100000000:1", "context=1:100000000:1"]).status_code == 422
    too_many = begin(client, ["batch=1:1000:1", "context=1:1000:1"])
    assert too_many.status_code == 422
    assert "1,000,000 rows are over 200,000" in too_many.json()["detail"]
    assert begin(client, ["nothing=1"]).status_code == 422
    assert begin(client, []).status_code == 422
    assert begin(client, ["batch=1"], extra=1).status_code == 422
    assert begin(client, ["batch=1"], top=10**9).status_code == 422
