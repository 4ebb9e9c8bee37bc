"""`planner kernels`: from a trace to the table of what is off, and what `record` says of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

LAYERS = 24
"""Of Qwen2.5 0.5B."""
PIECES = (
    ("vllm::fused_add_rms_norm_kernel", 3.0),
    ("nvjet_tst_64x8_qkv", 5.0),
    ("rotary_embedding_kernel", 2.0),
    ("reshape_and_cache_flash_kernel", 2.0),
    ("flash_fwd_splitkv_kernel", 11.0),
    ("nvjet_tst_64x8_o", 4.0),
    ("vllm::fused_add_rms_norm_kernel", 3.0),
    ("nvjet_tst_64x8_gate_up", 20.0),
    ("act_and_mul_kernel", 2.5),
    ("nvjet_tst_64x8_down", 10.0),
)
"""One layer: names and microseconds, 62.5 us of them."""
WHOLE_STEP = (
    ("vectorized_gather_kernel", 2.0),
    *PIECES * LAYERS,
    ("vllm::fused_add_rms_norm_kernel", 3.0),
    ("nvjet_tst_64x8_lm_head", 280.0),
    ("my_stranger", 15.0),
    ("reduce_kernel<ArgMaxOps>", 9.0),
)
BUSY_US = 2 + LAYERS * 62.5 + 3 + 280 + 15 + 9
LAUNCHES = LAYERS * len(PIECES) + 5


def trace(name: str, steps: int = 3, period_us: float = 2500.0) -> str:
    """A trace of steps that begin 2.5 ms apart, kernels one after the other."""
    events = []
    for step in range(steps):
        at = step * period_us
        for kernel, us in WHOLE_STEP:
            events.append(
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": kernel,
                    "ts": at,
                    "dur": us,
                    "args": {"device": 0},
                }
            )
            at += us
    Path(name).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return name


def summary(name: str, steps: int = 40) -> str:
    """The same as nsys adds it up."""
    calls: dict[str, list[float]] = {}
    for kernel, us in WHOLE_STEP:
        calls.setdefault(kernel, []).append(us)
    lines = [f'1.0,{sum(us) * steps * 1e3:.0f},{len(us) * steps},"{k}"' for k, us in calls.items()]
    header = "Time (%),Total Time (ns),Instances,Name"
    Path(name).write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return name


@pytest.fixture
def planned(run, deployment):
    """A stored plan of the compiled engine: its JSON."""
    return json.loads(run("plan", deployment, "--no-advice", "--json").out)


@pytest.fixture
def recorded(run, planned):
    """Records a file for the plan and gives the id of the run."""

    def _recorded(file: str) -> str:
        outcome = run("record", planned["plan_id"], file, "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)["run_id"]

    return _recorded


def rows(document):
    return {tuple(row["nodes"]): row for row in document["rows"]}


def test_a_trace_in_order_gives_every_kernel_its_own_time(run, recorded, planned):
    document = json.loads(run("kernels", recorded(trace("t.json")), "--json").out)
    assert document["kind"] == "kernels"
    assert (document["ordered"], document["steps"]) == (True, 3)
    assert document["launches"] == LAUNCHES
    assert document["step_s"] == pytest.approx(2.5e-3)
    assert document["busy_s"] == pytest.approx(BUSY_US * 1e-6)
    assert document["gap_s"] == pytest.approx(2.5e-3 - BUSY_US * 1e-6)
    assert document["predicted_step_s"] == planned["step"]["time_s"]
    found = rows(document)
    for nodes, us in {
        ("q_proj", "k_proj", "v_proj"): 5,
        ("o_proj",): 4,
        ("gate_proj", "up_proj"): 20,
        ("down_proj",): 10,
    }.items():
        assert found[nodes]["each_s"] == pytest.approx(us * 1e-6)
        assert found[nodes]["found"] == found[nodes]["planned"] == LAYERS
        assert found[nodes]["measured_s"] == pytest.approx(LAYERS * us * 1e-6)
    assert found["lm_head",]["each_s"] == pytest.approx(280e-6)
    assert [row["name"] for row in document["unmatched"]] == ["my_stranger"]
    assert document["matched_share"] == pytest.approx(1 - 15 / BUSY_US)
    assert "sequence" not in document


def test_steps_adds_the_launches_of_one_step(run, recorded):
    run_id = recorded(trace("t.json"))
    document = json.loads(run("kernels", run_id, "--steps", "--json").out)
    assert [one["name"] for one in document["sequence"]] == [name for name, _ in WHOLE_STEP]
    assert [one["kernel"] for one in document["sequence"]].count(None) == 1
    text = run("kernels", run_id, "--steps").out
    assert "One step in order" in text
    assert text.count("nvjet_tst_64x8_down") == LAYERS


def test_a_summary_without_order_joins_what_it_cannot_tell_apart(run, recorded):
    """40 steps, from calls of 960 and 24 layers; the four GEMMs of a layer take 39 us."""
    document = json.loads(run("kernels", recorded(summary("s.csv")), "--json").out)
    assert (document["ordered"], document["steps"], document["step_s"]) == (False, 40, None)
    joint = next(row for row in document["rows"] if "q_proj" in row["nodes"])
    assert len(joint["kernels"]) == 4
    assert (joint["found"], joint["each_s"]) == (None, None)
    assert joint["measured_s"] == pytest.approx(LAYERS * 39e-6)
    assert rows(document)["lm_head",]["each_s"] == pytest.approx(280e-6)
    text = run("kernels", recorded(summary("s.csv"))).out
    assert "kernels without their order" in text
    assert "cannot tell apart" in text


def test_the_furthest_off_comes_first(run, recorded):
    document = json.loads(run("kernels", recorded(trace("t.json")), "--json").out)
    off = [abs(row["difference_s"]) for row in document["rows"]]
    assert off == sorted(off, reverse=True)
    assert all(math.isfinite(row["ratio"]) for row in document["rows"])


def test_record_sums_up_what_the_kernels_say(run, planned):
    outcome = run("record", planned["plan_id"], trace("t.json"))
    said = " ".join(outcome.out.split())
    assert "99.2 % of kernel time belongs to kernels of the plan" in said  # 1 − 15 / 1809
    assert f"{LAUNCHES} launches a step" in said
    assert "furthest off, a step:" in said
    assert "`planner kernels" in said


def test_record_says_where_no_kernel_is_of_the_plan(run, planned):
    Path("s.csv").write_text("Time (%),Total Time (ns),Instances,Name\n1,1000,2,conv\n")
    outcome = run("record", planned["plan_id"], "s.csv")
    assert outcome.code == 0
    assert "no kernel of the plan is in the run" in " ".join(outcome.out.split())


def test_all_lists_whole_names(run, recorded):
    """Names are cut at 56 characters unless all is asked for."""
    name = "a_stranger_with_" + "x" * 60
    Path("s.csv").write_text(
        f"Time (%),Total Time (ns),Instances,Name\n1,1000,24,nvjet_a\n1,1000,1,{name}\n"
    )
    run_id = recorded("s.csv")
    assert run("kernels", run_id).out.count("x") < 60
    assert run("kernels", run_id, "--all").out.count("x") >= 60


def test_a_run_without_kernels_ends_with_2_and_a_hint(run, planned):
    outcome = run("record", planned["plan_id"], "--value", "12ms", "--json")
    refused = run("kernels", json.loads(outcome.out)["run_id"])
    assert refused.code == 2
    assert "holds no kernels" in refused.err
    assert "record a trace" in refused.err


def test_a_run_of_no_plan_ends_with_2_and_a_hint(run, recorded, tmp_path):
    from dataclasses import replace

    from planner.store.database import open_store

    run_id = recorded(trace("t.json"))
    with open_store(str(tmp_path / "plans.db")) as store:
        kept = store.run(run_id)
        store.save_run(replace(kept, run_id="f" * 12, plan_id=None))
    refused = run("kernels", "ffff")
    assert refused.code == 2
    assert "belongs to no plan" in refused.err


def test_an_unknown_run_ends_with_2(run, planned):
    assert run("kernels", "9999").code == 2


SMALL = """\
kind: model
name: small
title: A small Llama
dims: {hidden: 64, heads: 4, kv_heads: 2, head_dim: 16, intermediate: 176, vocab: 500}
max_context: 512
weights: bf16
sequence:
  - {block: embedding}
  - {block: decoder-swiglu, times: 2, label: layer}
  - {block: lm-head}
"""
CPU = """\
name: on a CPU
model: small.yaml
gpu: rtx-4090
backend: {name: pytorch-eager}
step: {decode: {batch: 2, context: 36}}
"""
TRACE = Path(__file__).parent.parent / "importers" / "files" / "torch_trace_cpu.json.gz"


def test_operators_of_a_cpu_are_matched_by_order(run, deployment):
    """A real trace: 2 layers, q, k, v, o, gate, up and down all called aten::mm. The angles of RoPE
    are made once a step and belong to no kernel of the plan; the LM head is the last GEMM.
    """
    Path("small.yaml").write_text(SMALL)
    Path("cpu.yaml").write_text(CPU)
    plan = json.loads(run("plan", "cpu.yaml", "--no-advice", "--json").out)
    recorded = json.loads(run("record", plan["plan_id"], str(TRACE), "--json").out)
    document = json.loads(run("kernels", recorded["run_id"], "--steps", "--json").out)
    found = rows(document)
    for nodes in (("q_proj",), ("k_proj",), ("v_proj",), ("gate_proj",), ("up_proj",), ("act",)):
        assert (found[nodes]["found"], found[nodes]["planned"]) == (2, 2)
    assert found["rope",]["launches"] == 2 * 10
    assert found["kv_cache_write",]["launches"] == 2 * 2
    assert found["lm_head",]["found"] == 1
    angles = {"aten::copy_", "aten::mul", "aten::cat", "aten::cos", "aten::sin"}
    assert {row["name"] for row in document["unmatched"]} <= angles
    head = next(at for at, row in enumerate(plan["kernels"]) if row["name"] == "lm_head")
    assert document["sequence"][-2]["kernel"] == head
