"""Does it start, and what changes free: shipped engines, by hand and against public reports."""

import pytest

from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
GIB = 2**30


def memory(model: str, gpu: str, backend: str, rest: str = ""):
    text = f"model: {model}\ngpu: {gpu}\nbackend: {backend}\n{rest}\n"
    text += "step: {decode: {batch: 1, context: 16}}\n"
    return assemble(ask(load_text(text, "deploy.yaml"), CATALOG)).memory


def vllm(version: str, **flags) -> str:
    listed = ", ".join(f"{name}: {value}" for name, value in flags.items())
    return f"{{name: vllm, version: '{version}', flags: {{{listed}}}}}"


def test_the_sampler_of_1024_sequences_sorted_all_logits_until_0_16():
    """Qwen3-14B on H100: 38 bytes a logit, 8,192 hidden states, 32 MiB of cuBLAS; logged 5.64 GiB."""
    found = memory("qwen3-14b", "h100-sxm", vllm("0.16.0"))
    expected = 1024 * 151_936 * 38 + 8192 * 5120 * 2 + 32 * 2**20
    assert found.activations_bytes == pytest.approx(expected, rel=1e-4)
    assert found.activations_bytes / GIB == pytest.approx(5.64, rel=0.01)


def test_from_0_17_a_kernel_cuts_in_place():
    """The same: 14 bytes a logit, and 80 MiB of buffers; logged 2.23 GiB."""
    found = memory("qwen3-14b", "h100-sxm", vllm("0.17.0"))
    expected = 1024 * 151_936 * 14 + 8192 * 5120 * 2 + 112 * 2**20
    assert found.activations_bytes == pytest.approx(expected, rel=1e-4)
    assert found.activations_bytes / GIB == pytest.approx(2.23, rel=0.01)


def test_fewer_than_128_rows_are_sorted_in_another_way():
    """Qwen3-14B on V0, 100 sequences: 50 bytes a logit."""
    found = memory("qwen3-14b", "h100-sxm", vllm("0.7", max_num_seqs=100, max_model_len=512))
    expected = 100 * 151_936 * 50 + 2048 * 5120 * 2 + 32 * 2**20
    assert found.activations_bytes == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("tokens", "logged_gib"), [(20_000, 2.07), (29_000, 2.99)])
def test_v0_profiles_a_whole_prompt(tokens, logged_gib):
    """Llama-3.1-8B on RTX 3090: gate, up and activated, the residual, and two inputs more."""
    found = memory("llama-3.1-8b-instruct", "rtx-3090", vllm("0.6.4", max_model_len=tokens))
    expected = tokens * (3 * 14_336 + 3 * 4096) * 2 + 8 * 2**20
    assert found.activations_bytes == pytest.approx(expected, rel=1e-3)
    assert found.activations_bytes / GIB == pytest.approx(logged_gib, rel=0.01)


def test_the_printed_tokens_of_windows_grow_with_the_limit():
    """Gemma 3 27B with 0.26: concurrency times length is no capacity."""
    short = memory("gemma-3-27b-it", "h100-sxm", vllm("0.26", max_model_len=8192)).start
    long = memory("gemma-3-27b-it", "h100-sxm", vllm("0.26", max_model_len=131_072)).start
    assert short.kv_tokens == int(short.concurrency * 8192)
    assert long.kv_tokens > 3 * short.kv_tokens


def test_sequences_of_windowed_layers_at_two_lengths_are_as_reported():
    """OLMo 3 7B, 57.18 GiB: 23.73 sequences of 6,144 and 11.12 of 34,048, so 2.134 to one.

    Groups of 8 layers: 384 or 2,128 blocks of the full one, and 385 of each of three others, which
    keep 4,095 tokens and a step of 2,048.
    """
    found = [
        memory("olmo-3-7b", "a100-80gb-sxm", vllm("0.11", max_model_len=length)).start
        for length in (6144, 34_048)
    ]
    each = 16 * 8 * 2 * 32 * 128 * 2
    assert [start.sequence_bytes for start in found] == [1539 * each, (2128 + 3 * 385) * each]
    assert found[0].concurrency / found[1].concurrency == pytest.approx(23.73 / 11.12, rel=2e-3)


def test_a_state_takes_one_block_which_grows_to_hold_it():
    """Qwen3-Next, FP8 cache, on MI300X: 31.31 sequences of 262,144 in 95.26 GiB.

    12 attention layers of 1,024 bytes a token, 36 with a state of 1,097,728: blocks of 1,072 tokens;
    245 blocks and one of each of three groups of states.
    """
    rest = "precision: {weights: fp8, kv_cache: fp8}"
    backend = vllm("0.17.1", max_model_len=262_144)
    found = memory("qwen3-next-80b-a3b", "mi300x", backend, rest).start
    assert found.sequence_bytes == (245 + 3) * 12 * 1072 * 1024
    assert 95.26 * GIB / found.sequence_bytes == pytest.approx(31.31, abs=0.01)


def test_a_limit_past_the_cache_does_not_start_and_the_largest_that_does_is_told():
    backend = vllm("0.19", max_model_len=131_072)
    found = memory("llama-3.1-8b-instruct", "rtx-4090", backend).start
    assert not found.starts
    assert found.sequence_bytes == 131_072 * 131_072
    assert found.largest_max_model_len == found.kv_tokens
    fits = vllm("0.19", max_model_len=found.largest_max_model_len)
    assert memory("llama-3.1-8b-instruct", "rtx-4090", fits).start.starts


def test_what_changes_free_is_what_the_changed_deployment_has():
    rest = "memory: {utilization: 0.9}"
    backend = vllm("0.26", max_model_len=4096)
    found = memory("qwen3-8b", "l40s", backend, rest)
    freed = {row.change: row for row in found.frees}
    # A twentieth of 44.40 GiB; graphs of 0.6 GiB; of 128 rows 151,936 logits of 14 bytes and an id.
    assert freed["memory.utilization=0.95"].kv_bytes == pytest.approx(0.05 * 44.40 * GIB)
    eager = freed["backend.flags.enforce_eager=true"]
    assert eager.kv_bytes == pytest.approx(0.6 * GIB)
    assert freed["backend.flags.max_num_seqs=128"].kv_bytes == 128 * (151_936 * 14 + 4)
    wider = memory("qwen3-8b", "l40s", backend, "memory: {utilization: 0.95}").start
    assert wider.kv_tokens - found.start.kv_tokens == freed["memory.utilization=0.95"].kv_tokens
    halved = freed["precision.kv_cache=fp8"]
    assert halved.kv_bytes == 0
    assert halved.kv_tokens == pytest.approx(found.start.kv_tokens, abs=32)


def test_a_context_of_the_model_that_is_longer_than_the_cache_leaves_the_load_fitting():
    """The load is the question; that the default limit must come down is said beside it."""
    found = memory("llama-3.1-8b-instruct", "rtx-4090", vllm("0.19"))
    assert found.fits
    assert not found.start.starts


def test_five_gpus_do_not_share_eight_kv_heads():
    """A public report: vLLM refuses Qwen3-14B at TP 5."""
    with pytest.raises(SpecError, match="8 KV heads do not divide over 5"):
        memory("qwen3-14b", "h100-sxm", vllm("0.19"), "parallel: {tensor: 5}")


def test_sglangs_share_follows_its_flags():
    """(81,089 - 512 - 1.5 · chunk - 2 · 256 - 128) / 81,089 MiB, of what context and runtime leave."""
    for chunk, share in ((8192, 0.834), (2048, 0.873)):
        flags = f"{{name: sglang, flags: {{chunked_prefill_size: {chunk}}}}}"
        found = memory("llama-3.1-8b-instruct", "h100-sxm", flags)
        reserved = max(512 + chunk * 3 // 2 + 512 + 128, 10_240)
        assert found.utilization == share == (81_089 - reserved) * 1000 // 81_089 / 1000
        free = found.visible_bytes - found.context_bytes - found.runtime_bytes
        assert found.budget_bytes == pytest.approx(free * share)


def test_tensorrt_llm_takes_a_share_of_what_is_free():
    found = memory("llama-3.1-8b-instruct", "h100-sxm", "{name: tensorrt-llm}")
    taken = found.weights_bytes + found.activations_bytes + found.runtime_bytes
    assert found.kv_available_bytes == pytest.approx(0.9 * (found.visible_bytes - taken))
    assert found.start.starts
