"""A row of public serving measurements becomes the deployment that ran, each by hand."""

import pytest
from silicon_samples import GENERATED, INFERENCEX, cells, read

from planner.calibrate.silicon_cases import deployment, document, version_of
from planner.calibrate.silicon_lint import lint
from planner.errors import UsageError

NVFP4 = {"weights": "nvfp4", "activations": "nvfp4"}


@pytest.fixture
def case(tmp_path):
    """The deployment of a row, as plain data that is a valid deployment too."""

    def _case(**given):
        (flagged,) = lint(read(tmp_path, cells(**given)))
        deployment(flagged)
        return document(flagged)

    return _case


def inferencex(engine, model, gemm, system="b200_sxm", **given):
    return {
        "backend": engine,
        "model_path": model,
        "gemm_quant_mode": gemm,
        "system": system,
        "silicon_data_source": INFERENCEX,
        **given,
    }


def test_a_plain_row_is_fixed_lengths_in_16_bit(case):
    """Somebody's own run of BF16 weights: the engine's defaults, ten requests a user."""
    assert case() == {
        "model": "llama-3.1-8b-instruct",
        "gpu": "h100-sxm",
        "parallel": {"tensor": 1, "data": 1, "expert": 1},
        "backend": {
            "name": "vllm",
            "flags": {"max_model_len": 1024 + 128 + 256},
            "version": "0.19.0",
        },
        "workload": {"concurrency": 8, "input": 1024, "output": 128, "requests": 80},
    }


def test_inferencex_draws_lengths_and_follows_its_scripts(case):
    """NVIDIA's FP8 checkpoint under TensorRT-LLM: a scale a tensor, KV cache in FP8."""
    found = case(**inferencex("trtllm", "meta-llama/Llama-3.1-70B", "fp8", backend_version=""))
    wanted = {"weights": "fp8", "activations": "fp8", "scales": "tensor", "kv_cache": "fp8"}
    assert found["precision"] == wanted
    assert found["workload"]["spread"] == 0.2
    assert found["backend"] == {
        "name": "tensorrt-llm",
        "version": "1.2.0",
        "flags": {
            "cuda_graph_enable_padding": True,
            "cuda_graph_max_batch_size": 1024,
            "enable_block_reuse": False,
            "max_num_tokens": 16384,
        },
    }


@pytest.mark.parametrize(
    ("model", "gemm", "tensor", "users", "version", "waits"),
    [
        # 70b_{fp8,fp4}_*_trt_slurm.sh: equal lengths of 1,024 on part of a board
        ("meta-llama/Llama-3.1-70B", "fp8", 4, 8, "", (20, 0.9)),
        ("meta-llama/Llama-3.1-70B", "nvfp4", 4, 8, "", (20, 0.9)),
        ("meta-llama/Llama-3.1-70B", "fp8", 8, 8, "", None),
        # dsr1_fp8_b200_trt.sh: from 64 users on, of 1.2
        ("deepseek-ai/DeepSeek-R1", "fp8", 8, 64, "1.2.0rc6.post2", (40, 0.8)),
        ("deepseek-ai/DeepSeek-R1", "fp8", 8, 32, "1.2.0rc6.post2", None),
        ("deepseek-ai/DeepSeek-R1", "fp8", 8, 64, "1.1.0rc2.post2", None),
        ("deepseek-ai/DeepSeek-R1", "nvfp4", 8, 64, "1.2.0rc6.post2", None),
    ],
)
def test_prompts_wait_for_others_where_scripts_say_so(
    case, *, model, gemm, tensor, users, version, waits
):
    labels = inferencex("trtllm", model, gemm, backend_version=version, tp_size=tensor, osl=1024)
    found = case(**labels, batch_size=users)["backend"]["flags"]
    names = ("batch_wait_timeout_iters", "batch_wait_max_tokens_ratio")
    assert tuple(found[name] for name in names if name in found) == (waits or ())


@pytest.mark.parametrize(
    ("version", "batch", "room", "tokens"),
    [
        # users + prompt + 1,500, in blocks of 32: 16 + 1024 + 1500 = 2540, and 79.4 blocks
        ("1.0.0rc3", 16, 16, 2560),
        # rules of 2026 make room for 512 users, or twice as many as there are
        ("1.2.0rc6", 16, 512, 3040),  # 512 + 1024 + 1500 = 3036
        ("1.2.0rc6", 600, 1200, 3744),  # 1200 + 1024 + 1500 = 3724
    ],
)
def test_aiconfigurator_asks_for_the_tokens_of_one_prompt(case, version, batch, room, tokens):
    """`trtllm.rule` of its generator."""
    own = {"backend": "trtllm", "backend_version": version, "batch_size": batch}
    flags = case(**own, silicon_data_source=GENERATED)["backend"]["flags"]
    assert (flags["max_batch_size"], flags["max_num_tokens"]) == (room, tokens)
    assert flags["cuda_graph_enable_padding"]
    assert case(**own)["backend"]["flags"] == {}  # somebody else's run


@pytest.mark.parametrize(
    ("version", "more"), [("0.5.1.post1", {}), ("0.5.6.post2", {"enable_mixed_chunk": True})]
)
def test_aiconfigurator_lets_sglang_mix_where_it_spells_the_flag_right(case, version, more):
    """`sglang.rule`; before 0.5.6 its template has --enable-mix-chunk, which SGLang does not."""
    own = {"backend": "sglang", "backend_version": version}
    flags = case(**own, silicon_data_source=GENERATED)["backend"]["flags"]
    assert flags == {"max_prefill_tokens": 1024 + 1500, **more}


def test_aiconfigurator_serves_the_makers_fp8_of_qwen3(case):
    """Qwen/Qwen3-32B-FP8 is of blocks, and has no scales of the KV cache."""
    own = {"backend": "trtllm", "model_path": "Qwen/Qwen3-32B", "gemm_quant_mode": "fp8"}
    found = case(**own, silicon_data_source=GENERATED)
    assert found["precision"] == {"weights": "fp8_block", "activations": "fp8"}


@pytest.mark.parametrize(
    ("version", "day", "data", "meant"),
    [
        ("1.2.0rc6.post3", "2026-02-06", 1, {"tokens": 3, "length": 2.75}),
        ("1.2.0rc6.post3", "2026-02-06", 8, {"tokens": 1, "acceptance": 0.85}),
        ("1.1.0rc2.post2", "2026-01-14", 1, {"tokens": 3, "length": 2.75}),
        # the same image ran without drafts on other days
        ("1.1.0rc2.post2", "2025-12-15", 1, None),
        ("1.2.0rc6.post2", "2026-02-03", 1, None),
    ],
)
def test_images_of_drafting_scripts_draft(case, *, version, day, data, meant):
    """perf-changelog.yaml of InferenceX, pulls 392, 594, 620, 632 and 642."""
    found = case(
        **inferencex("trtllm", "deepseek-ai/DeepSeek-R1", "nvfp4", backend_version=version),
        day=day,
        tp_size=8 // data,
        attention_dp_size=data,
        moe_ep_size=data,
    )
    drafts = meant and {**meant, "draft": "deepseek-v3-mtp"}
    assert found.get("speculation") == drafts


@pytest.mark.parametrize(
    ("engine", "model", "gemm", "users", "flag", "value"),
    [
        # dsr1_fp8_b200.sh, dsr1_fp4_b200.sh: seldom, and more seldom from 16 users on
        ("sglang", "deepseek-ai/DeepSeek-R1", "fp8", 8, "scheduler_recv_interval", 10),
        ("sglang", "deepseek-ai/DeepSeek-R1", "nvfp4", 16, "scheduler_recv_interval", 30),
        # qwen3.5_{bf16,fp8,fp4}_b200.sh
        ("sglang", "Qwen/Qwen3.5-397B-A17B", "nvfp4", 4, "scheduler_recv_interval", 30),
        ("sglang", "Qwen/Qwen3.5-397B-A17B", "", 4, "scheduler_recv_interval", 10),
        ("sglang", "Qwen/Qwen3.5-397B-A17B", "fp8", 64, "scheduler_recv_interval", 30),
        ("sglang", "deepseek-ai/DeepSeek-R1", "fp8", 8, "max_running_requests", 128),
        ("sglang", "Qwen/Qwen3.5-397B-A17B", "nvfp4", 256, "max_running_requests", 256),
        # qwen3.5_fp8_b200.sh
        ("sglang", "Qwen/Qwen3.5-397B-A17B", "fp8", 64, "disable_radix_cache", True),
        ("sglang", "Qwen/Qwen3.5-397B-A17B", "fp8", 64, "mamba_ssm_dtype", None),
        ("sglang", "deepseek-ai/DeepSeek-R1", "fp8", 8, "disable_radix_cache", None),
        # glm5_fp8_b200.sh says nothing of it
        ("sglang", "zhipuai/GLM-5", "fp8", 16, "scheduler_recv_interval", None),
        # dsr1_fp{8,4}_b200_trt.sh, gptoss_fp4_b200_trt.sh
        ("trtllm", "deepseek-ai/DeepSeek-R1", "nvfp4", 8, "moe_backend", "TRTLLM"),
        ("trtllm", "openai/gpt-oss-120b", "nvfp4", 8, "moe_backend", "TRTLLM"),
        ("trtllm", "meta-llama/Llama-3.1-70B", "fp8", 8, "moe_backend", None),
    ],
)
def test_servers_start_as_the_scripts_start_them(case, *, engine, model, gemm, users, flag, value):
    found = case(**inferencex(engine, model, gemm, batch_size=str(users)))
    assert found["backend"].get("flags", {}).get(flag) == value


@pytest.mark.parametrize(
    ("version", "gemm", "flags", "cache", "share"),
    [
        (
            "0.19.0",
            "fp8",
            {"max_num_batched_tokens": 2048, "max_cudagraph_capture_size": 2048},
            "fp8",
            0.9,
        ),
        ("0.17.0", "fp8", {"moe_backend": "triton"}, None, 0.95),
        ("0.19.0", "nvfp4", {}, "fp8", 0.9),
    ],
)
def test_minimax_is_served_as_its_scripts_have_it(case, *, version, gemm, flags, cache, share):
    """minimaxm2.5_{fp8,fp4}_b200.sh: steps of two prompts of 1,024 tokens from 0.19 on."""
    found = case(**inferencex("vllm", "MiniMaxAI/MiniMax-M2.5", gemm, backend_version=version))
    assert found["backend"]["flags"] == {"max_model_len": 1024 + 128 + 256, **flags}
    assert found.get("precision", {}).get("kv_cache") == cache
    assert found["memory"] == {"utilization": share}


def test_llama_is_served_on_blackwell_as_its_scripts_have_it(case):
    """70b_{fp8,fp4}_b200_docker.sh, and 70b_fp8_h200_slurm.sh without its compilation-config."""
    model, every = "meta-llama/Llama-3.1-70B", {"max_model_len": 1024 + 128 + 256}
    every |= {"async_scheduling": True, "max_num_batched_tokens": 8192}
    fused = {"fuse_allreduce_rms": True, "fuse_attn_quant": True}
    fused |= {"custom_ops": "+rms_norm,+quant_fp8", "cudagraph_mode": "FULL_DECODE_ONLY"}
    for system, flags in (("b200_sxm", every | fused), ("h200_sxm", every)):
        found = case(**inferencex("vllm", model, "fp8", system=system, backend_version=""))
        assert found["backend"]["flags"] == flags
        assert found["precision"]["scales"] == "tensor"


@pytest.mark.parametrize(
    ("system", "version", "flags"),
    [
        ("h200_sxm", "0.11.2", {"cudagraph_mode": "PIECEWISE"}),
        ("h200_sxm", "0.18.0", {"max_cudagraph_capture_size": 2048, "mxfp4_use_marlin": True}),
        ("b200_sxm", "0.15.1", {"max_cudagraph_capture_size": 2048, "fuse_allreduce_rms": True}),
        (
            "b200_sxm",
            "0.11.0",
            {"cudagraph_mode": "PIECEWISE", "fuse_allreduce_rms": True, "custom_ops": "+rms_norm"},
        ),
    ],
)
def test_gpt_oss_is_served_as_its_scripts_have_it(case, *, system, version, flags):
    """gptoss_fp4_{h200,b200}.sh, and gptoss_fp4_h200_docker.sh of vLLM 0.11."""
    model = "openai/gpt-oss-120b"
    found = case(**inferencex("vllm", model, "nvfp4", system=system, backend_version=version))
    every = {"max_model_len": 1024 + 128 + 256, "max_num_batched_tokens": 8192}
    assert found["backend"]["flags"] == {**every, "async_scheduling": True, **flags}


@pytest.mark.parametrize(
    ("engine", "model", "gemm", "system", "meant"),
    [
        # what a checkpoint is by itself, the label only repeats
        ("trtllm", "openai/gpt-oss-120b", "nvfp4", "h200_sxm", None),
        # but for activations that a variable of the script's environment narrows
        (
            "vllm",
            "openai/gpt-oss-120b",
            "nvfp4",
            "b200_sxm",
            {
                "modules": [{"match": "experts", "weights": "mxfp4", "activations": "fp8"}],
                "kv_cache": "fp8",
            },
        ),
        ("vllm", "moonshotai/Kimi-K2.5", "int4_wo", "h200_sxm", None),
        ("sglang", "deepseek-ai/DeepSeek-R1", "fp8", "h200_sxm", None),
        ("sglang", "deepseek-ai/DeepSeek-R1", "fp8", "b200_sxm", {"kv_cache": "fp8"}),
        ("vllm", "MiniMaxAI/MiniMax-M2.5", "fp8", "h100_sxm", None),
        # NVIDIA's NVFP4 checkpoints and what they leave in 16 bit
        (
            "vllm",
            "MiniMaxAI/MiniMax-M2.5",
            "nvfp4",
            "b200_sxm",
            {
                "weights": "bf16",
                "activations": "bf16",
                "modules": [{"match": ["experts"], **NVFP4}],
                "kv_cache": "fp8",
            },
        ),
        # the maker's own FP8 beside a 16-bit repository
        (
            "sglang",
            "zhipuai/GLM-5",
            "fp8",
            "h200_sxm",
            {"weights": "fp8_block", "activations": "fp8"},
        ),
        ("sglang", "Qwen/Qwen3.5-397B-A17B", "", "b200_sxm", None),
    ],
)
def test_a_label_means_what_the_checkpoint_is(case, *, engine, model, gemm, system, meant):
    """Of runs of InferenceX."""
    assert case(**inferencex(engine, model, gemm, system)).get("precision") == meant


def test_of_deepseek_o_proj_is_narrow_and_the_latent_projections_are_not(case):
    """As hf_quant_config.json of DeepSeek-V3.1-NVFP4 excludes them."""
    found = case(**inferencex("sglang", "deepseek-ai/DeepSeek-R1", "nvfp4"))
    (rule,) = found["precision"]["modules"]
    assert {"experts", "o_proj", "shared_up_proj"} <= set(rule["match"])
    assert not {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"} & set(rule["match"])


@pytest.mark.parametrize(
    ("model", "gemm", "cache"),
    [
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "fp8", "fp8"),
        ("Qwen/Qwen3-32B", "fp8", None),  # made FP8 as it loads
        ("Qwen/Qwen3-235B-A22B-FP8", "fp8", None),  # the maker's own, no KV scales
    ],
)
def test_elsewhere_vllm_takes_the_cache_of_an_nvidia_checkpoint(case, model, gemm, cache):
    """`resolve_kv_cache_dtype_string` reads kv_cache_quant_algo."""
    found = case(model_path=model, gemm_quant_mode=gemm)
    assert found.get("precision", {}).get("kv_cache") == cache


@pytest.mark.parametrize(
    ("engine", "label", "day", "version"),
    [
        ("vllm", "0.19.0", None, "0.19.0"),
        ("sglang", "0.5.10.post1", None, "0.5.10"),
        ("trtllm", "1.2.0rc6.post2", None, "1.2.0"),
        ("vllm", "", "2025-10-29", "0.11.0"),  # 0.11.0 of 2 October, 0.12.0 of 3 December
        ("sglang", "nightly-dev", "2026-03-10", "0.5.9"),
        ("trtllm", "gpt-oss-dev", "2020-01-01", "1.0.0"),
        ("sglang", "nightly-dev", None, None),
    ],
)
def test_a_build_without_a_number_is_the_release_of_its_day(engine, label, day, version):
    """Nothing older than the first release known."""
    assert version_of(engine, label, day) == version


def test_five_requests_a_user_where_the_script_has_five(case):
    """glm5_fp8_h200.sh: num_prompts=$((CONC * 5))."""
    found = case(**inferencex("sglang", "zhipuai/GLM-5", "fp8", "h200_sxm"))
    assert found["workload"]["requests"] == 8 * 5


def test_experts_cut_over_ranks_of_data_parallel_attention_are_refused(case):
    """A deployment replicates experts over `data`, or shares them out."""
    with pytest.raises(UsageError, match="experts split 4 ways over 4 ranks"):
        case(
            users=32,
            model_path="openai/gpt-oss-120b",
            tp_size=1,
            attention_dp_size=4,
            moe_tp_size=4,
        )


def test_a_model_that_the_catalogue_lacks_is_refused_by_name(case):
    """Not guessed."""
    with pytest.raises(UsageError, match="'somebody/else' is not in the catalogue"):
        case(model_path="somebody/else")


def test_half_a_board_of_deepseek_in_fp8_has_a_script_of_its_own(case):
    """dsr1_fp8_b200.sh, TP=4: looks every 10 steps however many users, in smaller steps."""
    row = inferencex("sglang", "deepseek-ai/DeepSeek-R1", "fp8", tp_size=4, moe_tp_size=4)
    flags = case(**row, batch_size=32)["backend"]["flags"]
    assert (flags["scheduler_recv_interval"], flags["chunked_prefill_size"]) == (10, 8192)


def test_scripts_that_draft_under_sglang_have_flags_of_their_own(case):
    """dsr1_fp8_b200_mtp.sh: two drafts, of which 0.75 each are taken; 512 sequences at most.
    qwen3.5_fp8_b300_mtp.sh alone turns the newer scheduler of drafts on for the server.
    """
    one = case(
        **inferencex(
            "sglang",
            "deepseek-ai/DeepSeek-R1",
            "fp8_block",
            backend_version="0.5.9",
            batch_size=256,
            tp_size=8,
            moe_tp_size=8,
        )
    )
    draft = {"tokens": 2, "acceptance": 0.75, "draft": "deepseek-v3-mtp"}
    assert one["speculation"] == draft
    assert one["backend"]["flags"]["max_running_requests"] == 512
    assert "enable_spec_v2" not in one["backend"]["flags"]
    other = case(
        **inferencex(
            "sglang",
            "Qwen/Qwen3.5-397B-A17B",
            "fp8_block",
            "b300_sxm",
            backend_version="0.5.9",
            tp_size=4,
            moe_tp_size=4,
        )
    )
    assert other["speculation"]["draft"] == "qwen3.5-397b-a17b-mtp"
    assert other["backend"]["flags"]["enable_spec_v2"]
    assert other["backend"]["flags"]["mamba_ssm_dtype"] == "bfloat16"


@pytest.mark.parametrize(("gpus", "share"), [(4, 0.95), (8, 0.82)])
def test_memory_is_what_the_script_gives(case, gpus, share):
    """dsr1_fp8_b200.sh: MEM_FRAC_STATIC of 4 and of 8 GPUs."""
    row = inferencex("sglang", "deepseek-ai/DeepSeek-R1", "fp8", tp_size=gpus, moe_tp_size=gpus)
    assert case(**row)["memory"] == {"utilization": share}
