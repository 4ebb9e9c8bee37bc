"""Plans against what is known of engines: kernels a layer, capture modes, sizes, padding."""

from __future__ import annotations

import pytest

from planner.plan.assemble import assemble
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.solve import solve_step
from planner.plan.types import Plan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()


def question(**fields: str):
    """A decode step of Llama-3.1-8B on an H100, fields replaced by YAML texts."""
    base = {
        "model": "llama-3.1-8b-instruct",
        "gpu": "h100-sxm",
        "step": "{decode: {batch: 8, context: 512}}",
    }
    text = "".join(f"{name}: {value}\n" for name, value in (base | fields).items())
    return ask(load_text(text, "deploy.yaml"), CATALOG)


def plan(**fields: str) -> Plan:
    return assemble(question(**fields))


def kernels_a_layer(**fields: str) -> int:
    """Launches of an inner layer: the block that repeats most."""
    asked = question(**fields)
    solved = solve_step(prepare(asked), step_load(asked.deployment), modes=())
    inner = max(solved.chosen.runs, key=lambda run: run.times)
    return sum(kernel.group.launches for kernel in inner.kernels)


@pytest.mark.parametrize(("model", "expected"), [("llama-3.1-8b-instruct", 10), ("qwen3-8b", 10)])
def test_vllm_compiled_runs_the_documented_count_of_kernels(model, expected):
    """Norm, QKV, RoPE, cache write, attention, O, norm, gate-up, act, down; Qwen3's q_norm and
    k_norm join the RoPE kernel.
    """
    assert kernels_a_layer(model=model) == expected


@pytest.mark.parametrize(("model", "expected"), [("llama-3.1-8b-instruct", 10), ("qwen3-8b", 12)])
def test_vllm_eager_runs_the_documented_count_of_kernels(model, expected):
    """The same ten as custom ops; Qwen3's q_norm and k_norm are kernels of their own."""
    backend = "{name: vllm, flags: {enforce_eager: true}}"
    assert kernels_a_layer(model=model, backend=backend) == expected


@pytest.mark.parametrize(("model", "alone"), [("llama-3.1-8b-instruct", 0), ("qwen3-8b", 2)])
def test_tensorrt_llm_fuses_no_all_reduce_into_the_norms_of_dense_qwen3(model, alone):
    """`Qwen3DecoderLayer` calls plain norms after o_proj and down_proj; Llama's layer fuses both."""
    backend = "{name: tensorrt-llm, version: '1.2'}"
    found = plan(model=model, backend=backend, parallel="{tensor: 4}")
    kernels = [k for k in found.kernels if len(k.nodes) == 1 and "all_reduce" in k.nodes[0]]
    assert len([k for k in kernels if k.repeat > 1]) == alone


@pytest.mark.parametrize(("batch", "expected"), [(16, 10), (32, 10), (33, 12), (64, 12)])
def test_vllm_fuses_all_reduce_and_norm_up_to_its_size_limit(batch, expected):
    """TP8 on Hopper stops at 0.5 MiB: hidden 8192 in BF16 is 16 KiB a token, so at 32 tokens.

    A batch of 33 is padded to 40.
    """
    assert (
        kernels_a_layer(
            model="llama-3.3-70b-instruct",
            parallel="{tensor: 8}",
            step=f"{{decode: {{batch: {batch}, context: 512}}}}",
        )
        == expected
    )


def test_a_decode_batch_is_padded_to_the_next_captured_size():
    """vLLM captures 1, 2, 4, 8, 16, 24 …: 17 sequences run as 24 in a full graph."""
    found = plan(step="{decode: {batch: 17, context: 512}}")
    assert found.step.mode == "full"
    assert found.step.modes["full"].captured_size == 24
    assert found.step.modes["eager"].captured_size is None


def test_padding_costs_gemm_rows_but_no_attention():
    """A batch of 17 runs the GEMMs of 24 and the attention of 17."""
    seventeen = plan(step="{decode: {batch: 17, context: 512}}")
    flops = {kernel.name: kernel.matmul_flops for kernel in seventeen.kernels}
    assert flops["o_proj"] == 2 * 24 * 4096 * 4096
    assert flops["flash-attention-3"] == 17 * 512 * 4 * 32 * 128


def test_a_batch_beyond_the_captured_sizes_runs_without_a_graph():
    """max_num_seqs 1024 on an H100: sizes end at 512, so 520 sequences launch kernel by kernel."""
    found = plan(step="{decode: {batch: 520, context: 128}}")
    assert found.step.mode == "eager"
    assert any("exceed the largest captured size 512" in note for note in found.notes)


def test_a_batch_between_full_and_piecewise_sizes_runs_piecewise():
    """max_num_seqs 100: full graphs stop at 96 (the grid of eights), piecewise ones at 200."""
    found = plan(
        backend="{name: vllm, flags: {max_num_seqs: 100}}",
        step="{decode: {batch: 98, context: 512}}",
    )
    assert found.step.mode == "piecewise"
    assert any("exceed the largest captured size 96" in note for note in found.notes)


def test_vllm_of_2025_ran_decode_piecewise():
    """PIECEWISE was the default through 0.10."""
    assert plan(backend='{name: vllm, version: "0.10"}').step.mode == "piecewise"


def test_tensorrt_llm_pads_nothing_by_default():
    """33 is not captured (1 to 31, 32, 64, 128), and padding is off: eager."""
    backend = '{name: tensorrt-llm, version: "1.2"}'
    assert plan(backend=backend, step="{decode: {batch: 32, context: 512}}").step.mode == "full"
    assert plan(backend=backend, step="{decode: {batch: 33, context: 512}}").step.mode == "eager"


def test_an_undescribed_version_takes_the_nearest_and_says_so():
    found = plan(backend='{name: vllm, version: "0.22.1"}')
    assert found.described["backend"] == "vLLM 0.19"
    assert any("0.22.1 is not described" in note for note in found.notes)


def test_a_patch_release_of_a_described_version_needs_no_note():
    found = plan(backend='{name: vllm, version: "0.26.0"}')
    assert found.described["backend"] == "vLLM 0.26"
    assert not any("described" in note for note in found.notes)


def test_modes_are_ordered_eager_piecewise_full():
    modes = plan().step.modes
    assert modes["eager"].time_s >= modes["piecewise"].time_s >= modes["full"].time_s


def test_the_ideal_rule_set_is_never_slower_than_the_engine():
    for gpu in ("rtx-4090", "h100-sxm", "b200-sxm"):
        sets = plan(gpu=gpu).step.rule_sets
        assert sets["ideal"].time_s <= sets["flags"].time_s <= sets["engine"].time_s


def test_a_slow_host_makes_eager_decode_the_sum_of_its_launches():
    """50 us a launch: the device waits for the host at every kernel but the last few."""
    found = plan(backend="{name: vllm, flags: {enforce_eager: true}}", host="{launch: 50 us}")
    launches = found.step.modes["eager"].launches
    assert found.step.time_s == pytest.approx(launches * 50e-6, rel=0.02)


STATIC = "{weights: fp8, activations: fp8, scales: tensor, kv_cache: fp8}"


def test_a_kernel_that_is_looked_for_at_each_call_holds_an_eager_host_up():
    """FlashInfer's FP8 products take 200 us to call, four a layer of 32; all else 1 us a launch.

    The LM head stays BF16. The device is done with each long before.
    """
    backend = "{name: vllm, version: '0.15', flags: {enforce_eager: true}}"
    found = plan(gpu="b200-sxm", backend=backend, precision=STATIC, host="{launch: 1 us}")
    others = found.step.modes["eager"].launches - 4 * 32
    assert found.step.time_s == pytest.approx(others * 1e-6 + 4 * 32 * 200e-6, rel=0.02)


def test_a_graph_calls_nothing():
    """Captured, the same products take as long whoever would have chosen them."""
    backend = "{name: vllm, version: '0.15'}"
    token = STATIC.replace("tensor", "token")
    times = [
        plan(gpu="b200-sxm", backend=backend, precision=each).step.time_s
        for each in (STATIC, token)
    ]
    assert times[0] == times[1]


@pytest.mark.parametrize(
    ("tensor", "version", "ops", "scales", "expected"),
    [
        # add·norm·quant, QKV, RoPE, cache write, attention·quant, O, add·norm·quant, gate-up,
        # act·mul·quant, down: ten, as Inductor fuses them
        (1, "0.11", "none", "tensor", 10),
        # norms apart from their quantisation, and the product's too
        (1, "0.11", '"+rms_norm,+quant_fp8"', "tensor", 13),
        # Inductor still fuses what only quantises, the norm before it being closed to it
        (1, "0.11", "+rms_norm", "tensor", 12),
        # both all-reduces take add, norm and quantisation along, the product's stays apart
        (2, "0.11", '"+rms_norm,+quant_fp8"', "tensor", 11),
        (2, "0.12", "none", "tensor", 10),
        # a scale that is found for each token is found after the norm
        (2, "0.12", "none", "token", 12),
    ],
)
def test_custom_ops_decide_what_is_fused_with_fp8(tensor, version, ops, scales, expected):
    """vLLM pull 21069: the all-reduce takes quantisation along where its scale is known before."""
    flags = f"{{custom_ops: {ops}, fuse_attn_quant: true, fuse_allreduce_rms: true}}"
    count = kernels_a_layer(
        gpu="b200-sxm",
        backend=f"{{name: vllm, version: '{version}', flags: {flags}}}",
        parallel=f"{{tensor: {tensor}}}",
        precision=STATIC.replace("tensor", scales),
    )
    assert count == expected


def test_flash_attention_moves_no_scores():
    """Decode, one layer, batch 8, context 512: Q and O are 8·4096 elements, K and V 8·512·1024 each."""
    found = plan()
    flash = next(k for k in found.kernels if k.name.startswith("flash"))
    assert flash.hbm_bytes == 2 * (8 * 4096 * 2) + 2 * (8 * 512 * 1024 * 2)
    scores, probabilities = 32 * 8 * 512 * 4, 32 * 8 * 512 * 2
    # Unfused: the scores are written and read, masked, written and read, then the probabilities.
    assert flash.saved_bytes == 4 * scores + 2 * probabilities
