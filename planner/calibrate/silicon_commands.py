"""Flags that servers of public runs were started with, so far as the catalogue knows them.

InferenceX's are in its scripts, github.com/SemiAnalysisAI/InferenceX benchmarks/*.sh, which change
with the images; what is here is the same in every version seen. The other runs are
aiconfigurator's own, under TensorRT-LLM with the configuration that its generator writes
(github.com/ai-dynamo/aiconfigurator generator/rule_plugin/trtllm.rule, and
generator/backends/trtllm.py before it). What neither sets is the engine's default.
"""

from __future__ import annotations

from typing import Any

from planner.calibrate.silicon import GENERATED, INFERENCEX, SiliconRow
from planner.calibrate.silicon_formats import MINIMAX_WIDE, MODELS
from planner.spec.conditions import version_key

Flags = dict[str, Any]
_HOPPER = {"h100_sxm", "h200_sxm"}
_MANY = 16
"""Users from which on scripts let SGLang's scheduler poll more seldom."""
_DEEPGEMM = 256
"""Users of long outputs from which on dsr1_fp8_b200_trt.sh takes DeepGEMM."""
_ROOMY = (1, 2)
_LEAST_ROOM = 512
_MIXED = (0, 5, 6)
"""The first SGLang for which the generator spells the flag as SGLang does."""
_BLOCK = 32
"""Tokens of a KV block, which the generator rounds up to."""
_ALIKE = (1024, 1024)
_HALF = 4
"""GPUs of half a board."""
_MARLIN = (0, 13)
"""vLLM from which on gpt-oss's scripts of Hopper set VLLM_MXFP4_USE_MARLIN=1, and no script asks
for piecewise graphs any more (pull 327 of perf-changelog.yaml, against pull 159)."""


def flags(row: SiliconRow, drafts: int) -> Flags:
    """Engine flags, by their names in the catalogue, of a row that drafts so many tokens a step."""
    return _OF[row.engine](row, drafts)


def utilization(row: SiliconRow, gpus: int) -> float | None:
    """Share of memory that a script lets the engine take; None where it leaves that to it."""
    if row.family != INFERENCEX:
        return None
    model, hopper = MODELS[row.model], row.system in _HOPPER
    if model == "kimi-k2.5":
        return {"nvfp4": 0.90}.get(row.gemm, 0.95 if hopper else 0.97)  # kimik2.5_*.sh
    if model == "minimax-m2.5":
        wide = row.system == "h200_sxm" or (not hopper and version_key(row.version) < MINIMAX_WIDE)
        return 0.95 if wide and row.gemm != "nvfp4" else 0.90  # minimaxm2.5_*.sh
    return _sglang_share(row, gpus) if row.engine == "sglang" else None


def _sglang_share(row: SiliconRow, gpus: int) -> float:
    model, hopper = MODELS[row.model], row.system in _HOPPER
    if row.gemm == "nvfp4" or model == "glm-5":
        return 0.85  # dsr1_fp4_b200.sh, qwen3.5_fp4_b200.sh, glm5_fp8_{b200,h200}.sh
    if model == "qwen3.5-397b-a17b":
        return 0.8 if hopper else 0.82  # qwen3.5_fp8_{h200,b200}.sh, qwen3.5_bf16_b200.sh
    return 0.95 if gpus == _HALF and not hopper else 0.82  # dsr1_fp8_{b200,h200}.sh


def requests(row: SiliconRow) -> int:
    """Requests of the run: ten a user, five of glm5_fp8_h200.sh."""
    five = MODELS[row.model] == "glm-5" and row.system in _HOPPER
    return row.concurrency * (5 if five else 10)


def _vllm(row: SiliconRow, _drafts: int) -> Flags:
    """Scripts set a longest sequence just above the lengths: of InferenceX, and others alike."""
    found: Flags = {"max_model_len": row.input + row.output + 256}
    if row.family != INFERENCEX:
        return found
    model, hopper = MODELS[row.model], row.system in _HOPPER
    if model in {"llama-3.1-70b-instruct", "gpt-oss-120b"}:
        # 70b_*.sh, gptoss_fp4_*.sh
        found |= {"async_scheduling": True, "max_num_batched_tokens": 8192}
        found |= {} if hopper else {"fuse_allreduce_rms": True}
    if model == "gpt-oss-120b":
        found |= _oss(row)
    if model == "llama-3.1-70b-instruct" and not hopper:
        found |= {"fuse_attn_quant": True, "cudagraph_mode": "FULL_DECODE_ONLY"}
        found |= {"custom_ops": "+rms_norm,+quant_fp8"}
    if model == "kimi-k2.5":
        found |= {"fuse_allreduce_rms": True}
    if model == "minimax-m2.5":
        found |= _minimax(row)
    return found


def _oss(row: SiliconRow) -> Flags:
    """gptoss_fp4_{b200,h100,h200}.sh, and gptoss_fp4_*_docker.sh before them."""
    version = version_key(row.version)
    hopper = row.system in _HOPPER
    if version >= _MARLIN:
        kernels = {"mxfp4_use_marlin": True} if hopper else {}
        return {"max_cudagraph_capture_size": 2048, **kernels}
    norms = {} if hopper else {"custom_ops": "+rms_norm"}
    return {"cudagraph_mode": "PIECEWISE", **norms} if version >= (0, 11) else norms


def _minimax(row: SiliconRow) -> Flags:
    """minimaxm2.5_fp8_{b200,b300,h100}.sh; FP4 has the engine's defaults.

    B300's script says that it is B200's of its day, and both have vLLM 0.19; before, B200's turned
    FlashInfer's and DeepGEMM's experts off.
    """
    if row.gemm == "nvfp4":
        return {}
    if row.system in _HOPPER:
        return {"cudagraph_mode": "PIECEWISE"}
    if version_key(row.version) >= MINIMAX_WIDE:
        return {"max_num_batched_tokens": 2 * row.input, "max_cudagraph_capture_size": 2048}
    return {"moe_backend": "triton"}


def _sglang(row: SiliconRow, drafts: int) -> Flags:
    if row.family == GENERATED:
        mixed = {"enable_mixed_chunk": True} if version_key(row.version) >= _MIXED else {}
        return {"max_prefill_tokens": row.input + 1500, **mixed}
    if row.family != INFERENCEX:
        return {}
    model, hopper = MODELS[row.model], row.system in _HOPPER
    if model == "glm-5" and hopper:
        return {}
    chunk = _chunk(row, drafts)
    found: Flags = {"chunked_prefill_size": chunk, "max_prefill_tokens": chunk}
    if most := _running(row, drafts):
        found |= {"max_running_requests": most}
    if model == "qwen3.5-397b-a17b":
        found |= _states(row, drafts)
    if drafts and row.system == "b300_sxm":
        found |= {"enable_spec_v2": True}  # of qwen3.5_fp8_b300_mtp.sh; others do not export it
    if not hopper and model.startswith(("deepseek", "qwen3.5")):
        found |= {"scheduler_recv_interval": _polls(row)}
    plain = (model.startswith("deepseek") and hopper) or (
        model == "qwen3.5-397b-a17b" and row.gemm and not hopper and not drafts
    )
    # dsr1_fp8_h200.sh and qwen3.5_{fp8,fp4}_{b200,b300}.sh ask for no fused all-reduce
    return found if plain else {**found, "enable_flashinfer_allreduce_fusion": True}


def _states(row: SiliconRow, drafts: int) -> Flags:
    """No script of Qwen3.5 keeps prefixes. States have 16 bit in qwen3.5_fp8_{h200,b300}.sh and
    *_mtp.sh, 32 in qwen3.5_{bf16,fp8,fp4}_b200.sh.
    """
    narrow = bool(drafts) or row.system in _HOPPER or _recent(row)
    kept = {"mamba_ssm_dtype": "bfloat16"} if narrow else {}
    return {"disable_radix_cache": True, **kept}


def _chunk(row: SiliconRow, drafts: int) -> int:
    """Tokens of a step of prompts."""
    model, hopper = MODELS[row.model], row.system in _HOPPER
    if model.startswith("deepseek") and not hopper:
        if row.gemm == "nvfp4" or drafts:
            return 16384  # dsr1_fp4_b200.sh, dsr1_fp8_b200_mtp.sh
        return 8192 if row.split.gpus == _HALF else 32768  # dsr1_fp8_b200.sh
    if model == "qwen3.5-397b-a17b" and (hopper or _recent(row)):
        return 16384  # qwen3.5_fp8_h200.sh, qwen3.5_fp8_b300.sh
    return 32768


def _running(row: SiliconRow, drafts: int) -> int | None:
    """Sequences that a script lets run at once; that of Qwen3.5's drafts of March 2026 is not at
    hand, and is read as its siblings'.
    """
    model, hopper = MODELS[row.model], row.system in _HOPPER
    if drafts and model.startswith("deepseek"):
        return 512
    if model == "qwen3.5-397b-a17b":
        own = drafts or row.gemm == "nvfp4" or _recent(row)
        return max(128, row.concurrency) if own else 128
    return 128 if row.gemm == "fp8" and model.startswith("deepseek") and not hopper else None


def _polls(row: SiliconRow) -> int:
    """Steps between two looks at what has arrived (SCHEDULER_RECV_INTERVAL)."""
    deepseek = MODELS[row.model].startswith("deepseek")
    if _recent(row) or (deepseek and row.gemm == "fp8" and row.split.gpus == _HALF):
        return 10
    always = not deepseek and row.gemm == "nvfp4" and row.system == "b200_sxm"
    return 30 if always or row.concurrency >= _MANY else 10


def _recent(row: SiliconRow) -> bool:
    """Whether qwen3.5_fp8_b300.sh of April 2026 ran."""
    ours = MODELS[row.model] == "qwen3.5-397b-a17b" and row.gemm.startswith("fp8")
    return ours and row.system == "b300_sxm" and version_key(row.version) >= (0, 5, 10)


def _tensorrt(row: SiliconRow, drafts: int) -> Flags:
    if row.family == GENERATED:
        return _generated(row)
    if row.family != INFERENCEX:
        return {}
    model, users = MODELS[row.model], row.concurrency
    found: Flags = {"cuda_graph_enable_padding": True, "enable_block_reuse": False}
    if model == "llama-3.1-70b-instruct":
        return {**found, "cuda_graph_max_batch_size": 1024, **_llama(row)}
    if model == "gpt-oss-120b":
        if row.system not in _HOPPER:
            found["moe_backend"] = "TRTLLM"  # gptoss_fp4_b200_trt.sh
        return {**found, "cuda_graph_max_batch_size": users, "max_num_tokens": 20000}
    if model.startswith("deepseek"):
        found |= {"moe_backend": _experts(row)}
    if not drafts and _gathers(row):
        found |= {"batch_wait_timeout_iters": 40, "batch_wait_max_tokens_ratio": 0.8}
    tokens = -(-((1 + drafts) * users + row.input + 64) // 64) * 64
    tokens = tokens if drafts else max(8192, tokens)
    return {**found, "cuda_graph_max_batch_size": max(128, users), "max_num_tokens": tokens}


def _llama(row: SiliconRow) -> Flags:
    """70b_fp8_{b200,h200}_trt_slurm.sh, 70b_fp4_b200_trt_slurm.sh: tokens of the longest sequence,
    which has 200 more than the lengths (recalled), and waiting prompts of 1,024 where boards are
    shared.
    """
    wide = row.gemm == "fp8" and row.system not in _HOPPER
    found: Flags = {"max_num_tokens": 16384 if wide else row.input + row.output + 200}
    if (row.input, row.output) == _ALIKE and row.split.gpus < 2 * _HALF:
        found |= {"batch_wait_timeout_iters": 20, "batch_wait_max_tokens_ratio": 0.9}
    return found


def _gathers(row: SiliconRow) -> bool:
    """Whether dsr1_fp8_b200_trt.sh delays batches: from pull 594 on, which brought 1.2."""
    ours = row.gemm == "fp8" and row.system not in _HOPPER
    some = (row.input, row.output) == _ALIKE and 64 <= row.concurrency < 256  # noqa: PLR2004
    return ours and some and version_key(row.version) >= _ROOMY


def _generated(row: SiliconRow) -> Flags:
    """What aiconfigurator's generator asks of TensorRT-LLM: tokens for one prompt and 1,500 more.

    Its rules make room for 512 sequences at least from 1.2 on; before, for the users.
    """
    users = row.batch
    if version_key(row.version) >= _ROOMY:
        users = _LEAST_ROOM if users < _LEAST_ROOM else 2 * users
    return {
        "max_batch_size": users,
        "max_num_tokens": -(-(users + row.input + 1500) // _BLOCK) * _BLOCK,
        "cuda_graph_enable_padding": True,
        "cuda_graph_max_batch_size": max(128, row.batch),
    }


def _experts(row: SiliconRow) -> str:
    """Kernels of DeepSeek's experts: dsr1_fp8_{b200,h200}_trt.sh, dsr1_fp4_b200_trt.sh."""
    if row.system in _HOPPER or (row.gemm == "nvfp4" and row.split.data > 1):
        return "CUTLASS"
    long = (row.input, row.output) == (1024, 8192)
    if row.gemm != "nvfp4" and long and row.concurrency >= _DEEPGEMM:
        return "DEEPGEMM"
    return "TRTLLM"


_OF = {"vllm": _vllm, "sglang": _sglang, "trtllm": _tensorrt}
