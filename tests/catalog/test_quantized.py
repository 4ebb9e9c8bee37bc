"""What engines run of quantised weights on which GPU, and how large quantised checkpoints are."""

import re

import pytest

from planner.errors import SpecError
from planner.graph.build import model_graph
from planner.graph.scheme import notes
from planner.graph.totals import kv_bytes_per_token, parameters, weights_bytes
from planner.ops import OPERATORS
from planner.plan.assemble import assemble
from planner.plan.precision import scheme_of
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
GIB = 2**30
BLOCKS = "weights: fp8_block, activations: fp8"


def question(model: str, gpu: str, engine: str = "vllm", precision: str = ""):
    text = (
        f"model: {model}\ngpu: {gpu}\nbackend: {{name: {engine}}}\nprecision: {{{precision}}}\n"
        "step: {decode: {batch: 1, context: 1024}}\n"
    )
    return ask(load_text(text, "d.yaml", "deployment"), CATALOG)


def graph_of(model: str, gpu: str = "h200-sxm", engine: str = "vllm", precision: str = ""):
    asked = question(model, gpu, engine, precision)
    return model_graph(asked.model, asked.blocks, scheme_of(asked))


def runs(weights: str, matmul: str, gpu: str, engine: str):
    """What a linear layer multiplies in, and by which kernel."""
    precision = f"weights: {weights}, activations: {matmul}"
    found = scheme_of(question("llama-3.1-8b-instruct", gpu, engine, precision)).formats
    return found.weights, found.matmul, found.kernel


@pytest.mark.parametrize(
    ("asked", "gpu", "engine", "ran"),
    [
        # FP8 where there are FP8 units, W8A16 where there are none
        ("fp8 fp8", "h100-sxm", "vllm", "fp8 CUTLASS scaled_mm"),
        ("fp8 fp8", "l40s", "vllm", "fp8 CUTLASS scaled_mm"),
        ("fp8 fp8", "a100-80gb-sxm", "vllm", "bf16 Marlin W8A16"),
        ("fp8 fp8", "rtx-3090", "sglang", "bf16 Marlin W8A16"),
        ("fp8_block fp8", "h200-sxm", "vllm", "fp8 DeepGEMM"),
        ("fp8_block fp8", "b200-sxm", "sglang", "fp8 DeepGEMM"),
        ("fp8_block fp8", "rtx-4090", "vllm", "fp8 Triton"),
        ("fp8_block fp8", "a100-80gb-sxm", "vllm", "bf16 Marlin W8A16"),
        ("fp8_block fp8", "h100-sxm", "tensorrt-llm", "fp8 fp8_block_scaling_gemm (DeepGEMM)"),
        # four bits: Machete on Hopper, Marlin elsewhere, narrow groups by Marlin there too
        ("int4 bf16", "h100-sxm", "vllm", "bf16 Machete"),
        ("int4_g32 bf16", "h100-sxm", "vllm", "bf16 Marlin"),
        ("awq bf16", "h100-sxm", "vllm", "bf16 Marlin"),
        ("awq bf16", "a100-80gb-sxm", "vllm", "bf16 Marlin"),
        ("awq bf16", "b200-sxm", "sglang", "bf16 Marlin"),
        ("awq bf16", "a100-80gb-sxm", "tensorrt-llm", "bf16 CUTLASS fpA_intB"),
        ("nf4 bf16", "rtx-3090", "vllm", "bf16 bitsandbytes"),
        ("int8 bf16", "rtx-3090", "vllm", "bf16 Marlin"),
        ("int8 int8", "a100-80gb-sxm", "vllm", "int8 CUTLASS scaled_mm"),
        # FP4 units from Blackwell on
        ("nvfp4 nvfp4", "b200-sxm", "vllm", "nvfp4 FlashInfer (mm_fp4)"),
        ("nvfp4 nvfp4", "rtx-5090", "vllm", "nvfp4 FlashInfer (mm_fp4)"),
        ("nvfp4 nvfp4", "h100-sxm", "vllm", "bf16 Marlin W4A16"),
        ("nvfp4 nvfp4", "a100-80gb-sxm", "vllm", "bf16 Marlin W4A16"),
        ("mxfp4 bf16", "a100-80gb-sxm", "vllm", "bf16 Marlin W4A16"),
    ],
)
def test_what_a_gpu_lacks_falls_back_as_the_engine_does(asked, gpu, engine, ran):
    weights, matmul = asked.split()
    multiplied, kernel = ran.split(maxsplit=1)
    assert runs(weights, matmul, gpu, engine) == (weights, multiplied, kernel)


def test_a_turing_card_runs_four_bits_by_marlin_since_that_reads_them():
    """AWQ's own kernel before: capability 7.5 came to Marlin later."""
    precision = "weights: awq, activations: fp16"
    for version, kernel in (("0.10", "AWQ GEMM"), ("0.26", "Marlin")):
        asked = question("qwen2.5-7b-instruct", "t4", f"vllm, version: '{version}'", precision)
        assert scheme_of(asked).formats.kernel == kernel


@pytest.mark.parametrize(
    ("scales", "gpu", "version", "kernel", "call_s", "share"),
    [
        # pull 22895 brought FlashInfer's, for one scale of all activations; by 0.25 it is slow
        ("tensor", "b200-sxm", "0.10.1", "CUTLASS scaled_mm", 0.0, 1.0),
        ("tensor", "b200-sxm", "0.11.0", "FlashInfer (bmm_fp8)", 200e-6, 1.0),
        ("tensor", "b200-sxm", "0.26", "FlashInfer (bmm_fp8)", 200e-6, 0.433),
        ("tensor", "rtx-5090", "0.26", "FlashInfer (bmm_fp8)", 200e-6, 1.0),
        ("tensor", "h100-sxm", "0.26", "CUTLASS scaled_mm", 0.0, 1.0),
        ("token", "b200-sxm", "0.26", "CUTLASS scaled_mm", 0.0, 1.0),
    ],
)
def test_one_scale_of_all_activations_takes_flashinfer_on_blackwell(
    *, scales, gpu, version, kernel, call_s, share
):
    precision = f"weights: fp8, activations: fp8, scales: {scales}"
    engine = f"vllm, version: '{version}'"
    found = scheme_of(question("llama-3.1-8b-instruct", gpu, engine, precision)).formats
    assert (found.kernel, found.matrix_share) == (kernel, share)
    assert found.call_s == pytest.approx(call_s)


@pytest.mark.parametrize(
    ("precision", "gpu", "counts"),
    [
        ("weights: fp8, activations: fp8", "b200-sxm", True),
        ("modules: [{match: down_proj, weights: fp8, activations: fp8}]", "b200-sxm", True),
        # blocks have a scale for 128 elements; an A100 multiplies no FP8 (Marlin widens the weights)
        ("weights: fp8_block, activations: fp8", "b200-sxm", False),
        ("weights: fp8, activations: fp8", "a100-80gb-sxm", False),
        ("weights: fp8", "b200-sxm", False),
        ("weights: bf16", "b200-sxm", False),
    ],
)
def test_scales_count_where_fp8_meets_fp8_alone_and_a_plan_says_where_nothing_does(
    precision, gpu, counts
):
    asked = question("llama-3.1-8b-instruct", gpu, precision=f"{precision}, scales: tensor")
    said = [note for note in assemble(asked).notes if note.startswith("precision.scales")]
    assert scheme_of(asked).one_scale is counts
    assert (not said) is counts


@pytest.mark.parametrize(
    ("precision", "gpu", "engine", "sentence"),
    [
        ("weights: int8, activations: int8", "b200-sxm", "vllm", "no INT8 products from"),
        ("weights: int8, activations: int8", "rtx-5090", "vllm", "no INT8 products from"),
        ("weights: awq, activations: fp16", "v100-sxm2-32gb", "vllm", "AWQ needs capability 7.5"),
        ("weights: fp8, activations: fp8", "a100-80gb-sxm", "tensorrt-llm", "FP8 needs capabil"),
        ("weights: fp8", "h100-sxm", "tensorrt-llm", "there is no weight-only FP8"),
        ("weights: nvfp4, activations: nvfp4", "h100-sxm", "tensorrt-llm", "NVFP4 needs Blackwell"),
        ("weights: nvfp4, activations: nvfp4", "h100-sxm", "sglang", "NVFP4 needs capability 10.0"),
        ("kv_cache: int8", "h100-sxm", "sglang", "SGLang has no int8 cache"),
        ("kv_cache: int8", "h100-sxm", "tensorrt-llm", "TensorRT-LLM has no int8 cache"),
        ("kv_cache: int8", "h100-sxm", "vllm, version: '0.10'", "vLLM has no int8 cache"),
    ],
)
def test_what_an_engine_does_not_run_is_refused_with_its_reason(precision, gpu, engine, sentence):
    with pytest.raises(SpecError, match=re.escape(sentence)):
        graph_of("qwen2.5-7b-instruct", gpu, engine, precision)


def test_a_refusal_counts_only_where_a_module_needs_it():
    """INT8 experts run in Triton on Blackwell, whatever CUTLASS lacks for projections."""
    experts = "modules: [{match: experts, weights: int8, activations: int8}]"
    found = graph_of("qwen3-30b-a3b", "b200-sxm", precision=experts)
    (node,) = {n.id: n for b in found.kinds for n in b.nodes if n.id == "experts"}.values()
    assert node.formats is not None
    assert (node.formats.matmul, node.formats.kernel) == ("int8", "Triton")


def test_a_plan_says_which_kernel_ran():
    plan = assemble(question("llama-3.1-8b-instruct-awq", "h100-sxm"))
    said = "weights stay awq in memory and are widened to bf16 before each product, by Marlin"
    assert said in plan.notes
    assert plan.described["precision"] == (
        "weights awq, GEMMs bf16, activations bf16, KV cache bf16"
    )


@pytest.mark.parametrize(
    ("precision", "gpu", "engine", "said"),
    [
        (
            "weights: nf4",
            "h100-sxm",
            "sglang",
            "no rule says how SGLang runs nf4 weights with bf16",
        ),
        (
            "weights: int4, activations: fp8",
            "b200-sxm",
            "vllm",
            "no rule says how vLLM runs int4 w",
        ),
        ("weights: int8", "h100-sxm", "pytorch-eager", "no rule says how PyTorch, eager runs int8"),
    ],
)
def test_a_plan_says_where_nothing_tells_how_an_engine_runs_it(precision, gpu, engine, said):
    asked = question("llama-3.1-8b-instruct", gpu, engine, precision)
    chosen = scheme_of(asked)
    found = notes(chosen, model_graph(asked.model, asked.blocks, chosen))
    assert any(said in note for note in found)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_experts_in_fp8_and_int8_are_described(engine):
    for format_ in ("fp8", "int8")[: 1 if engine == "tensorrt-llm" else 2]:
        precision = f"weights: {format_}, activations: {format_}"
        asked = question(
            "mixtral-8x7b", "a100-80gb-sxm" if format_ == "int8" else "h100-sxm", engine, precision
        )
        chosen = scheme_of(asked)
        found = notes(chosen, model_graph(asked.model, asked.blocks, chosen))
        assert not any("no rule says" in note for note in found)


def test_a_plan_tells_modules_in_other_formats():
    plan = assemble(question("gpt-oss-20b", "h100-sxm"))
    assert plan.described["precision"].endswith("KV cache bf16; experts mxfp4 (GEMMs bf16)")
    [note] = [note for note in plan.notes if "weights stay" in note]
    assert note.endswith("by Triton (matmul_ogs)")


def test_notes_tell_only_what_the_graph_holds():
    """A model whose experts alone are quantised says nothing of quantised projections."""
    asked = question("gpt-oss-20b", "b200-sxm")
    chosen = scheme_of(asked)
    found = notes(chosen, model_graph(asked.model, asked.blocks, chosen))
    assert [note.rsplit("by ", 1)[1] for note in found] == ["FlashInfer TRT-LLM"]


SIZES = {
    # bytes of all safetensors: vllm issue 23278 for 120b, the repositories' indices for the others
    "gpt-oss-20b": 13_761_264_768,
    "gpt-oss-120b": 65_248_815_744,
    # published as about 594 GB and 230 GB
    "kimi-k2-thinking": 594e9,
    "minimax-m2": 230e9,
    # 5.20 GiB loaded, printed by vLLM (issue 13882)
    "qwen2.5-7b-instruct-awq": 5.20 * GIB,
}


@pytest.mark.parametrize("name", SIZES)
def test_quantised_checkpoints_are_as_large_as_published(name):
    assert weights_bytes(graph_of(name)) == pytest.approx(SIZES[name], rel=0.005)


def test_an_awq_model_by_hand():
    """4096 × (4096·2 + 1024·2 + 14336·3) weights a layer in 4 bit, with an FP16 scale and a 4-bit
    zero point a group of 128; embedding, LM head and 65 norms in BF16."""
    quantised = 32 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)
    wide = 2 * 128256 * 4096 + 65 * 4096
    expected = quantised * (4 + (16 + 4) / 128) / 8 + 2 * wide
    assert weights_bytes(graph_of("llama-3.1-8b-instruct-awq")) == expected


def test_blocks_of_fp8_by_hand():
    """Qwen3-8B: an FP32 scale for each 128 × 128 weights of 36 layers; norms, ends in BF16."""
    quantised = 36 * 4096 * (4096 * 2 + 1024 * 2 + 12288 * 3)
    wide = 2 * 151936 * 4096 + (2 * 36 + 1) * 4096 + 36 * 2 * 128
    expected = quantised * (1 + 4 / 128**2) + 2 * wide
    assert weights_bytes(graph_of("qwen3-8b-fp8")) == expected


def test_deepseek_with_its_mtp_module_is_the_published_repository():
    """688,586,727,753 bytes by the repository's index (recalled)."""
    both = sum(weights_bytes(graph_of(name)) for name in ("deepseek-v3", "deepseek-v3-mtp"))
    assert both == pytest.approx(688_586_727_753, rel=1e-4)


def test_a_checkpoint_that_keeps_attention_and_two_layers():
    """Llama 3.1 405B FP8: MLPs of 124 layers alone. The release of July 2024 had 16 KV heads, 8 more
    than the later config, and took 57.75 GiB on each of 8 GPUs (vllm issue 6746)."""
    mlp, heads = 3 * 16384 * 53248, 2 * 16384**2 + 2 * 16384 * 1024
    wide = 2 * mlp + 126 * heads + 2 * 128256 * 16384 + (2 * 126 + 1) * 16384
    assert weights_bytes(graph_of("llama-3.1-405b-instruct-fp8")) == 124 * mlp + 2 * wide
    doubled = 2 * 126 * 2 * 16384 * 1024
    assert (124 * mlp + 2 * wide + doubled) / 8 / GIB == pytest.approx(57.75, rel=0.001)


def test_caches_with_scales():
    """Qwen2.5-7B: 28 layers of 4 KV heads of 128. vLLM's INT8 has 4 bytes more a token and head."""
    bf16 = 28 * 2 * 4 * 128 * 2
    fp8 = graph_of("qwen2.5-7b-instruct", precision="kv_cache: fp8")
    int8 = graph_of("qwen2.5-7b-instruct", precision="kv_cache: int8")
    assert kv_bytes_per_token(fp8) == bf16 / 2
    assert kv_bytes_per_token(int8) == 28 * 2 * 4 * (128 + 4)
    asked = question("qwen2.5-7b-instruct", "h100-sxm", precision="kv_cache: int8")
    assert any("int8_per_token_head" in note for note in assemble(asked).notes)


def test_format_rules_name_operators_and_say_where_they_were_read():
    for backend in CATALOG.entries("backend"):
        for rule in backend.formats:
            ops = (rule.op,) if isinstance(rule.op, str) else rule.op
            assert set(ops) <= set(OPERATORS.names())
            head = re.split(r"[ :;]", rule.source)[0]
            assert head in {*backend.sources, "recalled", "https"}, rule.source


def test_every_quantised_model_of_the_catalogue_plans_on_three_generations():
    """As published, or refused with a reason that names formats."""
    for model in CATALOG.entries("model"):
        if model.quantization is None or "token_ids" not in model.inputs or len(model.inputs) > 1:
            continue
        for gpu in ("a100-80gb-sxm", "h100-sxm", "b200-sxm"):
            assert weights_bytes(graph_of(model.name, gpu)) > 0


def test_ranks_cut_no_block_of_scales():
    """Experts of 768: halves of 384 are three blocks, quarters of 192 are one and a half."""
    for ranks, fits in ((2, True), (4, False)):
        asked = question("qwen3-30b-a3b", "h100-sxm", precision=BLOCKS)
        chosen = scheme_of(asked)
        if fits:
            model_graph(asked.model, asked.blocks, chosen, ranks)
            continue
        with pytest.raises(SpecError, match="a rank's share of 192 is no whole number"):
            model_graph(asked.model, asked.blocks, chosen, ranks)


@pytest.mark.parametrize(
    ("gpu", "tall", "wide"),
    [("h200-sxm", 2880, 2880), ("a100-80gb-sxm", 3072, 2944), ("l40s", 3072, 2944)],
)
def test_marlin_pads_experts_of_mxfp4_to_256_by_128(gpu, tall, wide):
    """gpt-oss-120b: 36 layers of 128 experts of three matrices, 4.25 bits a weight."""
    graph = graph_of("gpt-oss-120b", gpu)
    more = 36 * 128 * 3 * (tall * wide - 2880 * 2880) * 4.25 / 8
    assert weights_bytes(graph) == pytest.approx(65_248_815_744 + more, rel=1e-12)
    assert parameters(graph) == parameters(graph_of("gpt-oss-120b"))


def test_experts_that_ranks_cut_are_padded_after_the_cut():
    """2880 / 4 = 720 becomes 768; hidden stays whole, 3072."""
    asked = question("gpt-oss-120b", "a100-80gb-sxm")
    cut = model_graph(asked.model, asked.blocks, scheme_of(asked), 4)
    (experts,) = {
        sum(each.bytes for each in node.parameters if each.dtype == "mxfp4")
        for block in cut.kinds
        for node in block.nodes
        if node.op_name == "moe"
    }
    assert experts == 128 * 3 * 3072 * 768 * 4.25 / 8
