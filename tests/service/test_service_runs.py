"""Files uploaded, runs judged, baselines set."""

from __future__ import annotations

import gzip

from service_examples import BYTES, latency_file


def upload(client, plan, raw, **headers):
    query = {"plan": plan["plan_id"]}
    return client.post("/api/v1/runs", content=raw, params=query, headers={**BYTES, **headers})


def around(plan, factor):
    """30 latencies within a thousandth of a factor of what the plan predicts."""
    latency_s = plan["workload"]["latency_s"]
    return latency_file([latency_s * factor * (1 + (i % 5 - 2) / 4000) for i in range(30)])


def test_a_file_is_kept_once_and_read_back(client, plan):
    raw = around(plan, 1.0)
    answer = upload(client, plan, raw)
    assert answer.status_code == 201, answer.text
    (run,) = answer.json()["runs"]
    assert run["new"] is True
    assert run["source"]["format"] == "vllm_bench_latency"
    again = upload(client, plan, raw)
    assert again.status_code == 200
    assert again.json()["runs"][0]["run_id"] == run["run_id"]
    found = client.get(f"/api/v1/runs/{run['run_id']}").json()
    assert found["metrics"] == run["metrics"]
    listed = client.get("/api/v1/runs", params={"plan": plan["plan_id"]}).json()["runs"]
    assert run["run_id"] in [row["run_id"] for row in listed]


def test_a_packed_file_is_taken(client, plan):
    assert upload(client, plan, gzip.compress(around(plan, 1.001))).status_code == 201


def test_what_is_no_measurement_is_refused_with_its_reason(client, plan):
    answer = upload(client, plan, b"hello")
    assert answer.status_code == 422
    assert answer.json()["detail"] == "no known measurement format"
    (fault,) = answer.json()["faults"]
    assert (fault["file"], fault["line"]) == ("upload", None)
    assert upload(client, plan, b"").status_code == 422
    assert upload(client, {"plan_id": "ffffffffffff"}, around(plan, 1)).status_code == 404
    answer = upload(client, plan, around(plan, 1), **{"content-type": "multipart/form-data"})
    assert answer.status_code == 415


def test_a_run_is_judged_by_its_plan_and_then_by_its_baseline(client, plan):
    """30 samples 8 % slower than a baseline whose spread is a thousandth: beyond the factor 1.05
    that counts as the same, and no chance."""
    good = upload(client, plan, around(plan, 1.002)).json()["runs"][0]["run_id"]
    verdict = client.get(f"/api/v1/runs/{good}/verdict").json()
    assert verdict["verdict"] == "pass"
    accepted = client.put("/api/v1/baselines/release 1", json={"run_id": good, "by": "ann"})
    assert accepted.status_code == 200, accepted.text
    slow = upload(client, plan, around(plan, 1.002 * 1.08)).json()["runs"][0]["run_id"]
    query = {"baseline": "release 1"}
    judged = client.get(f"/api/v1/runs/{slow}/verdict", params=query).json()
    assert judged["verdict"] == "regress"
    client.put("/api/v1/baselines/release 1", json={"run_id": slow})
    chain = client.get("/api/v1/baselines/release 1").json()["baselines"]
    assert [(row["run_id"], row["set_by"]) for row in chain] == [(slow, "service"), (good, "ann")]
    rows = client.get("/api/v1/history", params=query).json()["rows"]
    assert {slow, good} <= {row["run_id"] for row in rows}
    assert [row["name"] for row in client.get("/api/v1/baselines").json()["baselines"]] == [
        "release 1"
    ]


def test_unknown_runs_and_names_are_not_found(client, plan):
    run = upload(client, plan, around(plan, 1.003)).json()["runs"][0]["run_id"]
    assert client.get("/api/v1/runs/ffff").status_code == 404
    assert client.get("/api/v1/runs/ffff/verdict").status_code == 404
    missing = client.get(f"/api/v1/runs/{run}/verdict", params={"baseline": "relase"})
    assert missing.status_code == 404
    assert client.get("/api/v1/baselines/nothing").status_code == 404
    assert client.put("/api/v1/baselines/x", json={"run_id": "ffff"}).status_code == 404
    assert client.put("/api/v1/baselines/x", json={"run_id": run, "by": "a\nb"}).status_code == 422
    assert client.put("/api/v1/baselines/a%0Ab", json={"run_id": run}).status_code == 400
    both = {"plan": plan["plan_id"], "baseline": "x"}
    assert client.get("/api/v1/history", params=both).status_code in (404, 422)


def test_runs_are_listed_a_page_at_a_time(client, plan):
    made = [upload(client, plan, around(plan, 2 + n / 100)).json()["runs"][0] for n in range(3)]
    seen, query = [], {"limit": 1, "plan": plan["plan_id"]}
    while (page := client.get("/api/v1/runs", params=query).json())["next"]:
        seen += [row["run_id"] for row in page["runs"]]
        query["after"] = page["next"]
    assert seen[:3] == [run["run_id"] for run in reversed(made)]
    assert len(seen) == len(set(seen))
    assert client.get("/api/v1/runs", params={"after": "ffff"}).status_code == 422
