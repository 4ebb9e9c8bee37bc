"""The event run and the analytic steady state, on real steps of a real deployment."""

from __future__ import annotations

import pytest

from planner.serving.simulation import simulate
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

DEPLOYMENT = """\
model: llama-3.1-8b-instruct
gpu: {gpu}
backend: {{name: {engine}, version: "{version}"}}
workload: {{{load}, input: {prompt}, output: {output}{more}}}
"""
ENGINES = [
    ("vllm", "0.8"),
    ("vllm", "0.19"),
    ("sglang", "0.5.6"),
    ("tensorrt-llm", "0.12"),
    ("tensorrt-llm", "1.0"),
]
CATALOG = Catalog.standard()


def run(engine, load, prompt, output, more="", *, requests=300, gpu="h100-sxm"):
    name, version = engine
    words = {"engine": name, "version": version, "load": load, "more": more, "gpu": gpu}
    text = DEPLOYMENT.format(prompt=prompt, output=output, **words)
    return simulate(ask(load_text(text, "f", "deployment"), CATALOG), requests=requests, seed=1)


def apart(found):
    """How far the steady state's TPOT lies from the event run's."""
    return abs(found.steady.tpot_s.value / found.tpot.mean_s - 1)


@pytest.mark.parametrize("engine", ENGINES, ids="-".join)
@pytest.mark.parametrize(("prompt", "output"), [(256, 256), (1024, 128)])
def test_one_user_sees_the_steady_state(engine, prompt, output):
    found = run(engine, "concurrency: 1", prompt, output, requests=20)
    assert apart(found) < 0.005
    assert found.steady.ttft_s.value == pytest.approx(found.ttft.mean_s, rel=0.01)


@pytest.mark.parametrize("engine", ENGINES, ids="-".join)
@pytest.mark.parametrize("spread", ["", ", spread: 0.2"], ids=["alike", "varied"])
@pytest.mark.parametrize(
    ("users", "prompt", "output"), [(4, 1024, 128), (16, 1024, 128), (64, 256, 256)]
)
def test_users_see_the_tpot_of_the_steady_state(engine, users, prompt, output, spread):
    assert apart(run(engine, f"concurrency: {users}", prompt, output, spread)) < 0.05


@pytest.mark.parametrize("engine", ENGINES, ids="-".join)
def test_requests_that_come_as_they_come_do_too(engine):
    found = run(engine, "rate: 8", 1024, 128, requests=500)
    assert apart(found) < 0.05
    assert found.steady.ttft_s.value == pytest.approx(found.ttft.mean_s, rel=0.15)
    assert found.requests_per_s == pytest.approx(8, rel=0.1)


@pytest.mark.parametrize("engine", [("vllm", "0.19"), ("sglang", "0.5.6")], ids="-".join)
@pytest.mark.parametrize("spread", ["", ", spread: 0.2"], ids=["alike", "varied"])
def test_users_whose_kv_runs_out_see_the_steady_state(engine, spread):
    """24 GB hold weights and some 30,000 tokens: twice as many are asked for."""
    found = run(engine, "concurrency: 48", 1024, 768, spread, requests=80, gpu="l4")
    assert found.pools[0].evictions > 10
    assert apart(found) < 0.05
    steady = found.steady
    assert steady.limit == "kv"
    assert steady.requests_per_s == pytest.approx(found.requests_per_s, rel=0.05)
    assert steady.ttft_s.value == pytest.approx(found.ttft.mean_s, rel=0.2)
    assert steady.kv_share == pytest.approx(found.pools[0].kv_share, rel=0.05)


@pytest.mark.parametrize(("prompt", "output"), [(2048, 64), (1024, 256), (256, 768)])
def test_a_last_round_that_is_not_full_is_shorter(prompt, output):
    """24 GB have room for 18, 30 and 38 of them at once: a last round takes 10, 10 and 24 of them."""
    load = "concurrency: 100, requests: 100"
    found = run(("tensorrt-llm", "1.0"), load, prompt, output, requests=100, gpu="l4")
    assert found.steady.requests_per_s == pytest.approx(found.requests_per_s, rel=0.03)


@pytest.mark.parametrize("engine", [("vllm", "0.10"), ("sglang", "0.5.6")], ids="-".join)
@pytest.mark.parametrize(("users", "prompt", "output"), [(192, 128, 32), (48, 1024, 64)])
def test_short_answers_keep_steps_full_of_prompts(engine, users, prompt, output):
    """Six prompts a step, of which all fit; and one of many."""
    found = run(engine, f"concurrency: {users}", prompt, output, ", spread: 0.3", requests=500)
    assert found.steady.requests_per_s == pytest.approx(found.requests_per_s, rel=0.05)
    assert found.steady.ttft_s.value == pytest.approx(found.ttft.mean_s, rel=0.2)


def test_an_engine_that_evicts_serves_less_at_its_highest_rate():
    """Requests of 512 + 256 tokens hold 640 on average: as many are served as if none were evicted,
    less what their tokens cost that are computed again.
    """
    found = run(("vllm", "0.19"), "rate: 9", 512, 256, requests=20, gpu="l4")
    steady = found.steady
    assert not found.stable
    assert steady.saturation_per_s == pytest.approx(found.saturation_per_s, rel=0.05)
    assert steady.evictions > 0.1
    # in flight without the queue before them, some of them out of the cache
    assert steady.running < steady.concurrency < 2 * steady.running


def test_more_than_can_be_served_is_not_stable():
    found = run(("tensorrt-llm", "1.0"), "rate: 60", 1024, 128)
    assert not found.stable
    assert found.saturation_per_s < 60
    assert found.saturation_per_s == pytest.approx(found.steady.saturation_per_s, rel=0.1)
    # without the queue, in which the event run's requests wait
    assert found.steady.ttft_s.value < found.ttft.mean_s


def test_two_replicas_carry_twice_the_rate():
    one = run(ENGINES[1], "rate: 5", 1024, 128)
    two = run(ENGINES[1], "rate: 10", 1024, 128, "}\nparallel: {data: 2")
    assert two.saturation_per_s == pytest.approx(2 * one.saturation_per_s, rel=0.1)
    assert two.tpot.mean_s == pytest.approx(one.tpot.mean_s, rel=0.1)
    assert (two.pools[0].replicas, two.pools[0].gpus) == (2, 2)
