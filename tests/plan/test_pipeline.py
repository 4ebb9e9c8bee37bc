"""Steps through a pipeline: micro-batches, waiting, memory of the tightest stage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.errors import SpecError
from planner.plan.load import decode, prefill
from planner.plan.pipeline import MicroBatches, micro_batches, waiting_s
from planner.spec.catalog import Catalog
from planner.spec.load import load_deployment

SPEC = """\
model: llama-3.3-70b-instruct
gpu: h100-sxm
parallel: {{tensor: 2, pipeline: {stages}}}
backend: {{name: vllm, version: "0.26", flags: {{fuse_allreduce_rms: false}}}}
step: {{decode: {{batch: {batch}, context: 1024}}}}
"""


@pytest.fixture
def plan(tmp_path):
    def make(stages, batch):
        file = tmp_path / "deploy.yaml"
        file.write_text(SPEC.format(stages=stages, batch=batch))
        return planner.plan_question(planner.ask(load_deployment(file), Catalog.standard()))

    return make


@pytest.mark.parametrize(
    ("batch", "stages", "count", "each"),
    [(32, 4, 4, 8), (30, 4, 4, 8), (3, 4, 3, 1), (1, 8, 1, 1), (7, 1, 1, 7)],
)
def test_a_decode_batch_is_shared_by_the_stages(batch, stages, count, each):
    found = micro_batches(decode(batch, 100), stages)
    assert (found.count, found.part.sequences) == (count, each)
    assert found.steady


def test_waiting_by_hand():
    """Stages of 3, 5 and 4 ms. Decode in three parts: 3·5 ms against 12 on the way. Prefill of two
    parts: 12 + 5. One part alone waits for nobody."""
    step = decode(1, 1)
    stages = (3.0, 5.0, 4.0)
    assert waiting_s(stages, MicroBatches(3, step, steady=True)) == 3.0
    assert waiting_s(stages, MicroBatches(2, step, steady=True)) == 0.0
    assert waiting_s(stages, MicroBatches(2, step, steady=False)) == 5.0
    assert waiting_s(stages, MicroBatches(1, step, steady=False)) == 0.0


@given(st.lists(st.floats(0.001, 10.0), min_size=1, max_size=8), st.integers(1, 8))
def test_a_period_is_no_shorter_than_the_busiest_stage_allows(stages, count):
    """Brute force: parts run through stages one after another, each stage one part at a time."""
    count = min(count, len(stages))
    steady = MicroBatches(count, decode(count, 1), steady=True)
    rounds = 40
    free = [0.0] * len(stages)
    ends = [0.0] * count
    seen = []
    for _ in range(rounds):
        for part in range(count):
            at = ends[part]
            for stage, time_s in enumerate(stages):
                at = max(at, free[stage]) + time_s
                free[stage] = at
            seen.append(at)
            ends[part] = at
    period = (seen[-1] - seen[-1 - count * (rounds // 2)]) / (rounds // 2)
    assert period == pytest.approx(sum(stages) + waiting_s(tuple(stages), steady), rel=1e-6)
    first = MicroBatches(count, prefill(count, 1), steady=False)
    assert seen[count - 1] <= sum(stages) + waiting_s(tuple(stages), first) + 1e-9


def test_a_pipeline_gives_throughput_and_no_speed(plan):
    """Two stages of 40 layers: one request passes all 80 layers as before, plus a send; the weights
    of a rank are half. Sixteen requests go as two micro-batches of eight. Fused all-reduces, which
    the engine leaves off in a pipeline, are off in both."""
    alone, piped = plan(1, 1), plan(2, 1)
    assert piped.step.stages == (40, 40)
    assert piped.step.micro_batches == 1
    assert alone.step.time_s < piped.step.time_s < 1.02 * alone.step.time_s
    many = plan(2, 16)
    assert many.step.micro_batches == 2
    assert many.step.tokens == 16
    assert plan(1, 8).step.time_s < many.step.time_s < 1.05 * plan(1, 8).step.time_s
    assert any("40 + 40 layers" in note for note in many.notes)
    assert [kernel.repeat for kernel in many.kernels if "send" in kernel.nodes] == [1]


def test_memory_is_that_of_the_tightest_stage(plan):
    """The last of two stages holds 40 layers and the head, the first 40 layers and the embedding:
    both a good half of 141 GB over two ranks; KV of half the layers takes half the bytes a token.
    """
    whole, half = plan(1, 8).memory, plan(2, 8).memory
    assert half.weights_bytes == pytest.approx(whole.weights_bytes / 2, rel=0.01)
    assert half.kv_bytes_per_token == whole.kv_bytes_per_token / 2
    assert half.kv_tokens > 2 * whole.kv_tokens


def test_more_stages_than_layers_are_refused_at_their_place(plan):
    with pytest.raises(SpecError, match=r"deploy.yaml:3:.*80 layers do not fill 100 pipeline"):
        plan(100, 8)


NODES = """\
model: llama-3.1-405b-instruct
gpu: h100-sxm
parallel: {{{parallel}}}
{nodes}
precision: {{weights: fp8}}
backend: {{name: vllm, version: "0.26"}}
step: {{decode: {{batch: 32, context: 4096}}}}
"""


def time_of(tmp_path, parallel, nodes):
    file = tmp_path / "nodes.yaml"
    file.write_text(NODES.format(parallel=parallel, nodes=nodes))
    plan = planner.plan_question(planner.ask(load_deployment(file), Catalog.standard()))
    return plan.step.time_s, plan


def test_all_reduces_over_nodes_cost_what_the_network_says(tmp_path):
    """405B has 126 layers of two all-reduces. Over two nodes each takes a ring's two messages of
    10 us and 32 · 16,384 · 2 bytes by eighths at 50 GB/s, 2.6 us: 253 of them about 5.7 ms."""
    wide = "tensor: 16"
    inside, _ = time_of(tmp_path, wide, "")
    link = "nodes: 2\nnetwork: {bandwidth: 50 GB/s, latency: 10 us}"
    over, plan = time_of(tmp_path, wide, link)
    ring_s = 2 * 10e-6 + 32 * 16384 * 2 / 8 / 50e9
    assert over - inside == pytest.approx(253 * ring_s, rel=0.5)
    assert plan.described["parallel"] == "tensor 16, data 1, on 2 nodes"
    slow, _ = time_of(tmp_path, wide, link.replace("10 us", "100 us"))
    assert slow - over == pytest.approx(253 * 2 * 90e-6, rel=0.1)


def test_stages_over_nodes_send_once(tmp_path):
    link = "nodes: 2\nnetwork: {bandwidth: 50 GB/s, latency: 1 ms}"
    inside, _ = time_of(tmp_path, "tensor: 8, pipeline: 2", "")
    over, _ = time_of(tmp_path, "tensor: 8, pipeline: 2", link)
    assert 0.9e-3 < over - inside < 2.1e-3
