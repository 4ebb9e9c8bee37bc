"""What the shipped engines come to: kernels a layer, captured sizes, capture modes, memory rules."""

from functools import cache
from pathlib import Path

import pytest

from planner.capture.sizes import expand, padded
from planner.cost.engine import Engine
from planner.cost.reserve import Reserve
from planner.cost.types import device
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.rows import kernel_rows
from planner.plan.solve import SolvedStep, solve_step
from planner.resources import folder
from planner.spec.catalog import Catalog
from planner.spec.conditions import first
from planner.spec.load import load_text
from planner.spec.question import Question, ask

CATALOG = Catalog((Path(folder("catalog")),))
DECODE = "decode: {batch: 16, context: 1024}"
LLAMA, QWEN3, LLAMA_70B = "llama-3.1-8b-instruct", "qwen3-4b", "llama-3.1-70b-instruct"


def question(
    backend: str,
    *,
    model: str = LLAMA,
    gpu: str = "h100-sxm",
    version: str | None = None,
    flags: str = "",
    tensor: int = 1,
    precision: str = "",
    step: str = DECODE,
) -> Question:
    asked = f", version: '{version}'" if version else ""
    text = f"""
model: {model}
gpu: {gpu}
parallel: {{tensor: {tensor}}}
precision: {{{precision}}}
backend: {{name: {backend}{asked}, flags: {{{flags}}}}}
step: {{{step}}}
"""
    return ask(load_text(text, "deploy.yaml", "deployment"), CATALOG)


@cache
def solved(backend: str, **given) -> SolvedStep:
    asked = question(backend, **given)
    return solve_step(prepare(asked), step_load(asked.deployment))


def engine(backend: str, *, step: str = DECODE, **given) -> Engine:
    return prepare(question(backend, step=step, **given)).engine(step.partition(":")[0])


def layer_launches(backend: str, **given) -> int:
    """Kernels of one layer, the seam to the next layer included."""
    rows = [row for row in kernel_rows(solved(backend, **given)) if row.block == "layer"]
    inner = max(row.repeat for row in rows)
    return sum(row.launches for row in rows if row.repeat >= inner - 1)


def captured(backend: str, **given) -> tuple[int, ...]:
    here = engine(backend, **given)
    rule = first(here.spec.capture.sizes, here.facts)
    assert rule is not None
    return expand(rule, here.whole_flags)


def mode(backend: str, **given) -> str:
    here = engine(backend, **given)
    chosen = first(here.spec.capture.modes, here.facts)
    assert chosen is not None
    return chosen.mode


# --- kernels a layer ---------------------------------------------------------------------------


@pytest.mark.parametrize("flags", ["enforce_eager: true", "enforce_eager: false"])
def test_a_dense_layer_is_ten_kernels_in_vllm_compiled_or_not(flags):
    """Norm, QKV, RoPE, cache write, attention, O, norm, gate-up, SiLU·up, down."""
    assert layer_launches("vllm", flags=flags) == 10


def test_norms_of_q_and_k_add_two_kernels_where_vllm_runs_eagerly():
    """Qwen 3: 10 + q_norm + k_norm."""
    assert layer_launches("vllm", model=QWEN3, flags="enforce_eager: true") == 12


def test_inductor_takes_the_norms_of_q_and_k_into_rope():
    """combo_kernels brings 12 back to 10 or 11."""
    assert layer_launches("vllm", model=QWEN3) in {10, 11}


def test_tensor_parallelism_adds_two_all_reduces():
    """A100 has no fused all-reduce: 10 + 2."""
    assert layer_launches("vllm", model=LLAMA_70B, gpu="a100-80gb-sxm", tensor=4) == 12


def test_fused_all_reduce_brings_hopper_back_to_ten():
    """16 tokens × 8192 × 2 B = 256 KiB lie below the 2 MiB of four Hoppers."""
    assert layer_launches("vllm", model=LLAMA_70B, tensor=4) == 10


def test_above_its_size_limit_the_all_reduce_is_not_fused():
    """64 tokens × 8192 × 2 B = 1 MiB lie above the 0.5 MiB of eight Hoppers."""
    step = "decode: {batch: 64, context: 1024}"
    assert layer_launches("vllm", model=LLAMA_70B, tensor=8, step=step) == 12


def test_vllm_0_10_fuses_no_all_reduce():
    """Every pass is off there."""
    assert layer_launches("vllm", model=LLAMA_70B, tensor=4, version="0.10") == 12


def test_fp8_inputs_cost_one_kernel_more_than_sixteen_bit():
    """Norms and SiLU·up quantise in passing; attention's output needs a kernel of its own."""
    fp8 = "weights: fp8, activations: fp8"
    assert layer_launches("vllm", precision=fp8) == 11
    assert layer_launches("vllm", precision=fp8, flags="enforce_eager: true") == 14


def test_sglang_writes_k_and_v_one_by_one():
    """vLLM's ten and one more."""
    assert layer_launches("sglang") == 11


def test_tensorrt_llm_rotates_and_writes_the_cache_in_one_kernel():
    """Ten less one; the norms of Q and K go into RoPE, which leaves the write alone."""
    assert layer_launches("tensorrt-llm") == 9
    assert layer_launches("tensorrt-llm", model=QWEN3) == 10


def test_eager_pytorch_launches_forty_kernels_a_layer():
    """7 GEMMs, 2 norms × 8, RoPE 10, cache 2, attention 1, SiLU, product, 2 adds."""
    assert 7 + 2 * 8 + 10 + 2 + 1 + 1 + 1 + 2 == 40
    assert layer_launches("pytorch-eager") == 40


def test_unfused_attention_is_nine_kernels_in_eager_pytorch():
    """Scores 2, mask 2, softmax 2, values 3, instead of 1."""
    assert layer_launches("pytorch-eager", flags="attn_implementation: eager") == 40 - 1 + 9


def test_torch_compile_leaves_gemms_unmerged():
    """7 GEMMs, 2 norms, RoPE, cache write 2, attention, SiLU·up."""
    assert layer_launches("pytorch-compiled") == 7 + 2 + 1 + 2 + 1 + 1


# --- captured sizes ----------------------------------------------------------------------------


def test_vllm_captures_51_sizes_up_to_512():
    """1, 2, 4; 8 to 248 by 8 (31); 256 to 512 by 16 (17). 35 of them serve 256 sequences."""
    sizes = captured("vllm", flags="max_num_seqs: 256")
    assert sizes == (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
    assert len(sizes) == 3 + 31 + 17
    assert len([size for size in sizes if size <= 256]) == 35


def test_a_cap_of_1024_makes_83_sizes():
    """32 further steps of 16."""
    assert len(captured("vllm", flags="max_cudagraph_capture_size: 1024")) == 51 + 32


def test_vllm_0_10_captures_67_sizes_up_to_512():
    """1, 2, 4; 8 to 512 by 8 (64)."""
    sizes = captured("vllm", version="0.10", flags="max_num_seqs: 512")
    assert sizes == (1, 2, 4, *range(8, 513, 8))
    assert len(sizes) == 67


def test_few_sequences_lower_vllm_s_cap():
    """10 sequences: twice as many tokens at most."""
    assert captured("vllm", flags="max_num_seqs: 10") == (1, 2, 4, 8, 16)


def test_vllm_0_26_captures_an_odd_token_budget_too():
    """A budget of 100 below the cap is a size of its own; 0.19 leaves it out."""
    flags = "max_num_seqs: 256, max_num_batched_tokens: 100"
    assert captured("vllm", flags=flags)[-2:] == (96, 100)
    assert captured("vllm", version="0.19", flags=flags)[-2:] == (88, 96)


def test_vllm_allows_1024_sequences_on_large_gpus_but_not_on_a100():
    """Its default asks for the device's name."""
    assert engine("vllm").flags["max_num_seqs"] == 1024
    assert engine("vllm", gpu="a100-80gb-sxm").flags["max_num_seqs"] == 256
    assert engine("vllm", gpu="rtx-4090").flags["max_num_seqs"] == 256


def test_sglang_captures_52_sizes_up_to_512():
    """5; 16 to 256 by 8 (31); 272 to 496 by 16 (15); 512."""
    sizes = captured("sglang", model=LLAMA_70B, tensor=4)
    assert len(sizes) == 5 + 31 + 15 + 1
    assert sizes[-1] == 512


def test_sglang_captures_24_sequences_on_a_4090():
    """Small cards get short lists, and 0.4 shorter ones."""
    assert captured("sglang", gpu="rtx-4090") == (1, 2, 4, 8, 12, 16, 24)
    assert captured("sglang", gpu="rtx-4090", version="0.4") == (1, 2, 4, 8)
    assert len(captured("sglang", version="0.4")) == 4 + 19


def test_sglang_without_padding_captures_every_size():
    """1 to 256."""
    assert captured("sglang", flags="disable_cuda_graph_padding: true") == tuple(range(1, 257))


def test_tensorrt_llm_captures_34_sizes_without_padding():
    """1 to 31, 32, 64, 128."""
    assert captured("tensorrt-llm") == (*range(1, 33), 64, 128)


def test_tensorrt_llm_with_padding_goes_on_in_powers_of_two():
    """1, 2, 4; 8 to 128 by 8; 256, 512, and the largest itself."""
    flags = "cuda_graph_enable_padding: true, cuda_graph_max_batch_size: 600"
    sizes = captured("tensorrt-llm", flags=flags)
    assert sizes == (1, 2, 4, *range(8, 129, 8), 256, 512, 600)
    assert padded(33, sizes) == 40


def test_tensorrt_llm_runs_an_uncaptured_batch_eagerly():
    """33 is not on the list and padding is off."""
    step = "decode: {batch: 33, context: 1024}"
    padding = "cuda_graph_enable_padding: true"
    assert solved("tensorrt-llm", step=step).decision.mode == "none"
    assert solved("tensorrt-llm", step=step, flags=padding).decision.mode == "full"


# --- modes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "version", "decode", "mixed"),
    [
        ("", None, "full", "piecewise"),
        ("", "0.10", "piecewise", "piecewise"),
        ("enforce_eager: true", None, "none", "none"),
        ("cudagraph_mode: NONE", None, "none", "none"),
        ("cudagraph_mode: PIECEWISE", None, "piecewise", "piecewise"),
        ("cudagraph_mode: FULL_DECODE_ONLY", None, "full", "none"),
        ("cudagraph_mode: FULL", None, "full", "full"),
    ],
)
def test_vllm_s_modes_on_hopper(flags, version, decode, mixed):
    """FlashAttention 3 captures mixed batches too."""
    step = "mixed: [{count: 8, new_tokens: 1, kv_tokens: 512}, {count: 1, new_tokens: 64, kv_tokens: 64}]"
    assert mode("vllm", flags=flags, version=version) == decode
    assert mode("vllm", flags=flags, version=version, step=step) == mixed


def test_full_mode_falls_back_for_mixed_batches_on_flash_attention_2():
    """Version 2 captures uniform batches alone."""
    step = "prefill: {batch: 1, tokens: 64}"
    assert mode("vllm", gpu="rtx-4090", flags="cudagraph_mode: FULL", step=step) == "piecewise"


def test_sglang_and_tensorrt_llm_capture_decode_alone():
    """Prefill runs eagerly."""
    for backend in ("sglang", "tensorrt-llm"):
        assert mode(backend) == "full"
        assert mode(backend, step="prefill: {batch: 1, tokens: 64}") == "none"


# --- memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "tensor", "total_mib", "chunk", "graphs"),
    [
        ("rtx-4090", 1, 24564, 2048, 24),
        ("l40s", 1, 46068, 4096, 32),
        ("h100-sxm", 1, 81559, 8192, 256),
        ("h100-sxm", 4, 81559, 8192, 512),
        ("h200-sxm", 1, 143771, 8192, 256),
    ],
)
def test_sglang_s_share_is_its_formula_to_one_percent(gpu, tensor, total_mib, chunk, graphs):
    """512 + 1.5 · chunk + 2 · graphs + 128 · ranks MiB stay out, 10 GiB above 60 GiB."""
    reserved = 512 + 1.5 * chunk + 2 * graphs + 128 * tensor
    if total_mib > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    model = LLAMA if tensor == 1 else LLAMA_70B
    here = engine("sglang", gpu=gpu, tensor=tensor, model=model)
    reserve = Reserve(here, device(CATALOG.find("gpu", gpu)))
    share = reserve.share(reserve.spec.utilization)
    assert share == pytest.approx(1 - reserved / total_mib, rel=0.01)


def test_vllm_takes_more_memory_from_0_20_on():
    """0.9 before, 0.92 after, graphs counted."""
    for version, share, inside in (("0.19", 0.9, False), ("0.26", 0.92, True)):
        here = engine("vllm", version=version)
        memory = here.spec.memory
        assert [c.value for c in (first(memory.utilization, here.facts),) if c] == [share]
        assert [c.value for c in (first(memory.graphs_inside, here.facts),) if c] == [inside]
