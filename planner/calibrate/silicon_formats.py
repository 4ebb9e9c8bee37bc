"""What the precision labels of public serving measurements mean: formats of weights and KV cache.

A label says how the wheel's own tables are asked, not what ran. What ran is a checkpoint: a model
whose repository is quantised runs as it is, NVIDIA's checkpoints leave out what their
`hf_quant_config.json` excludes, and the KV cache is FP8 where the checkpoint or the command says
so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.calibrate.silicon import GENERATED, INFERENCEX, SiliconRow
from planner.spec.conditions import version_key

MODELS: Mapping[str, str] = {
    "MiniMaxAI/MiniMax-M2.5": "minimax-m2.5",
    "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b-fp8",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "deepseek-ai/DeepSeek-R1": "deepseek-r1",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b-instruct",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b-instruct",
    "moonshotai/Kimi-K2.5": "kimi-k2.5",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-r1",
    "nvidia/DeepSeek-V3.1-NVFP4": "deepseek-v3.1",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama-3.1-8b-instruct",
    "nvidia/Qwen3-32B-NVFP4": "qwen3-32b",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "zhipuai/GLM-5": "glm-5",
}
"""Catalogue names of the file's models. Weights of the Llamas are those of the instruct models."""

OWN = {
    "deepseek-r1": "fp8",
    "deepseek-v3": "fp8",
    "deepseek-v3.1": "fp8",
    "kimi-k2.5": "int4",
    "minimax-m2.5": "fp8",
    "qwen3-235b-a22b-fp8": "fp8",
}
"""Models whose repository is quantised, and the label that says no more than that. gpt-oss is
always its own MXFP4, whatever the label."""
_BLOCKS = {"glm-5", "qwen3.5-397b-a17b"}
"""16-bit repositories beside which their makers publish one in FP8 of 128 × 128 blocks
(zai-org/GLM-5-FP8, Qwen/Qwen3.5-397B-A17B-FP8): that is what an FP8 label means of them."""

_MLP = ["experts", "gate_proj", "up_proj", "down_proj"]
_SHARED = ["shared_gate_proj", "shared_up_proj", "shared_down_proj"]
_NVFP4_ONLY: Mapping[str, list[str]] = {
    # nvidia/DeepSeek-V3.1-NVFP4 hf_quant_config: q_a, q_b, kv_a and kv_b stay, o_proj does not;
    # as DeepSeek-R1-0528-FP4-v2, which InferenceX serves
    "deepseek-r1": [*_MLP, *_SHARED, "o_proj"],
    "deepseek-v3": [*_MLP, *_SHARED, "o_proj"],
    "deepseek-v3.1": [*_MLP, *_SHARED, "o_proj"],
    # nvidia/GLM-5-NVFP4 hf_quant_config and nvidia/Kimi-K2.5-NVFP4 config: all of self_attn stays
    "glm-5": [*_MLP, *_SHARED],
    "kimi-k2.5": [*_MLP, *_SHARED],
    # nvidia/MiniMax-M2.5-NVFP4 hf_quant_config: self_attn and gates stay
    "minimax-m2.5": ["experts"],
    # nvidia/Qwen3.5-397B-A17B-NVFP4 hf_quant_config: attention, linear attention, shared experts
    "qwen3.5-397b-a17b": ["experts"],
}
"""Modules that NVIDIA's NVFP4 checkpoints quantise, of models where these are not all; the rest is
BF16. All these files are among aiconfigurator-core 0.12.0's model_configs."""
_SMALL = [
    {"match": ["in_proj_a", "in_proj_b", "vision-*"], "weights": "bf16", "activations": "bf16"}
]
"""Too narrow for blocks of 128, and the vision tower (recalled: modules_to_not_convert of
Qwen3.5-397B-A17B-FP8)."""

MINIMAX_WIDE = (0, 19)
"""vLLM from which on MiniMax's scripts of Blackwell have FP8 caches and wide steps."""
_MODELOPT = {"fp8", "nvfp4"}
"""Labels of checkpoints by NVIDIA's ModelOpt, whose `kv_cache_quant_algo` is FP8 in every file of
these models: nvidia/Llama-3.1-70B-Instruct-FP8, Qwen3-32B-FP8-Static-PerTensor,
DeepSeek-V3.1-NVFP4, MiniMax-M2.5-NVFP4, Qwen3.5-397B-A17B-NVFP4, GLM-5-NVFP4, and kv_cache_scheme
of Kimi-K2.5-NVFP4."""


def _widened(row: SiliconRow) -> bool:
    """Whether vLLM multiplies MXFP4 experts with MXFP8: VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8 of
    InferenceX's gptoss_fp4_b200.sh.
    """
    blackwell = not row.system.startswith("h")
    oss = MODELS[row.model] == "gpt-oss-120b"
    return oss and blackwell and row.engine == "vllm" and row.family == INFERENCEX


def formats(row: SiliconRow) -> dict[str, Any]:
    """The `precision` of a row's deployment."""
    found = _weights(MODELS[row.model], "fp8_block" if _makers_blocks(row) else row.gemm)
    if _widened(row):
        found = {"modules": [{"match": "experts", "weights": "mxfp4", "activations": "fp8"}]}
    if found.get("weights") == "fp8" and _modelopt(row):
        found["scales"] = "tensor"
    return {**found, "kv_cache": "fp8"} if fp8_cache(row) else found


def _makers_blocks(row: SiliconRow) -> bool:
    """Whether FP8 of a 16-bit repository is its maker's checkpoint in blocks of 128.

    aiconfigurator's automation serves Qwen/Qwen3-32B-FP8 for this model (MODEL_HF_REPO of its
    README, with TensorRT-LLM 1.0.0rc3), and vLLM and SGLang have no narrower one to take.
    """
    own = row.family == GENERATED and MODELS[row.model] == "qwen3-32b"
    return own and row.gemm == "fp8"


def _weights(model: str, label: str) -> dict[str, Any]:
    if model == "gpt-oss-120b" or not label or label.startswith(OWN.get(model, "none")):
        return {}
    if label == "nvfp4":
        return _nvfp4(model)
    if label == "int4_wo":
        return {"weights": "int4_g32"}
    if model in _BLOCKS:
        modules = {"modules": _SMALL} if model == "qwen3.5-397b-a17b" else {}
        return {"weights": "fp8_block", "activations": "fp8", **modules}
    return {"weights": label, "activations": "fp8"}


def _nvfp4(model: str) -> dict[str, Any]:
    only = _NVFP4_ONLY.get(model)
    narrow = {"weights": "nvfp4", "activations": "nvfp4"}
    if only is None:
        return narrow
    return {"weights": "bf16", "activations": "bf16", "modules": [{"match": only, **narrow}]}


def fp8_cache(row: SiliconRow) -> bool:
    """Whether keys and values were kept in FP8: by the command that ran, else by the checkpoint.

    TensorRT-LLM follows a ModelOpt checkpoint by itself, vLLM from 0.12 on
    (`resolve_kv_cache_dtype_string`). SGLang does where it is told to.
    """
    if row.family == INFERENCEX and (said := _commanded(row)) is not None:
        return said
    return row.engine != "sglang" and _modelopt(row)


def _modelopt(row: SiliconRow) -> bool:
    """Whether the label stands for a checkpoint of NVIDIA's, not for the maker's own or BF16.

    vLLM's FP8 of a BF16 repository is made as it loads, and has no KV scales.
    """
    model = MODELS[row.model]
    if model == "gpt-oss-120b" or row.gemm not in _MODELOPT or OWN.get(model) == row.gemm:
        return False
    if _makers_blocks(row):
        return False
    if row.gemm == "fp8" and row.engine == "vllm":
        return row.model.startswith("nvidia/") or model == "llama-3.1-70b-instruct"
    return True


def _commanded(row: SiliconRow) -> bool | None:
    """What the command of InferenceX says; None where it leaves it to the engine.

    From github.com/SemiAnalysisAI/InferenceX benchmarks/*.sh: ``--kv-cache-dtype fp8`` of
    70b_fp8_{h100,h200,b200}, 70b_fp4_b200, gptoss_fp4_b200, ``fp8_e4m3`` of dsr1_{fp8,fp4}_b200,
    qwen3.5_{fp8,fp4}_*, glm5_{fp8,fp4}_b200, ``kv_cache_config.dtype: fp8`` of all *_trt but
    gptoss_fp4_h200_trt; none of dsr1_fp8_h200, glm5_fp8_h200, qwen3.5_bf16, gptoss_fp4_{h100,h200},
    kimik2.5_*, minimaxm2.5_* but fp8_{b200,b300} from vLLM 0.19 on (its H200 script only came to
    fp8 with a later image).
    """
    model, hopper = MODELS[row.model], row.system in {"h100_sxm", "h200_sxm"}
    if row.engine == "trtllm":
        return not (model == "gpt-oss-120b" and hopper)
    if row.engine == "vllm":
        if model == "llama-3.1-70b-instruct":
            return True
        if model == "minimax-m2.5" and not hopper and row.gemm != "nvfp4":
            return version_key(row.version) >= MINIMAX_WIDE or None
        return not hopper if model == "gpt-oss-120b" else None
    if model == "qwen3.5-397b-a17b":
        return bool(row.gemm)
    return not hopper
