"""vLLM's command line: `vllm serve`, the API server's module, `vllm bench`.

Source: vLLM 0.10 to 0.26, `engine/arg_utils.py` and `entrypoints/openai/cli_args.py`.
"""

from __future__ import annotations

from planner.importers.engine.custom_ops import custom_ops
from planner.importers.engine.items import no_items
from planner.importers.engine.precision import cache, method, wide
from planner.importers.engine.table import (
    Field,
    Included,
    Line,
    Nested,
    Turns,
    options,
    register,
    share,
    silent,
    size,
    truth,
    unmodelled,
)

register(
    Line(
        "vllm",
        dict(
            (
                *options(
                    {
                        "model": Field("model", str),
                        "tensor-parallel-size|tp": Field("parallel.tensor", size),
                        "pipeline-parallel-size|pp": Field("parallel.pipeline", size),
                        "data-parallel-size|dp": Field("parallel.data", size),
                        "data-parallel-size-local|dpl": Field("local_data", size),
                        "nnodes|n": Field("nodes", size),
                        "decode-context-parallel-size|dcp": Field("parallel.context", size),
                        "prefill-context-parallel-size|pcp": Field(
                            "parallel.prefill_context", size
                        ),
                        "dtype": Field("dtype", wide),
                        "quantization|q": Field("quantization", method),
                        "kv-cache-dtype": Field("precision.kv_cache", cache),
                        "gpu-memory-utilization": Field("memory.utilization", share),
                        "input-len": Field("workload.input", size),
                        "output-len": Field("workload.output", size),
                        "batch-size": Field("workload.batch", size),
                        "compilation-config|O|cc": Nested(),
                        "limit-mm-per-prompt": Turns("language_model_only", no_items),
                        "compilation-config.custom-ops|compilation-config.custom-ops+": Turns(
                            "custom_ops", custom_ops
                        ),
                        # what passes were called until 0.12
                        "compilation-config.pass-config.enable-fi-allreduce-fusion": Turns(
                            "fuse_allreduce_rms", truth
                        ),
                        "compilation-config.pass-config.enable-attn-fusion": Turns(
                            "fuse_attn_quant", truth
                        ),
                        "config": Included(),
                    }
                ),
                *options({"served-model-name": Field("name", str)}, "many"),
                *options({"enable-expert-parallel|ep": Field("expert_parallel", truth)}, "switch"),
                *unmodelled(
                    "say it by `speculation`; its acceptance stands in no command line",
                    "speculative-config spec-config speculative-model num-speculative-tokens",
                ),
                *unmodelled(
                    "weights or cache outside of the GPU are not planned",
                    "cpu-offload-gb kv-transfer-config kv-offloading-size kv-offloading-backend",
                ),
                *unmodelled(
                    "adapters are not planned",
                    "max-loras max-lora-rank max-cpu-loras lora-dtype lora-extra-vocab-size",
                ),
                *unmodelled("adapters are not planned", "lora-modules", "many"),
                *unmodelled(
                    "adapters are not planned", "enable-lora fully-sharded-loras", "switch"
                ),
                *unmodelled(
                    "what it changes in a step is not described",
                    "hf-overrides rope-scaling rope-theta "
                    "dcp-comm-backend num-gpu-blocks-override "
                    "kv-cache-memory-bytes max-num-partial-prefills long-prefill-token-threshold "
                    "all2all-backend|all-to-all-backend moe-backend "
                    "block-size max-seq-len-to-capture "
                    "cudagraph-capture-sizes "
                    "optimization-level speculative-draft-tensor-parallel-size "
                    "mm-encoder-tp-mode eplb-config additional-config attention-config "
                    "kernel-config load-format",
                ),
                *unmodelled(
                    "what it changes in a step is not described",
                    "calculate-kv-scales enable-dbo enable-eplb "
                    "disable-custom-all-reduce "
                    "disable-cascade-attn disable-sliding-window "
                    "enable-elastic-ep disable-hybrid-kv-cache-manager",
                    "switch",
                ),
                *silent(
                    "host port api-key uvicorn-log-level ssl-keyfile ssl-certfile root-path "
                    "chat-template response-role tool-call-parser tool-parser-plugin "
                    "reasoning-parser tokenizer tokenizer-mode tokenizer-revision revision "
                    "code-revision hf-config-path hf-token download-dir model-loader-extra-config "
                    "seed max-log-len max-logprobs distributed-executor-backend swap-space "
                    "cp-kv-cache-interleave-size dcp-kv-cache-interleave-size "
                    "data-parallel-address data-parallel-rpc-port data-parallel-start-rank "
                    "data-parallel-backend data-parallel-rank|dpn "
                    "api-server-count|asc node-rank|r "
                    "master-addr master-port generation-config override-generation-config "
                    "guided-decoding-backend structured-outputs-config "
                    "chat-template-content-format "
                    "otlp-traces-endpoint allowed-local-media-path task runner convert "
                    "scheduling-policy mm-processor-kwargs logits-processors "
                    "log-config-file device worker-cls uds default-chat-template-kwargs "
                    "num-iters num-iters-warmup num-prompts dataset-name dataset-path output-json "
                    "mm-processor-cache-gb kv-events-config profiler-config backend n "
                    "max-parallel-loading-workers "
                    "collect-detailed-traces show-hidden-metrics-for-version ssl-ca-certs "
                    "ssl-cert-reqs "
                    "ignore-patterns pt-load-map-location numa-bind-nodes numa-bind-cpus"
                ),
                *silent(
                    "compilation-config.pass-config.enable-noop "
                    "compilation-config.pass-config.eliminate-noops"
                ),
                *silent("allowed-origins allowed-methods allowed-headers middleware", "many"),
                *silent(
                    "trust-remote-code enable-auto-tool-choice disable-log-requests "
                    "disable-log-stats enable-log-requests disable-uvicorn-access-log headless "
                    "enable-reasoning enable-request-id-headers enable-server-load-tracking "
                    "return-tokens-as-token-ids disable-frontend-multiprocessing "
                    "enable-prompt-tokens-details enable-sleep-mode skip-tokenizer-init "
                    "data-parallel-external-lb|dpe data-parallel-hybrid-lb|dph numa-bind "
                    "enable-prompt-embeds disable-fastapi-docs "
                    "enable-log-outputs enable-tokenizer-info-endpoint trust-request-chat-template "
                    "disable-mm-preprocessor-cache ray-workers-use-nsight use-v2-block-manager "
                    "disable-detokenize profile enable-force-include-usage enable-ssl-refresh",
                    "switch",
                ),
            )
        ),
        {"VLLM_ATTENTION_BACKEND": "attention-backend"},
        ("VLLM_",),
        ("vllm", "serve"),
        "vllm",
        negates=True,
        spreads="start it on each, with --node-rank and --master-addr of its own, of replicas "
        "--data-parallel-start-rank and --data-parallel-address, and --headless on all but the "
        "first",
        replicas_cut_experts=True,  # docs.vllm.ai serving/data_parallel_deployment: DP × TP groups
    )
)
