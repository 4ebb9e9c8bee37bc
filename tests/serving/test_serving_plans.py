"""Closed loops of the catalogue's engines, planned whole."""

from __future__ import annotations

import pytest

from planner.errors import SpecError, UsageError
from planner.plan.expected import expected
from planner.plan.load import decode
from planner.plan.prepare import prepare
from planner.plan.solve import solve_step
from planner.serving.closed import serve
from planner.serving.open import serve_rate
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()


def question(
    workload, backend="{name: vllm, version: '0.19', flags: {max_model_len: 8192}}", **more
):
    lines = [f"{key}: {value}" for key, value in more.items()]
    text = "\n".join(
        ["model: llama-3.1-8b-instruct", "gpu: h100-sxm", f"backend: {backend}",
         f"workload: {workload}", *lines]
    )  # fmt: skip
    return ask(load_text((text + "\n").encode(), "d.yaml", "deployment"), CATALOG)


def test_its_decode_step_is_that_of_a_plan():
    """64 users, 1,024 tokens in and 512 out: at 1,280 keys on average."""
    asked = question("{concurrency: 64, input: 1024, output: 512}")
    found = serve(asked)
    step = solve_step(prepare(asked), decode(found.decode.sequences, 1280), modes=())
    assert found.decode.device_s == pytest.approx(step.chosen.timeline.time_s)


def test_what_users_see_adds_up():
    asked = question("{concurrency: 64, input: 1024, output: 512}")
    plan = plan_question(asked)
    found = plan.serving
    latency_s = found.ttft_s.value + 511 * found.tpot_s.value
    assert found.latency_s.value == pytest.approx(latency_s)
    assert found.requests_per_s == pytest.approx(64 / latency_s)
    assert found.output_tokens_per_s.value == pytest.approx(64 * 512 / latency_s)
    assert found.total_tokens_per_s == pytest.approx(64 * 1536 / latency_s)
    assert found.tpot_s.low < found.tpot_s.value < found.tpot_s.high
    assert found.output_tokens_per_s.low < found.output_tokens_per_s.value
    assert plan.step.sequences == found.decode.sequences
    figures = {each.metric: each.value for each in expected(plan)}
    assert figures["tpot"] == figures["itl"] == found.tpot_s.value
    assert figures["ttft"] == found.ttft_s.value
    assert figures["total_throughput"] == pytest.approx(found.total_tokens_per_s)


def test_more_users_wait_longer_and_get_more_in_all():
    few, many = (
        serve(question(f"{{concurrency: {n}, input: 1024, output: 512}}")) for n in (8, 128)
    )
    assert few.tpot_s.value < many.tpot_s.value
    assert few.output_tokens_per_s.value < many.output_tokens_per_s.value
    assert few.limit == "users"


def test_users_beyond_the_cache_wait():
    """Sequences of 8,192 + 64 / 2 tokens: KV of 131,072 bytes a token, 1.08 GB each."""
    found = serve(question(
        "{concurrency: 400, input: 8000, output: 64}"
    ))  # fmt: skip
    assert found.limit == "kv"
    assert found.waiting == 400 - found.most_running
    assert found.running == found.most_running
    assert found.ttft_s.value > 10 * found.prefill.time_s


def test_what_takes_more_than_is_served_is_limited_by_what_fills_it():
    """At a thousand requests a second every place is taken, and more are sent: not by users."""
    sequences, kv = (
        serve_rate(question(f"{{rate: 1000, input: {prompt}, output: 64}}"))
        for prompt in (64, 8000)
    )
    assert (sequences.limit, kv.limit) == ("sequences", "kv")
    assert sequences.running == sequences.most_running


def test_replicas_share_the_users():
    one = serve(question("{concurrency: 32, input: 1024, output: 512}"))
    two = serve(question("{concurrency: 64, input: 1024, output: 512}", parallel="{data: 2}"))
    assert two.tpot_s.value == pytest.approx(one.tpot_s.value)
    assert two.output_tokens_per_s.value == pytest.approx(2 * one.output_tokens_per_s.value)
    assert two.output_tokens_per_s_per_gpu == pytest.approx(one.output_tokens_per_s_per_gpu)


def test_users_that_replicas_cannot_share_evenly_send_no_more_than_they_do():
    """One user of two replicas leaves one idle; of three, two share a replica."""
    for users in (1, 3):
        load = f"{{concurrency: {users}, input: 1024, output: 512}}"
        found = serve(question(load, parallel="{data: 2}"))
        assert found.requests_per_s == pytest.approx(users / found.latency_s.value)


def test_a_request_that_does_not_fit_is_refused_at_its_place():
    """70B in 16 bit takes 141 GB: two GPUs of 80 have no room for 100,000 keys beside it."""
    text = (
        "model: llama-3.1-70b-instruct\ngpu: h100-sxm\nparallel: {tensor: 2}\n"
        "backend: {name: vllm, flags: {max_model_len: 100100}}\n"
        "workload: {concurrency: 1, input: 100000, output: 100}\n"
    )
    asked = ask(load_text(text.encode(), "d.yaml", "deployment"), CATALOG)
    with pytest.raises(SpecError, match="not one request of 100,100 tokens fits"):
        plan_question(asked)


def test_an_engine_without_a_scheduler_serves_nobody():
    asked = question("{concurrency: 4, input: 64, output: 64}", backend="{name: pytorch-eager}")
    with pytest.raises(UsageError, match="serves no requests"):
        plan_question(asked)


def test_a_plan_says_what_evictions_cost():
    """30 % of 80 GB are 24 GB, 16 of them weights: a cache of some 50,000 tokens. 200 users ask for
    200 · 768 tokens on average.
    """
    few, many = (
        serve(
            question(f"{{concurrency: {n}, input: 512, output: 512}}", memory="{utilization: 0.3}")
        )
        for n in (16, 200)
    )
    assert (few.evictions, few.again_tokens) == (0.0, 0.0)
    assert many.limit == "kv"
    assert many.running + many.waiting == 200
    assert 0.9 < many.kv_share <= 1
    # those that go hold a prompt at least; no more is computed again than was generated
    assert 512 * many.evictions < many.again_tokens < 1.1 * 512
    latency_s = many.ttft_s.value + 511 * many.tpot_s.value
    assert many.requests_per_s == pytest.approx(200 / latency_s)
    # a token takes longer than a step, since some of them wait out of the cache
    assert many.tpot_s.value > max(many.decode.time_s, few.tpot_s.value)


def test_users_whose_kv_runs_out_fit_though_their_lengths_vary():
    """As many run as the cache holds of mean lengths, not of the longest."""
    for spread in (0.0, 0.5, 0.9):
        load = f"{{concurrency: 400, input: 8000, output: 800, spread: {spread}}}"
        found = plan_question(question(load))
        assert found.serving.limit == "kv"
        assert found.memory.fits, spread


def test_requests_of_one_token_hold_one_though_their_lengths_vary():
    """Evenly from 0.6 of a token to one: whole, as requests are, that is one. vLLM keeps it in a
    block of 16.
    """
    memory = plan_question(question("{concurrency: 1, input: 1, output: 1, spread: 0.4}")).memory
    assert memory.kv_bytes == 16 * memory.kv_bytes_per_token


@pytest.mark.parametrize("split", ["tensor", "pipeline"])
def test_gpus_that_nothing_joins_are_refused_at_what_asks_for_them(split):
    text = f"""\
model: llama-3.1-8b-instruct
gpu: dgx-spark
backend: {{name: vllm}}
parallel: {{{split}: 2}}
step: {{decode: {{batch: 1, context: 100}}}}
"""
    with pytest.raises(SpecError) as refused:
        plan_question(ask(load_text(text, "d.yaml", "deployment"), CATALOG))
    fault = refused.value.faults[0]
    assert "so 2 of them cannot share work" in fault.message
    assert fault.hint == f"set parallel.{split}: 1"
