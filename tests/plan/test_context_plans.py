"""Plans whose ranks share contexts, prompts or rows: engines, memory, searches, refusals."""

from __future__ import annotations

import pytest

import planner
from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.plan.identity import plan_id
from planner.plan.prepare import prepare
from planner.plan.splits import best, splits
from planner.spec.catalog import Catalog
from planner.spec.load import load_text

CATALOG = Catalog.standard()
DEEPSEEK = """\
model: deepseek-v3
gpu: h200-sxm
parallel: {{tensor: 8, {parallel}}}
precision: {{weights: fp8_block, activations: fp8}}
backend: {{name: {engine}, version: "{version}"}}
step: {{decode: {{batch: {batch}, context: 16384}}}}
"""
PROMPTS = """\
model: deepseek-v3
gpu: h200-sxm
parallel: {{tensor: 4, {parallel}}}
precision: {{weights: fp8_block, activations: fp8}}
backend: {{name: vllm, version: "{version}"}}
step: {{prefill: {{tokens: 8192}}}}
price: 2 USD/h
"""
LLAMA = """\
model: llama-3.1-70b-instruct
gpu: h100-sxm
parallel: {{tensor: 8}}
backend: {{name: vllm, version: "0.26", flags: {{{flags}}}}}
step: {{prefill: {{tokens: {tokens}}}}}
"""


def question(text: str, **words):
    deployment = load_text(text.format(**words).encode(), "d.yaml", "deployment")
    return planner.ask(deployment, CATALOG)


def deepseek(parallel="context: 8", engine="vllm", version="0.26", batch=64):
    return question(DEEPSEEK, parallel=parallel, engine=engine, version=version, batch=batch)


def prompts(parallel, version="0.26"):
    return question(PROMPTS, parallel=parallel, version=version)


def refusal(asked) -> str:
    with pytest.raises(SpecError) as caught:
        prepare(asked)
    return str(caught.value)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_memory_holds_a_part_of_each_context(ranks):
    """64 contexts of 16,384 tokens (whole blocks) · 70,272 B / r."""
    memory = assemble(deepseek(f"context: {ranks}")).memory
    assert memory.kv_bytes_per_token == 70_272 / ranks
    assert memory.kv_bytes == 64 * 16_384 * 70_272 / ranks


def test_a_block_is_of_so_many_tokens_on_each_rank():
    """vLLM's own block of 16 tokens (64 for FlashMLA) holds eight times as many of the request."""
    alone, shared = (assemble(deepseek(f"context: {r}")).memory.kv_block_tokens for r in (1, 8))
    assert shared == 8 * alone


@pytest.mark.parametrize(
    ("engine", "version", "said"),
    [
        ("vllm", "0.10.1", "vLLM can from 0.10.2 on: set backend.version: '0.10.2'"),
        ("sglang", "0.5.6", "SGLang can from 0.5.15 on: set backend.version: '0.5.15'"),
        ("tensorrt-llm", "1.0", "TensorRT-LLM can from 1.2 on: set backend.version: '1.2'"),
        ("tensorrt-llm", "1.2", "needs capability >= 10.0, < 11.0, have 9.0"),
        ("pytorch-compiled", "2.13", "no described version of PyTorch"),
    ],
)
def test_an_engine_that_lacks_it_refuses_at_its_place(engine, version, said):
    found = refusal(deepseek(engine=engine, version=version))
    assert found.startswith("d.yaml:3:32: ")
    assert said in found


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.10.2"), ("sglang", "0.5.15")])
def test_the_first_version_that_has_it_plans(engine, version):
    assert prepare(deepseek(engine=engine, version=version)).graph.context == 8


@pytest.mark.parametrize(
    ("model", "tensor", "context", "said"),
    [
        ("llama-3.1-70b-instruct", 8, 2, "hold each of 8 KV heads 1 times: there is nothing to"),
        ("qwen3-235b-a22b", 16, 8, "hold each of 4 KV heads 4 times, which 8 do not divide"),
        ("gpt-oss-120b", 16, 2, "can spread the cache of windowed attention"),
        ("deepseek-v3.2", 8, 8, "can spread the cache of sparse attention"),
        ("llama-3.1-70b-instruct", 8, 3, "3 do not divide tensor 8 ranks"),
    ],
)
def test_models_whose_cache_cannot_be_shared_so_refuse(model, tensor, context, said):
    """Qwen3-235B has 4 KV heads, Llama 8; windows and indexers have caches of their own."""
    text = f"""\
model: {model}
gpu: h200-sxm
parallel: {{tensor: {tensor}, context: {context}}}
backend: {{name: vllm}}
nodes: {2 if tensor > 8 else 1}
{"network: {bandwidth: 50 GB/s, latency: 10 us}" if tensor > 8 else ""}
step: {{decode: {{batch: 8, context: 1024}}}}
"""
    with pytest.raises(SpecError) as caught:
        prepare(planner.ask(load_text(text.encode(), "d.yaml", "deployment"), CATALOG))
    assert said in str(caught.value)


def test_the_cache_of_triton_attention_gives_no_sums():
    text = """\
model: qwen3-235b-a22b
gpu: h200-sxm
parallel: {tensor: 8, context: 2}
backend: {name: vllm, flags: {attention_backend: TRITON_ATTN}}
step: {decode: {batch: 8, context: 1024}}
"""
    asked = planner.ask(load_text(text.encode(), "d.yaml", "deployment"), CATALOG)
    assert "needs flag.attention_backend FLASH_ATTN or FLASHINFER, have TRITON" in refusal(asked)


def test_too_little_memory_names_the_shared_context():
    """256 contexts of 16,384: 274.5 GiB of latents on each of eight ranks, or 34.3 GiB."""
    memory = assemble(deepseek("expert: 8", batch=256)).memory
    assert not memory.fits
    assert "parallel.context=8" in memory.nearest_fit


def test_the_search_shares_contexts_where_nothing_else_holds_them():
    chosen = best(splits(deepseek("expert: 8", batch=256)))
    assert chosen is not None
    assert (chosen.tensor, chosen.context) == (8, 8)
    assert "parallel.context=8" in chosen.sets


def test_the_search_leaves_contexts_whole_where_they_fit():
    assert {split.context for split in splits(deepseek("expert: 8", batch=1))} == {1}


def test_plans_without_a_shared_context_keep_their_names():
    """The part that hashes ranks says only what is more than one."""
    plain = assemble(deepseek("expert: 8"))
    assert plain.plan_id == assemble(deepseek("expert: 8, context: 1, prefill_context: 1")).plan_id
    assert plain.plan_id != assemble(deepseek("expert: 8, context: 2")).plan_id
    assert len(plan_id({"model": "x"})) == len(plain.plan_id)


def test_groups_that_share_prompts_are_gpus_of_their_own():
    """4 tensor ranks · 2 groups at 2 USD/h: 16 USD an hour; half of the attention on each."""
    whole = assemble(prompts("expert: 4"))
    shared = assemble(prompts("expert: 8, prefill_context: 2"))
    assert (whole.cost.gpus, shared.cost.gpus) == (4, 8)
    assert shared.cost.price_per_hour == 16
    assert attention_flops(shared) == pytest.approx(attention_flops(whole) / 2)
    assert shared.memory.kv_bytes == whole.memory.kv_bytes


def attention_flops(plan) -> float:
    rows = [row for row in plan.nodes if row.id == "prefill_attention" and row.block == "layer"]
    return rows[0].matmul_flops


@pytest.mark.parametrize(
    ("parallel", "version", "said"),
    [
        ("expert: 8, prefill_context: 2", "0.25", "vLLM can from 0.26 on"),
        ("expert: 4, prefill_context: 2", "0.26", "set parallel.expert: 8"),
        ("expert: 8, prefill_context: 2, pipeline: 2", "0.26", "needs pipeline = 1, have 2"),
        ("expert: 8, prefill_context: 2, context: 2", "0.26", "needs context = 1, have 2"),
    ],
)
def test_prompts_that_no_described_engine_shares_so_are_refused(parallel, version, said):
    assert said in refusal(prompts(parallel, version))


def test_prompts_are_not_shared_beside_draft_tokens():
    """vLLM refuses speculation there."""
    drafts = "speculation: {{tokens: 2, length: 2}}"
    load = "workload: {{batch: 1, input: 8192, output: 8}}\n" + drafts
    text = PROMPTS.replace("step: {{prefill: {{tokens: 8192}}}}", load)
    asked = question(text, parallel="expert: 8, prefill_context: 2", version="0.26")
    assert "needs speculates = false, have true" in refusal(asked)


@pytest.mark.parametrize(("tokens", "shared"), [(4095, False), (4096, True), (8192, True)])
def test_rows_are_shared_from_the_engines_threshold_on(tokens, shared):
    """8 MiB a rank · 8 ranks / (8,192 · 2 B) = 4,096 tokens on Hopper."""
    asked = question(LLAMA, flags="enable_sp: true", tokens=tokens)
    assert prepare(asked).layout.sequence is shared


@pytest.mark.parametrize(
    ("flags", "shared"),
    [
        ("", False),
        ("enable_sp: true, enforce_eager: true", False),
        ("enable_sp: true, sp_min_token_num: 64", True),
    ],
)
def test_rows_are_shared_as_the_flags_say(flags, shared):
    assert prepare(question(LLAMA, flags=flags, tokens=1024)).layout.sequence is shared


def test_narrow_models_share_no_rows():
    """Llama-3.1-8B is 4,096 wide, below the 8,192 from which vLLM does it."""
    text = LLAMA.replace("llama-3.1-70b-instruct", "llama-3.1-8b-instruct")
    assert not prepare(question(text, flags="enable_sp: true", tokens=8192)).layout.sequence


def test_a_workload_shares_the_rows_of_its_prompts_alone():
    """Prompts of 8,192 tokens are above the threshold, decode steps of 4 below."""
    text = LLAMA.replace("step: {{prefill: {{tokens: {tokens}}}}}", "{load}")
    load = "workload: {batch: 4, input: 8192, output: 8}"
    plain, shared = (
        assemble(question(text, flags=flags, load=load)).workload
        for flags in ("cudagraph_mode: FULL", "enable_sp: true")
    )
    assert plain.ttft_s != shared.ttft_s
    assert plain.tpot_s == pytest.approx(shared.tpot_s)
