"""The engine's loop around the steps of a static batch, by arithmetic on the catalogue's figures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.scheduler import HostCosts, Scheduler
from planner.plan.assemble import assemble
from planner.plan.load import decode, prefill
from planner.plan.prepare import prepare
from planner.plan.wall import Wall, batch_step_s, wall_of
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
HOST = HostCosts(2e-3, 10e-6, 100e-6, 150e-6, 0.0, 0.0, 0.0)
IN_TURN = Scheduler(
    "decode_first", True, True, 2048, "all", 256, True, "prompt", "recompute", False, 1
)
BESIDE = replace(IN_TURN, asynchronous=True)


def planned(backend: str, load: str):
    text = f"model: qwen2.5-0.5b-instruct\ngpu: h100-sxm\nbackend: {backend}\n{load}\n"
    return ask(load_text(text, "deploy.yaml", "deployment"), CATALOG)


def added_s(backend: str, batch: int) -> float:
    """What a token of a batch takes beyond its step alone."""
    work = assemble(planned(backend, f"workload: {{batch: {batch}, input: 100, output: 2}}"))
    step = assemble(planned(backend, f"step: {{decode: {{batch: {batch}, context: 101}}}}"))
    assert work.workload is not None
    return work.workload.tpot_s - step.step.time_s


@pytest.mark.parametrize(
    ("backend", "batch", "expected_s"),
    [
        # V0: 2.5 ms a step and 20 us a sequence, while the GPU waits
        ("{name: vllm, version: '0.6'}", 8, 2.5e-3 + 8 * 20e-6),
        # the scheduler is asked once for four steps
        ("{name: vllm, version: '0.6', flags: {num_scheduler_steps: 4}}", 8, 2.66e-3 / 4),
        ("{name: tensorrt-llm, version: '0.12'}", 16, 0.5e-3 + 16 * 1.3e-6),
        ("{name: pytorch-compiled}", 8, 0.0),
    ],
)
def test_the_loop_of_an_engine_comes_on_top_of_its_steps(backend, batch, expected_s):
    assert added_s(backend, batch) == pytest.approx(expected_s, rel=1e-6, abs=1e-12)


def test_prompts_cost_the_loop_more_than_sequences():
    """2 ms, and 10 us for each of four sequences or 100 us for each of four prompts."""
    wall = Wall(IN_TURN, HOST)
    assert batch_step_s(wall, decode(4, 100), 0.01) == pytest.approx(0.01 + 2.04e-3)
    assert batch_step_s(wall, prefill(4, 100), 0.01) == pytest.approx(0.01 + 2.4e-3)
    assert batch_step_s(None, prefill(4, 100), 0.01) == 0.01


def test_beside_the_gpu_the_longer_of_the_two_counts():
    """Host 2.04 ms: hidden behind 3 ms, not behind 1 ms; 0.15 ms are never hidden."""
    wall = Wall(BESIDE, HOST)
    assert batch_step_s(wall, decode(4, 100), 3e-3) == pytest.approx(3.15e-3)
    assert batch_step_s(wall, decode(4, 100), 1e-3) == pytest.approx(2.19e-3)


def test_the_gpu_waits_for_what_waits_for_its_tokens():
    """Of 2.04 ms of host a quarter: 3 + 0.51 + 0.15 ms. A loop longer than both hides it."""
    wall = Wall(BESIDE, replace(HOST, serial_share=0.25))
    assert batch_step_s(wall, decode(4, 100), 3e-3) == pytest.approx(3.66e-3)
    assert batch_step_s(wall, decode(4, 100), 1e-3) == pytest.approx(2.19e-3)


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_no_wall_is_shorter_than_gpu_or_host(device_s, host_s, beside):
    found = Wall(BESIDE if beside else IN_TURN, HOST).step_s(device_s, host_s)
    assert found >= max(device_s, host_s)
    assert found <= device_s + host_s + HOST.exposed_s


def test_an_engine_that_serves_nobody_has_no_loop():
    load = "step: {decode: {batch: 1, context: 2}}"
    assert wall_of(prepare(planned("{name: pytorch-eager}", load))) is None
