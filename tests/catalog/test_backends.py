"""The shipped engines: sourced, and every name in a condition, expression or pattern is real."""

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from planner.capture.sizes import expand
from planner.cost.engine import resolve
from planner.ops import OPERATORS
from planner.ops.types import Formats
from planner.spec.catalog import Catalog
from planner.spec.conditions import version_key
from planner.spec.expr import names_in
from planner.spec.load import load_text
from planner.spec.types import BackendSpec, GpuSpec, Spec

CATALOG = Catalog.standard()
GPUS = {spec.name: spec for spec in CATALOG.entries("gpu")}
BACKENDS = {spec.name: spec for spec in CATALOG.entries("backend")}

FACTS = {
    "version",
    "gpu",
    "vendor",
    "architecture",
    "capability",
    "memory_gib",
    "tensor",
    "pipeline",
    "expert",
}
FACTS |= {"data", "peer_to_peer", "weights", "matmul", "activations", "kv_cache", "step", "scales"}
FACTS |= {"experts", "top_k", "expert_shape", "context", "prefill_context", "speculates", "layer"}
FACTS |= {"verified", "drafts", "states"}
PARTS = {"attention.scores", "attention.mask", "attention.softmax", "attention.values"}
PARTS |= {"moe_dispatch", "moe_combine", "all_gather", "reduce_scatter"}
PARTS |= {f"context_{part}" for part in ("queries", "sums", "scale", "scatter", "merge")}
PARTS |= {"context_prefix", "context_prompts", "context_exchange", "context_combine"}
PARTS |= {
    f"{op}.{part}"
    for op in ("mla_prefill", "mla_decode", "mla_sparse")
    for part in ("scores", "mask", "softmax", "values")
}

KERNELS = """
ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)
void tensorrt_llm::kernels::helixAllToAllKernel
void tensorrt_llm::kernels::helix_postprocess_kernel
_correct_attn_cp_out_kernel
merge_attn_states_kernel
_causal_conv1d_fwd_kernel
_causal_conv1d_update_kernel
fused_recurrent_gated_delta_rule_fwd_kernel
fused_sigmoid_gating_delta_rule_update_kernel
chunk_local_cumsum_scalar_kernel
chunk_scaled_dot_kkt_fwd_kernel
chunk_gated_delta_rule_fwd_kernel_h_blockdim64
chunk_fwd_kernel_o
recompute_w_u_fwd_kernel
merge_16x16_to_64x64_inverse_kernel
l2norm_fwd_kernel
_selective_scan_update_kernel
selective_state_update
void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1, true, true>>
_chunk_cumsum_fwd_kernel
_chunk_state_fwd_kernel
_chunk_scan_fwd_kernel
_state_passing_fwd_kernel
_bmm_chunk_fwd_kernel
_layer_norm_fwd_1pass_kernel
rms_norm_gated_fwd_kernel
_linear_attn_decode_kernel
_fwd_diag_kernel
void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, c10::BFloat16 const*)
std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)
void vllm::fused_add_rms_norm_static_fp8_quant_kernel<c10::BFloat16, 0, c10::Float8_e4m3fn>
void vllm::rms_norm_static_fp8_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn, 16>
void vllm::rms_norm_dynamic_per_token_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn, false>
void vllm::rms_norm_per_block_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn, false, false, 128>
void vllm::act_and_mul_kernel<c10::BFloat16, __nv_bfloat162, &(c10::BFloat16 vllm::silu_kernel<c10::BFloat16>(c10::BFloat16 const&))>
void vllm::act_and_mul_quant_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<c10::BFloat16>), c10::Float8_e4m3fn>
void vllm::silu_and_mul_per_block_quant_kernel<c10::BFloat16, signed char, false, 64>
void vllm::silu_mul_cvt_fp16_to_fp4<__nv_bfloat16, false>(int, int, int, __nv_bfloat16 const*)
silu_and_mul_nvfp4_quant
void vllm::activation_kernel<c10::BFloat16, &(c10::BFloat16 vllm::gelu_new_kernel<c10::BFloat16>)>
void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)
void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>
void vllm::cvt_fp16_to_fp4_sf_major<__nv_bfloat16, false>(int, int, int, int, int, __nv_bfloat16 const*)
void vllm::scaled_fp8_quant_kernel_strided_dynamic<c10::BFloat16, c10::Float8_e4m3fn>
void vllm::static_scaled_int8_quant_kernel<c10::BFloat16, float>
void per_token_group_quant_8bit_kernel<c10::BFloat16, c10::Float8_e4m3fn, true, false>
void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)
multimem_all_reduce_kernel
void tensorrt_llm::kernels::fusedQKNormRopeKernel<c10::BFloat16, c10::BFloat16, 128, false>
void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(AllReduceFusionPattern)1, __nv_bfloat16, 8>
fused_qk_rope_reshape_and_cache_kernel
void vllm::paged_attention_v2_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128, (vllm::Fp8KVCacheDataType)0, false, 512>
fmha_cutlassF_bf16_aligned_64x128_rf_sm80
void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::bfloat16_t>>
void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4, false, false, cutlass::bfloat16_t>>
void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>
void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4, false, false, cutlass::bfloat16_t>>
cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x64x128_4x1x1_kernel0_0
void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>>
void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<128>>, 8, 256>>
kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at
fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP32VarSeqQ128Kv128PersistentContext
void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1, 128u>>
void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 2u, 8u, 16u, 1u>
void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u, 8u, 4u, float, __nv_bfloat16, int>
kernel_unified_attention
kernel_paged_attention_2d
reduce_segments
_fwd_kernel
_fwd_kernel_stage1
_fwd_grouped_kernel_stage1
_fwd_kernel_stage2
_fwd_grouped_kernel_stage2
void ck_tile::kentry<1, ck_tile::FmhaFwdKernel<fmha_fwd>>
paged_attention_ll4mi_QKV_mfma16_kernel
mha_batch_prefill_bf16_mask
fmha_v2_flash_attention_bf16_64_128_S_q_paged_kv_128_causal_tma_ws_sm90_kernel
kernel_mha
void tensorrt_llm::kernels::mmha::masked_multihead_attention_kernel<__nv_bfloat16, __nv_bfloat16, 128>
xqa_kernel_dt_bf16_d_128_beam_1_kvt_bf16_pagedKV_64_nqpkv_4_m_8_sm_90
void tensorrt_llm::kernels::applyBiasRopeUpdateKVCacheV2<__nv_bfloat16, __nv_bfloat16, 128, true, KVBlockArray, false>
void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 2, true>
void tensorrt_llm::kernels::twoShotAllReduceKernel<__nv_bfloat16, 2, true>
void tensorrt_llm::kernels::scaleMatrix<(tensorrt_llm::kernels::QuantizeMode)0, __nv_fp8_e4m3, __nv_bfloat16, float>
void tensorrt_llm::kernels::quantize_with_block_size<(tensorrt_llm::BlockScaleQuantizationType)0, __nv_bfloat16, 16>
void flashinfer::norm::fused_add_rms_norm_quant
silu_and_mul_kernel
void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>
void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>
void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheEnhancedHeadParallelismKernel<true, 128u, 8u, 16u, __nv_bfloat16>
void per_token_quant_fp8_kernel<c10::BFloat16, __nv_fp8_e4m3, 8, 16>
void per_tensor_quant_fp8_kernel<c10::BFloat16>
fused_softcap_kernel
nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT
ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn
void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4, false>
void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8>
void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>
void marlin::Marlin<nv_bfloat16, 1125899906909960l, 256, 1, 8, 8, false, 4, 8, false>
triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0
triton_poi_fused__to_copy_add_embedding_1
triton_poi_fused_index_copy_2
triton_poi_fused_index_put_3
triton_tem_fused_mm_4
triton_poi_fused_mul_silu_slice_1
triton_poi_fused_add_cat_index_select_mul_split_split_with_sizes_sub_unsqueeze_view_3
void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>
void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel(at::TensorIteratorBase&)>
void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>
void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda(at::TensorIteratorBase&)>
void at::native::vectorized_elementwise_kernel<4, at::native::launch_relu_kernel>
void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>
void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4>>
void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>
void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<at::native::OpaqueType<2u>, unsigned int, 4, 64, 64>
void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_put_kernel_impl>>
void at::native::index_copy_kernel_impl<at::native::OpaqueType<2>>
void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<float>, std::array<char*, 2ul>>
void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>>
void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float>>>>
void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4>>
void flash::prepare_varlen_num_blocks_kernel<1, true>(int, int, int, int const*)
fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)
void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, (cub::BlockScanAlgorithm)2, 4u, true, float, int>
void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::DeviceRadixSortPolicy<float, long>>
void one_shot_all_reduce_kernel<c10::BFloat16, 16, 8, false>
ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 1>
Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1
void fused_add_rmsnorm_kernel<__nv_bfloat16, 4096>
void rmsnorm_kernel<__nv_bfloat16, 4096>
void store_cache_kernel<256, 1, long>
graph_0_cpp_fused_add_mean_mul_pow_rsqrt_1
graph_0_cpp_fused_mul_silu_2
graph_0_cpp_fused_embedding_0
graph_0_cpp_fused_index_put_0
mkl::_mkl_linear
aten::mm
aten::clone
aten::_scaled_dot_product_flash_attention_for_cpu
aten::rms_norm
aten::layer_norm
aten::mul
aten::add
aten::tanh
aten::pow
aten::cat
aten::copy_
aten::index_copy_
aten::index_select
aten::embedding
void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)
void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>
ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)
ncclKernel_AllReduce_RING_LL_Sum_half
ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
fused_moe_kernel
void vllm::moe::topkGating<4, 128, 4, 16, 32, int, __nv_bfloat16>
void vllm::moe::grouped_topk_fused_kernel<float, float, int, 8>
void vllm::moe::moe_align_block_size_kernel<int>(int const*, int*, int*, int*, int, int)
void vllm::moe::count_and_sort_expert_tokens_kernel<int>(int const*, int*, int*, unsigned long)
void vllm::moe::moe_sum_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16 const*, int)
void marlin_moe_wna16::Marlin<nv_bfloat16, 1125899906909960l, 256, 1, 8, 8, false, 4, 8, false>
_matmul_ogs_NNT_bf16xbf16xmxfp4_32x256x128x1_swiglu
_topk_forward
_combined_routing_compute
void moe::dev::routing::routingRenormalize::routingIndicesClusterKernel<KernelParams<float, int>>
bmm_Bfloat16_E2m1Bfloat16_Fp32_t128x8x512_s6_et128x8_m128x8x16_cga1x1x1_16dp256b_rM_TN_transOut_schedS_sm100f
void moe::dev::finalize::finalizeKernel<KernelParams<cutlass::bfloat16_t>>
void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16, __nv_bfloat16>
void tensorrt_llm::kernels::cutlass_kernels::doActivationKernel<__nv_bfloat16, __nv_bfloat16>
void tensorrt_llm::kernels::cutlass_kernels::finalizeMoeRoutingKernel<__nv_bfloat16, __nv_bfloat16>
void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int>>>>
void deep_gemm::sm90_fp8_gemm_1d2d_impl<4096u, 7168u, 1u, 128u, 128u, 128u>
void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, void*, int*, long*, int*)
void deep_ep::internode_ll::combine<false, 7168, 11>(void*, void*, int*, void*, void const*)
void router_gemm_kernel_float_output<__nv_bfloat16, 128, 8, 8, 256, 7168>
void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>
void at::native::bitonicSortKVInPlace<2, -1, 16, 16, long, long, unsigned int>
aten::topk
aten::_grouped_mm
aten::sort
""".strip().splitlines()
"""Kernel names: of vLLM, FlashAttention and FlashInfer as their wheels hold them, others recalled."""

KERNELS += """
void sm90::decode::flash_fwd_splitkv_mla_kernel<sm90::decode::dense::Traits<cutlass::bfloat16_t>>
void sm100::decode::head64::flash_fwd_splitkv_mla_fp8_sparse_kernel<sm100::decode::head64::KernelTemplate<(ModelType)0>>
void sm90::fwd::sparse_attn_fwd_kernel<sm90::fwd::KernelTemplate<576, false>>
void flash_fwd_mla_combine_kernel<cutlass::bfloat16_t, 512, 8, 32, 128>
get_mla_metadata_kernel(GetDecodingMetadataParams)
void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1, 128u>>
void flashinfer::mla::BatchMLAPagedAttentionKernel<flashinfer::mla::KernelTraits<true, 2u>>
fmhaSm100fKernel_QkvBfloat16OBfloat16HQk576HV512PagedKvDenseP64VarSeqQ8Kv128PersistentSwapsAbForGen
void cutlass::device_kernel<cutlass::fmha::kernel::Sm100FmhaMlaKernelTmaWarpspecialized<cute::tuple<cute::C<128>>>>
void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>
void vllm::concat_and_cache_ds_mla_kernel<__nv_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>
void vllm::indexer_k_quant_and_cache_kernel<__nv_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>
void vllm::topKPerRowDecode<512, false>
concat_mla_k_kernel(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, int, int, int, int, int, int)
set_mla_kv_buffer_kernel
_set_k_and_s_triton_kernel
fused_store_indexer_cache
topk_transform_decode_kernel(FastTopKParams, int*, int const*)
void deep_gemm::sm90_fp8_paged_mqa_logits<1u, 64u, 128u, 64u, false>
void tensorrt_llm::kernels::applyMLARopeAndAssignQKVKernelGeneration<__nv_bfloat16, 256, 512, 64, tensorrt_llm::kernels::KVBlockArray>
tensorrt_llm::kernels::indexerKCacheScatterUnifiedKernel
void tensorrt_llm::kernels::heuristicTopKMultiRowKernel<2048>
aiter::mla_dec_stage1_bf16_a16w16_subQ16_mqa16
mla_a8w8_qh16_qseqlen1_gqaratio16
""".strip().splitlines()
"""Those of latent attention, as public traces and sources of the engines name them."""


def backend(name: str) -> BackendSpec:
    spec = BACKENDS[name]
    assert isinstance(spec, BackendSpec)
    return spec


def gpu(name: str) -> GpuSpec:
    spec = GPUS[name]
    assert isinstance(spec, GpuSpec)
    return spec


def inside(value: object) -> Iterator[Spec]:
    """Every spec within a spec, itself included."""
    if isinstance(value, Spec):
        yield value
        for name in type(value).model_fields:
            yield from inside(getattr(value, name))
    elif isinstance(value, tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from inside(each)


@pytest.fixture(params=sorted(BACKENDS))
def spec(request) -> BackendSpec:
    """One shipped engine after the other."""
    return backend(request.param)


def test_five_engines_ship():
    """The engines the planner describes."""
    names = ["pytorch-compiled", "pytorch-eager", "sglang", "tensorrt-llm", "vllm"]
    assert sorted(BACKENDS) == names


def test_the_file_is_named_after_the_engine(spec):
    """Names find files."""
    assert BACKENDS[spec.name] is spec


def test_versions_stand_oldest_first(spec):
    """As the schema asks."""
    assert all(version_key(a) < version_key(b) for a, b in pairwise(spec.versions))


def test_every_rule_says_where_it_was_read(spec):
    """A source opens with a key of `sources`, an address, or says that it is recalled."""
    for rule in spec.fusions:
        head = re.split(r"[ :]", rule.source)[0]
        assert head in {*spec.sources, "recalled", "https"}, (rule.name, rule.source)


def test_every_figure_has_a_source_or_a_note(spec):
    """Durations, memory and defaults alike."""
    parts = (spec.host, spec.memory, *((spec.serving,) if spec.serving else ()))
    figures = [each for part in parts for each in inside(part)]
    figures += [choice for flag in spec.flags.values() for choice in flag.default]
    for figure in figures:
        if "value" in type(figure).model_fields:
            assert figure.source or figure.note, figure


def test_conditions_ask_only_for_facts_and_flags_that_exist(spec):
    """A misspelt fact would silently never hold."""
    known = FACTS | {f"flag.{name}" for name in spec.flags}
    for each in inside(spec):
        unknown = set(getattr(each, "when", {})) - known
        assert not unknown, (each, unknown)


def test_conditions_name_values_that_flags_and_gpus_can_have(spec):
    """A value outside a text flag's choices, or a GPU not in the catalogue, never holds."""
    for each in inside(spec):
        for name, wanted in getattr(each, "when", {}).items():
            values = wanted if isinstance(wanted, tuple) else (wanted,)
            flag = spec.flags.get(name.removeprefix("flag."))
            if flag and name.startswith("flag.") and flag.type == "str":
                assert set(values) <= set(flag.choices), (name, values)
            if name == "gpu":
                assert set(values) <= set(GPUS), values


def test_the_last_choice_of_everything_has_no_condition(spec):
    """So that some choice always holds."""
    lists = [flag.default for flag in spec.flags.values()]
    lists += [spec.capture.modes, spec.host.launch, spec.host.replay, spec.host.kernel]
    lists += [spec.host.graph_node, spec.capture.pads]
    memory = spec.memory
    lists += [memory.utilization, memory.runtime, memory.graphs, memory.graphs_inside]
    if spec.serving:
        parts = [getattr(spec.serving, name) for name in type(spec.serving).model_fields]
        lists += [
            part for part in parts if isinstance(part, tuple) and part
        ]  # some may be left out
        host = spec.serving.host
        lists += [found for name in type(host).model_fields if (found := getattr(host, name))]
    for choices in lists:
        assert not choices[-1].when, choices


def test_defaults_are_among_the_choices_of_a_text_flag(spec):
    """What the engine does by itself can be asked for."""
    for name, flag in spec.flags.items():
        if flag.type == "str":
            assert {choice.value for choice in flag.default} <= set(flag.choices), name


def test_patterns_and_kernels_name_operators_that_exist(spec):
    """Operators of the registry, or parts of attention."""
    known = {*OPERATORS.names(), *PARTS}
    for each in inside(spec):
        ops = getattr(each, "op", ())
        assert {ops} <= known if isinstance(ops, str) else set(ops) <= known, ops


def test_a_slot_is_tied_to_an_earlier_one(spec):
    """Only the first stands free, so that a pattern is connected."""
    for rule in spec.fusions:
        seen: set[str] = set()
        for slot in rule.pattern:
            tie = slot.reads or slot.feeds or slot.beside
            assert (tie in seen) if seen else tie is None, (rule.name, slot.slot)
            seen.add(slot.slot)
        assert {limit.slot for limit in rule.limits} <= seen


def test_a_rule_is_a_pattern_or_classes(spec):
    """One of the two, and names are unique."""
    assert all(bool(rule.pattern) != bool(rule.classes) for rule in spec.fusions)
    names = [rule.name for rule in spec.fusions]
    assert len(names) == len(set(names))


def test_every_profile_pattern_finds_a_kernel(spec):
    """Each is a regular expression that matches at least one known kernel name."""
    for each in inside(spec):
        for pattern in getattr(each, "profile_patterns", ()):
            assert any(re.search(pattern, name) for name in KERNELS), pattern


def test_every_kernel_listed_here_is_found_by_some_engine():
    """The list holds nothing idle."""
    patterns = {
        pattern
        for spec in BACKENDS.values()
        for each in inside(spec)
        for pattern in getattr(each, "profile_patterns", ())
    }
    for name in KERNELS:
        assert any(re.search(pattern, name) for pattern in patterns), name


def test_places_for_states_count_with_flags_and_what_is_made_known(spec):
    states, made = spec.memory.states, {"rest_bytes", "state_bytes", "slots", "each", "verified"}
    known = {name for name, flag in spec.flags.items() if flag.type in {"int", "float"}} | made
    for choice in (*states.slots, *states.each, *states.drafted) if states else ():
        if isinstance(choice.value, str):
            assert names_in(choice.value) <= known


def test_expressions_count_with_whole_number_flags(spec):
    """Names in caps, ranges, extras and the profile step."""
    known = {name for name, flag in spec.flags.items() if flag.type == "int"} | {"cap", "verified"}
    for rule in spec.capture.sizes:
        used = [rule.cap, rule.full_cap or 1, *rule.extra]
        used += [end for span in rule.ranges for end in (span.first, span.last)]
        assert set().union(*map(names_in, used)) <= known
    for choice in (*spec.memory.profile_tokens, *spec.memory.profile_sequences):
        if isinstance(choice.value, str):
            assert names_in(choice.value) <= known
    memory = spec.memory
    for choice in (*memory.utilization, *memory.kv_blocks):
        if isinstance(choice.value, str):
            assert names_in(choice.value) <= known | {"tensor", "memory_mib"}
    serving = spec.serving
    for choice in (*serving.tokens, *serving.sequences, *serving.decode_steps) if serving else ():
        if isinstance(choice.value, str):
            assert names_in(choice.value) <= known | {"longest", "pool_tokens"}
    for lever in memory.levers:
        assert isinstance(lever.to, bool) or names_in(lever.to) <= known
        assert lever.flag in spec.flags
    assert memory.longest is None or memory.longest in spec.flags


@pytest.mark.parametrize("device", ["rtx-4090", "h100-sxm", "b200-sxm", "mi300x", "t4"])
@pytest.mark.parametrize("step", ["decode", "prefill", "mixed", "shapes"])
def test_sizes_expand_under_the_defaults_of_every_version(spec, device, step):
    """Every size rule that holds gives a non-empty list."""
    formats = Formats("bf16", "bf16", "bf16", "bf16")
    for version in spec.versions:
        text = f"model: m\ngpu: {device}\nbackend: {{name: {spec.name}, version: '{version}'}}\n"
        deployment = load_text(text + "step: {decode: {batch: 1, context: 8}}", "d", "deployment")
        engine = resolve(deployment, spec, gpu(device), formats, step)
        for rule in spec.capture.sizes:
            by_hand = {"max_cudagraph_capture_size": 512, "piecewise_cuda_graph_max_tokens": 4096}
            assert expand(rule, {**engine.whole_flags, **by_hand})
