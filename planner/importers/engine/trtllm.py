"""TensorRT-LLM's command line: `trtllm-serve`.

Source: TensorRT-LLM 1.2 `tensorrt_llm/commands/serve.py`.
"""

from __future__ import annotations

from planner.importers.engine.precision import cache
from planner.importers.engine.table import (
    Field,
    Line,
    options,
    register,
    share,
    silent,
    unmodelled,
    whole,
)

register(
    Line(
        "tensorrt-llm",
        dict(
            (
                *options(
                    {
                        "model": Field("model", str),
                        "tp-size|tensor-parallel-size": Field("parallel.tensor", whole),
                        "pp-size|pipeline-parallel-size": Field("parallel.pipeline", whole),
                        "ep-size|moe-expert-parallel-size": Field("parallel.expert", whole),
                        "kv-cache-free-gpu-memory-fraction|free-gpu-memory-fraction": Field(
                            "memory.utilization", share
                        ),
                        "kv-cache-dtype": Field("precision.kv_cache", cache),
                        "served-model-name": Field("name", str),
                    }
                ),
                *unmodelled(
                    "the options in that file are not read; give them as flags of the deployment",
                    "extra-llm-api-options config",
                ),
                *unmodelled(
                    "what it changes in a step is not described",
                    "max-seq-len max-beam-width cluster-size|moe-cluster-parallel-size "
                    "video-pruning-rate",
                ),
                *unmodelled(
                    "as Helix it is parallel.context, with parallel.tensor of both sizes' product",
                    "cp-size context-parallel-size",
                ),
                *unmodelled(
                    "what it changes in a step is not described",
                    "enable-attention-dp fail-fast-on-attention-window-too-large",
                    "switch",
                ),
                *silent(
                    "host port tokenizer log-level backend gpus-per-node num-postprocess-workers "
                    "reasoning-parser tool-parser metadata-server-config-file server-role revision "
                    "disagg-cluster-uri custom-module-dirs chat-template otlp-traces-endpoint "
                    "media-io-kwargs custom-tokenizer"
                ),
                *silent("trust-remote-code enable-chunked-context", "switch"),
            )
        ),
        {},
        ("TRTLLM_", "TLLM_"),
        ("trtllm-serve",),
        "tensorrt_llm",
        joint="_",
        spreads="start it under mpirun or srun, a task a GPU, with trtllm-llmapi-launch in front",
    )
)
