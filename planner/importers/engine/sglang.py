"""SGLang's command line: `python -m sglang.launch_server` and its benchmarks.

Source: SGLang 0.5.6 `srt/server_args.py`.
"""

from __future__ import annotations

from planner.importers.engine.precision import cache, method, wide
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
        "sglang",
        dict(
            (
                *options(
                    {
                        "model-path|model": Field("model", str),
                        "tensor-parallel-size|tp-size|tp": Field("parallel.tensor", size),
                        "pipeline-parallel-size|pp-size|pp": Field("parallel.pipeline", size),
                        "data-parallel-size|dp-size|dp": Field("parallel.data", size),
                        "nnodes": Field("nodes", size),
                        "expert-parallel-size|ep-size|ep": Field("parallel.expert", size),
                        "decode-context-parallel-size|dcp-size": Field("parallel.context", size),
                        "dtype": Field("dtype", wide),
                        "quantization": Field("quantization", method),
                        "kv-cache-dtype": Field("precision.kv_cache", cache),
                        "mem-fraction-static": Field("memory.utilization", share),
                        "input-len": Field("workload.input", size),
                        "output-len": Field("workload.output", size),
                        "batch-size|batch": Field("workload.batch", size),
                        "served-model-name": Field("name", str),
                    }
                ),
                *options({"config": Included()}),
                *options({"enable-dp-attention": Field("attention_dp", truth)}, "switch"),
                *unmodelled(
                    "say it by `speculation`; its acceptance stands in no command line",
                    "speculative-algorithm|speculative-algo speculative-num-steps "
                    "speculative-eagle-topk speculative-num-draft-tokens "
                    "speculative-draft-model-path|speculative-draft-model "
                    "speculative-attention-mode speculative-token-map",
                ),
                *unmodelled("adapters are not planned", "lora-paths max-loras-per-batch", "many"),
                *unmodelled(
                    "what it changes in a step is not described",
                    "context-length max-total-tokens page-size "
                    "prefill-attention-backend decode-attention-backend mm-attention-backend "
                    "sampling-backend fp8-gemm-backend fp4-gemm-backend moe-a2a-backend "
                    "moe-runner-backend deepep-mode ep-num-redundant-experts cpu-offload-gb "
                    "torch-compile-max-bs schedule-conservativeness "
                    "json-model-override-args disaggregation-mode disaggregation-ib-device "
                    "disaggregation-transfer-backend hicache-ratio hicache-size "
                    "hicache-write-policy load-format moe-dense-tp-size nsa-prefill-backend "
                    "nsa-decode-backend kv-canary attention-context-parallel-size "
                    "prefill-max-requests nccl-port-range",
                ),
                *unmodelled(
                    "what it changes in a step is not described",
                    "cuda-graph-bs piecewise-cuda-graph-tokens",
                    "many",
                ),
                *unmodelled(
                    "what it changes in a step is not described",
                    "disable-custom-all-reduce enable-mscclpp enable-nccl-nvls enable-symm-mem "
                    "enable-two-batch-overlap enable-single-batch-overlap "
                    "enable-dp-lm-head enable-eplb "
                    "enable-hierarchical-cache disable-chunked-prefix-cache "
                    "disable-shared-experts-fusion enable-torch-symm-mem enable-lora",
                    "switch",
                ),
                *silent(
                    "host port api-key chat-template tokenizer-path tokenizer-mode "
                    "tool-call-parser reasoning-parser random-seed log-level log-level-http "
                    "download-dir revision schedule-policy dist-init-addr|nccl-init-addr "
                    "node-rank watchdog-timeout dist-timeout stream-interval base-gpu-id "
                    "gpu-id-step device file-storage-path decode-log-interval "
                    "constrained-decoding-backend|grammar-backend load-balance-method "
                    "tokenizer-worker-num crash-dump-folder served-model completion-template "
                    "run-name result-filename num-prompts dataset-name dataset-path "
                    "preferred-sampling-params bucket-time-to-first-token mm-process-config"
                ),
                *silent(
                    "trust-remote-code skip-tokenizer-init log-requests show-time-cost "
                    "enable-metrics enable-cache-report skip-server-warmup enable-multimodal "
                    "delete-ckpt-after-loading enable-p2p-check enable-memory-saver is-embedding "
                    "allow-auto-truncate enable-custom-logit-processor sleep-on-idle profile "
                    "enable-request-time-stats-logging disable-outlines-disk-cache "
                    "weight-loader-disable-mmap correct correctness-test",
                    "switch",
                ),
            )
        ),
        {},
        ("SGLANG_", "SGL_"),
        ("python", "-m", "sglang.launch_server", "--model-path"),
        "sglang",
        spreads="start it on each, with its --node-rank and one --dist-init-addr",
        fp8_cache="fp8_e4m3",
    )
)
