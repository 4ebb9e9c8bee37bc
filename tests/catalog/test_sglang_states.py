"""Places for states in SGLang, version by version, by hand."""

import functools

import pytest

from planner.graph import totals
from planner.plan.load import step_load
from planner.plan.memory import memory_plan
from planner.plan.memory_types import MemoryPlan
from planner.plan.prepare import Prepared, prepare
from planner.plan.start import start_of
from planner.serving.closed import serve
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
GIB = 2**30
DELTA_27B = 48 * (48 * 128 * 128 * 4 + 3 * 10_240 * 2)
"""48 layers: 48 heads of 128 × 128 in FP32, 3 rows of 2·16·128 + 48·128 channels in 16 bit."""


@functools.cache
def asked(
    version, model="qwen3.5-27b", more="", flags="", load="step: {decode: {batch: 1, context: 16}}"
):
    text = (
        f"model: {model}\ngpu: h200-sxm\nmemory: {{utilization: 0.8}}\n{load}\n{more}\n"
        f"backend: {{name: sglang, version: '{version}', flags: {{{flags}}}}}\n"
    )
    return prepare(ask(load_text(text, "d.yaml", "deployment"), CATALOG))


def memory(found: Prepared) -> MemoryPlan:
    return memory_plan(found, step_load(found.question.deployment))


def test_27b_on_an_h200_runs_forty():
    """143,771 MiB less context and libraries, of which 0.8, less weights; 0.9 / 1.9 for states."""
    found = memory(asked("0.5.16"))
    rest = (143_771 * 2**20 - (0.51 + 0.25) * GIB) * 0.8 - found.weights_bytes
    assert found.states.slots == rest * 0.9 / 1.9 // DELTA_27B == 200
    assert (found.states.each, found.states.sequences) == (5, 40)
    assert found.states.held_bytes == 200 * DELTA_27B
    assert found.kv_available_bytes == pytest.approx(rest - 200 * DELTA_27B)
    # 16 layers, K and V of 4 heads of 256 in 16 bit
    assert found.kv_tokens == found.kv_available_bytes // (16 * 2 * 4 * 256 * 2)


@pytest.mark.parametrize(
    ("version", "flags", "each"),
    [
        ("0.5.3", "", 1),
        ("0.5.6", "", 3),
        ("0.5.6", "disable_radix_cache: true", 1),
        ("0.5.9", "", 3),
        ("0.5.9", "mamba_scheduler_strategy: extra_buffer", 5),
        ("0.5.10", "mamba_scheduler_strategy: extra_buffer, disable_overlap_schedule: true", 4),
        ("0.5.13", "", 3),
        ("0.5.14", "", 5),
        ("0.5.16", "disable_overlap_schedule: true", 3),
        ("0.5.16", "mamba_scheduler_strategy: no_buffer", 3),
        ("0.5.16", "mamba_scheduler_strategy: extra_buffer_lazy", 4),
        ("0.5.16", "disable_radix_cache: true", 1),
    ],
)
def test_a_running_sequence_takes_as_many_places_as_its_version_says(version, flags, each):
    """model_runner.py to 0.5.6, model_runner_kv_cache_mixin.py, kv_cache_configurator.py in 0.5.16."""
    assert memory(asked(version, flags=flags)).states.each == each


@pytest.mark.parametrize(
    ("version", "flags", "slots"),
    [
        ("0.5.3", "", 512),
        ("0.5.3", "max_running_requests: 64", 64),
        ("0.5.3", "max_mamba_cache_size: 100, max_running_requests: 64", 100),
        # with the prefix cache the flag is not heeded until 0.5.6
        ("0.5.6", "max_mamba_cache_size: 100", 200),
        ("0.5.6", "max_mamba_cache_size: 100, disable_radix_cache: true", 100),
        ("0.5.6", "disable_radix_cache: true", 512),
        ("0.5.7", "max_mamba_cache_size: 100", 100),
        ("0.5.9", "disable_radix_cache: true", 200),
        ("0.5.9", "disable_radix_cache: true, max_running_requests: 64", 64),
        # 60.8 GiB of 146.8 MiB: 423 and a half, of which a half
        ("0.5.9", "mamba_full_memory_ratio: 1", 211),
    ],
)
def test_places_are_said_or_made_room_for(version, flags, slots):
    assert memory(asked(version, flags=flags)).states.slots == slots


def test_states_in_16_bit_take_half():
    """bfloat16 halves the heads' part; convolutions have 16 bit anyway."""
    found = memory(asked("0.5.16", flags="mamba_ssm_dtype: bfloat16"))
    assert found.state_bytes_per_sequence == 48 * (48 * 128 * 128 * 2 + 3 * 10_240 * 2)
    assert found.states.slots == 393


def test_sglang_keeps_fp32_where_another_engine_keeps_16_bit():
    """Qwen3-Next: 36 layers, 32 heads of 128 × 128, 3 rows of 8,192 channels."""
    graph = asked("0.5.9", "qwen3-next-80b-a3b", more="parallel: {tensor: 2}").graph
    by_hand = 36 * (16 * 128 * 128 * 4 + 3 * 4096 * 2)
    assert totals.recurrent_bytes_per_sequence(graph) == by_hand


def test_drafts_hold_states_too():
    """0.5.16, two drafts: places and three copies a running sequence share the states' part.

    60.76 GiB · 0.9 / 1.9 / (146.8 MiB · (1 + 3 / 5)) = 125 places, 25 run, 75 copies.
    """
    found = memory(asked("0.5.16", more="speculation: {tokens: 2, acceptance: 0.7}"))
    assert (found.states.slots, found.states.drafted, found.states.sequences) == (125, 75, 25)


@pytest.mark.parametrize(
    ("model", "version", "flags", "waits"),
    [
        ("qwen3.5-27b", "0.5.3", "", False),
        ("qwen3.5-27b", "0.5.6", "", True),
        ("granite-4.0-h-tiny", "0.5.6", "", False),
        ("granite-4.0-h-tiny", "0.5.9", "", True),
        ("qwen3.5-27b", "0.5.9", "disable_radix_cache: true", False),
        ("qwen3.5-27b", "0.5.9", "mamba_scheduler_strategy: extra_buffer", False),
        ("qwen3.5-27b", "0.5.16", "", False),
        ("llama-3.1-8b-instruct", "0.5.9", "", False),
    ],
)
def test_steps_of_states_wait_where_buffers_are_not_doubled(model, version, flags, waits):
    found = asked(version, model, flags=flags).engine("decode").as_asked
    assert found.flag("disable_overlap_schedule") is waits


def test_models_without_recurrent_states_have_no_places():
    for model in ("llama-3.1-8b-instruct", "gemma-3-4b-it"):
        assert memory(asked("0.5.9", model)).states is None


def test_kimi_linear_has_no_prefix_cache_until_0_5_14():
    old, new = (
        start_of(found, found.engine("decode"))
        for found in (
            asked(version, "kimi-linear-48b-a3b", "parallel: {tensor: 2}")
            for version in ("0.5.13", "0.5.14")
        )
    )
    assert old.sequences > 4 * new.sequences


def test_a_server_full_of_states_says_so():
    """A thousand users: 40 run, and the KV cache is not full."""
    load = "workload: {concurrency: 1000, input: 1024, output: 128}"
    found = serve(asked("0.5.16", load=load).question)
    assert (found.limit, found.most_running, found.running) == ("states", 40, 40)
    assert found.kv_share < 0.1


@pytest.mark.parametrize(
    ("model", "ranks"), [("qwen3.5-397b-a17b", 8), ("qwen3.5-27b", 4), ("qwen3-next-80b-a3b", 4)]
)
def test_fp8_in_blocks_splits_over_ranks(model, ranks):
    """Narrow projections keep 16 bit: 2 · 2 bytes an element, of hidden × value heads of a rank."""
    more = f"precision: {{weights: fp8_block}}\nparallel: {{tensor: {ranks}}}"
    graph = asked("0.5.9", model, more).graph
    (delta,) = (block for block in graph.kinds if block.label == "delta")
    narrow = [node for node in delta.nodes if node.id in {"in_proj_a", "in_proj_b"}]
    assert [node.parameters[0].dtype for node in narrow] == ["bf16", "bf16"]
