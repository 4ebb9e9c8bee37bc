"""TensorRT-LLM's command line: `trtllm-serve`.

Source: TensorRT-LLM 1.2 `tensorrt_llm/commands/serve.py`; names in a file of options are the fields
of `TorchLlmArgs`, `tensorrt_llm/llmapi/llm_args.py`.
"""

from __future__ import annotations

from planner.importers.engine.precision import cache
from planner.importers.engine.table import (
    Field,
    Included,
    Line,
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
        "tensorrt-llm",
        dict(
            (
                *options(
                    {
                        "model": Field("model", str),
                        "tp-size|tensor-parallel-size": Field("parallel.tensor", size),
                        "pp-size|pipeline-parallel-size": Field("parallel.pipeline", size),
                        "ep-size|moe-expert-parallel-size": Field("parallel.expert", size),
                        "kv-cache-free-gpu-memory-fraction|free-gpu-memory-fraction|"
                        "kv-cache-config.free-gpu-memory-fraction": Field(
                            "memory.utilization", share
                        ),
                        "kv-cache-dtype|kv-cache-config.dtype": Field("precision.kv_cache", cache),
                        "served-model-name": Field("name", str),
                    }
                ),
                *options({"extra-llm-api-options|config": Included()}),
                *options({"enable-attention-dp": Field("attention_dp", truth)}, "switch"),
                *unmodelled(
                    "say it by `speculation`; its acceptance stands in no command line",
                    "speculative-config",
                ),
                *unmodelled("adapters are not planned", "lora-config"),
                *unmodelled(
                    "weights or cache outside of the GPU are not planned",
                    "kv-cache-config.host-cache-size cache-transceiver-config kv-connector-config",
                ),
                *unmodelled(
                    "what it changes in a step is not described",
                    "max-seq-len max-beam-width cluster-size|moe-cluster-parallel-size "
                    "video-pruning-rate attn-backend allreduce-strategy torch-compile-config "
                    "quant-config sparse-attention-config attention-dp-config "
                    "kv-cache-config.max-tokens kv-cache-config.tokens-per-block "
                    "kv-cache-config.max-attention-window kv-cache-config.sink-token-length "
                    "kv-cache-config.mamba-ssm-cache-dtype kv-cache-config.max-gpu-total-bytes "
                    "cuda-graph-config.batch-sizes moe-config.max-num-tokens "
                    "moe-config.load-balancer moe-config.use-low-precision-moe-combine "
                    "max-input-len dtype load-format batching-type moe-tensor-parallel-size "
                    "enable-min-latency enable-layerwise-nvtx-marker "
                    "scheduler-config.context-chunking-policy",
                ),
                *unmodelled(
                    "as Helix it is parallel.context, with parallel.tensor of both sizes' product",
                    "cp-size context-parallel-size",
                ),
                *unmodelled(
                    "what it changes in a step is not described",
                    "fail-fast-on-attention-window-too-large",
                    "switch",
                ),
                *silent(
                    "host port tokenizer log-level backend gpus-per-node num-postprocess-workers "
                    "reasoning-parser tool-parser metadata-server-config-file server-role revision "
                    "disagg-cluster-uri custom-module-dirs chat-template otlp-traces-endpoint "
                    "media-io-kwargs custom-tokenizer stream-interval iter-stats-max-iterations "
                    "request-stats-max-iterations guided-decoding-backend tokenizer-mode "
                    "tokenizer-revision post-processor-hook env-overrides hf-revision "
                    "kv-cache-config.event-buffer-max-size perf-metrics-max-requests"
                ),
                *silent(
                    "trust-remote-code enable-chunked-context print-iter-log "
                    "enable-iter-perf-stats enable-iter-req-stats skip-tokenizer-init "
                    "return-perf-metrics kv-cache-config.enable-partial-reuse "
                    "kv-cache-config.copy-on-partial-reuse",
                    "switch",
                ),
            )
        ),
        {},
        ("TRTLLM_", "TLLM_"),
        ("trtllm-serve",),
        "tensorrt_llm",
        joint="_",
        file_wins=True,  # recalled: commands/serve.py, update_llm_args_with_extra_dict
        attention_in_all=True,
        spreads="start it under mpirun or srun, a task a GPU, with trtllm-llmapi-launch in front",
    )
)
