"""``planner simulate``."""

import json

import pytest

USERS = """\
name: small chat
model: qwen2.5-0.5b-instruct
gpu: rtx-4090
workload: {concurrency: 4, input: 128, output: 16}
"""


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A small deployment with users."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users.yaml").write_text(USERS, encoding="utf-8")
    return "users.yaml"


def test_a_plan_beside_it_says_that_requests_are_evicted(run, tmp_path, monkeypatch):
    """Some of 400 users' requests of 1,024 tokens find no room, and others lose theirs."""
    monkeypatch.chdir(tmp_path)
    load = "workload: {concurrency: 400, input: 1024, output: 1024}\nmemory: {utilization: 0.12}\n"
    text = USERS.replace("workload: {concurrency: 4, input: 128, output: 16}\n", load)
    (tmp_path / "users.yaml").write_text(text, encoding="utf-8")
    found = run("plan", "users.yaml")
    assert "times a request" in found.out
    assert "of 1,024 generated" in found.out
    assert "fewer sequences at once, or more memory for KV" in found.out
    serving = json.loads(run("plan", "users.yaml", "--json").out)["serving"]
    assert serving["evictions"] > 0
    assert serving["again_tokens"] > 1024 * serving["evictions"]


def test_users_in_a_closed_loop(run, served):
    found = run("simulate", served, "--requests", "600")
    assert found.code == 0
    assert "600 requests in " in found.out
    assert "Beside the steady state of a plan" in found.out
    rows = [line for line in found.out.splitlines() if line.startswith("time per output token")]
    assert len(rows) == 2
    assert "–" not in rows[0]
    assert "\nbetween two tokens " in found.out


def test_json_has_every_figure_and_the_same_seed_the_same_ones(run, served):
    words = ("simulate", served, "--requests", "50", "--json", "--set", "workload.rate=5")
    first, again = (run(*words, "--seed", "7").out for _ in range(2))
    assert first == again != run(*words, "--seed", "8").out
    found = json.loads(first)
    assert (found["kind"], found["loop"], found["requests"]) == ("simulation", "open", 50)
    assert found["ttft"]["mean_s"] > 0
    assert found["ttft"]["p99_s"] is None  # fifty requests cannot tell
    assert found["saturation_per_s"] > 5
    assert found["steady"]["rate_per_s"] == 5
    assert found["pools"][0]["evictions"] == 0


def test_a_rate_beyond_saturation_exits_with_1(run, served):
    found = run("simulate", served, "--requests", "200", "--set", "workload.rate=100000")
    assert found.code == 1
    assert "the queue grows without end" in found.out


def test_a_trace_is_run_from_beside_its_deployment(run, served, tmp_path):
    (tmp_path / "trace.csv").write_text(
        "arrival_s,input,output\n0,100,5\n0.5,50,5\n1,999999,5\n", encoding="utf-8"
    )
    deployment = USERS.replace("concurrency: 4, input: 128, output: 16", "trace: trace.csv")
    (tmp_path / "users.yaml").write_text(deployment, encoding="utf-8")
    found = run("simulate", str(tmp_path / "users.yaml"))
    assert found.code == 0
    assert "2 requests in " in found.out
    assert "1 request is too long" in " ".join(found.out.split())
    planned = run("plan", served, "--no-save")
    assert planned.code == 2
    assert "a trace has no steady state to plan (planner simulate runs it)" in planned.err


def test_a_trace_that_is_not_there_is_named_at_its_place(run, served):
    found = run("simulate", served, "--set", "workload={trace: absent.csv}")
    assert found.code == 2
    assert "--set workload={trace: absent.csv}:1:18: there is no file absent.csv" in found.err


def test_pools_have_servers_of_their_own(run, served, tmp_path):
    pools = "pools: {prefill: {parallel: {data: 2}}, link: {bandwidth: 10 GB/s, latency: 1 ms}}\n"
    (tmp_path / "users.yaml").write_text(USERS + pools, encoding="utf-8")
    found = run("simulate", served, "--requests", "100")
    assert found.code == 0
    rows = {line.split()[0]: line for line in found.out.splitlines() if " × 1 GPU" in line}
    assert rows.keys() == {"prefill", "decode"}
    assert "2 × 1 GPU" in rows["prefill"]
    assert run("plan", served, "--no-save").code == 2


def test_a_step_is_no_run_of_requests(run, deployment):
    found = run("simulate", deployment)
    assert found.code == 2
    assert "chat.yaml:4:1: a run needs requests that come and go" in found.err


def test_a_rate_has_a_plan(run, served):
    found = run("plan", served, "--no-save", "--set", "workload.rate=5")
    assert found.code == 0
    assert "5 requests/s: first token after" in found.out
    assert "saturation" in found.out
    swamped = run("plan", served, "--set", "workload.rate=100000")
    assert "the queue grows without end" in swamped.out
