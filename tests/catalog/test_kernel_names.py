"""Names from traces of each engine find the kernels they are of, and no other kind of kernel.

The names are as profilers print them, shortened at their arguments; the backends' files say where
they were read.
"""

from __future__ import annotations

from functools import cache

import pytest

from planner.plan.assemble import assemble
from planner.plan.kernel_names import FittingNames
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

LINEARS = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"}
NORMS = {"input_norm", "post_attention_norm", "final_norm", "attention_residual", "mlp_residual"}
ATTENTION = {"attention.scores", "attention.mask", "attention.softmax", "attention.values"}
ACT = {"act", "act_mul"}
NVJET = "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT"
SPLIT_K = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>"
CUTLASS = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8>"
)
GEMV = "void gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float>"
FA3 = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::C>>>"
FA3_COMBINE = (
    "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>>, 256>>"
)
FA2 = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, cutlass::b>>"
FA2_COMBINE = "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128>>"
ARGMAX = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps>>"
)
GATHER = "void at::native::(anonymous namespace)::vectorized_gather_kernel<16, long>(char*, char*)"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>"
)
ADD_EPS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<float>>"
)
MUL = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    "BinaryFunctor<c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float>>>>"
)
SILU = "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous)::silu_kernel>"
MEAN = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>"
RSQRT = "void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda>"
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<OpaqueType<2u>>"

FOUND = {
    ("vllm", "{}"): {
        NVJET: LINEARS,
        SPLIT_K: LINEARS,
        CUTLASS: LINEARS,
        GEMV: LINEARS,
        FA3: ATTENTION,
        FA3_COMBINE: ATTENTION,
        FA2: ATTENTION,
        FA2_COMBINE: ATTENTION,
        "void flash::prepare_varlen_num_blocks_kernel<1, true>(int, int)": ATTENTION,
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0": NORMS,
        "triton_poi_fused_mul_silu_slice_1": ACT,
        "triton_poi_fused_mul_rocm_unquantized_gemm_silu_slice_0": ACT,
        "triton_poi_fused_add_cat_index_select_mul_split_split_with_sizes_sub_unsqueeze_view_3": {
            "rope"
        },
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>": {
            "kv_cache_write"
        },
        "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)": NORMS,
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>>": ACT,
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)": {"rope"},
        GATHER: {"embed_tokens", "select_last"},
        ARGMAX: {"sampling"},
        "_topk_topp_kernel": {"sampling"},
    },
    ("vllm", "{enforce_eager: true}"): {
        NVJET: LINEARS,
        "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)": {"input_norm"},
        "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)": NORMS,
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>>": ACT,
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)": {"rope"},
    },
    ("sglang", "{}"): {
        NVJET: LINEARS,
        FA3: ATTENTION,
        "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)": {"input_norm"},
        "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>": NORMS,
        "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu<float>>": ACT,
        "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheHeadParallelismKernel<false>": {
            "rope"
        },
        "void at::native::index_elementwise_kernel<128, 4, index_put_kernel_impl<OpaqueType<2>>>": {
            "kv_cache_write",
            "select_last",
        },
        GATHER: {"embed_tokens", "select_last"},
        ARGMAX: {"sampling"},
    },
    ("tensorrt-llm", "{}"): {
        NVJET: LINEARS,
        SPLIT_K: LINEARS,
        "fmha_v2_flash_attention_bf16_64_128_S_q_paged_kv_128_causal_tma_ws_sm90_kernel": ATTENTION,
        "kernel_mha": ATTENTION,
        "void tensorrt_llm::kernels::applyBiasRopeUpdateKVCacheV2<__nv_bfloat16, KVBlockArray>": {
            "rope",
            "kv_cache_write",
        },
        "void flashinfer::norm::FusedAddRMSNormKernel<(unsigned int)8, __nv_bfloat16>": NORMS,
        "silu_and_mul_kernel": ACT,
        ARGMAX: {"sampling"},
    },
    ("pytorch-eager", "{}"): {
        NVJET: LINEARS,
        GEMV: LINEARS,
        ADD: {"attention_residual", "mlp_residual", "rope", "sampling"},
        ADD_EPS: {"input_norm", "post_attention_norm", "final_norm", "rope", "sampling"},
        MEAN: {"input_norm", "post_attention_norm", "final_norm"},
        RSQRT: {"input_norm", "post_attention_norm", "final_norm", "sampling"},
        SILU: {"act", "sampling"},
        MUL: {"input_norm", "post_attention_norm", "final_norm", "rope", "act_mul", "sampling"},
        CAT: {"rope", "kv_cache_write"},
        "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>": ATTENTION,
        ARGMAX: {"sampling"},
        "aten::mm": LINEARS,
        "aten::addmm": LINEARS,
        "aten::_scaled_dot_product_flash_attention_for_cpu": ATTENTION,
        "aten::rms_norm": {"input_norm", "post_attention_norm", "final_norm"},
        "aten::embedding": {"embed_tokens"},
        "aten::silu": {"act"},
        "aten::index_copy_": {"kv_cache_write"},
        "aten::argmax": {"sampling"},
    },
    ("pytorch-compiled", "{}"): {
        NVJET: LINEARS,
        "triton_tem_fused_mm_4": LINEARS,
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0": NORMS,
        "triton_poi_fused_mul_silu_8": ACT,
        "triton_poi_fused_add_cat_mul_2": {"rope", "select_last"},
        "triton_poi_fused_index_put_3": {"kv_cache_write", "rope", "select_last"},
        "graph_0_cpp_fused_add_mean_mul_pow_rsqrt_1": NORMS,
        "graph_0_cpp_fused_mul_silu_2": ACT,
        "mkl::_mkl_linear": LINEARS,
        ARGMAX: {"sampling"},
    },
}


@cache
def kernels(backend: str, flags: str):
    text = f"""
model: llama-3.1-8b-instruct
gpu: h100-sxm
backend: {{name: {backend}, flags: {flags}}}
step: {{decode: {{batch: 8, context: 1100}}}}
"""
    return assemble(ask(load_text(text, "deploy.yaml"), Catalog.standard())).kernels


CASES = [(*engine, name) for engine, names in FOUND.items() for name in names]


@pytest.mark.parametrize(("backend", "flags", "name"), CASES)
def test_a_name_of_a_trace_is_of_the_right_kernels(backend, flags, name):
    """Every kernel it may be of holds one of the nodes meant, and those have no other kernel."""
    rows = kernels(backend, flags)
    found = FittingNames([name], rows).kernels(0)
    wanted = FOUND[backend, flags][name]
    assert found
    for kernel in found:
        assert set(rows[kernel].nodes) & wanted, (rows[kernel].nodes, name)
    may_be = {node for kernel in found for node in rows[kernel].nodes}
    assert wanted <= may_be, f"{name} is not found for {wanted - may_be}"


@pytest.mark.parametrize(("backend", "flags"), FOUND)
def test_every_kernel_of_a_planned_step_can_be_found(backend, flags):
    """Each that is launched has a pattern; that they compile, their specs have checked."""
    assert not [
        row.name for row in kernels(backend, flags) if row.launches and not row.profile_patterns
    ]


def test_a_pattern_that_is_none_is_refused_where_it_stands():
    from planner.errors import SpecError

    with pytest.raises(SpecError, match=r"backend.yaml:.*is no regular expression"):
        load_text(
            "kind: backend\nkernels:\n  - {op: linear, engine_name: x, profile_patterns: ['(']}\n",
            "backend.yaml",
            "backend",
        )
