#!/usr/bin/env bash
# Serves Llama 3.1 70B on one node.  vllm serve nothing --tensor-parallel-size 99
set -euo pipefail

export HF_HOME=/data/hf
export VLLM_ATTENTION_BACKEND=FLASHINFER
export VLLM_LOGGING_LEVEL=INFO
MODEL=${MODEL:-meta-llama/Llama-3.1-70B-Instruct}
TP="${TP:-4}"

pip install -q "vllm==0.19.0"

cat > client.yaml <<'EOF'
command: vllm serve heredoc/model --tensor-parallel-size 7
EOF

COMMON=(
  --gpu-memory-utilization 0.92
  --max-model-len 32k      # 32,000 tokens
)
COMMON+=(--max-num-seqs=128)
LOGGING="--disable-log-requests --uvicorn-log-level warning"

if [ "${EAGER:-0}" = "1" ]; then
  COMMON+=(--swap-space 4)
fi

exec numactl --interleave=all \
  vllm serve "$MODEL" \
    -tp "$TP" "${COMMON[@]}" $LOGGING \
    --kv_cache_dtype fp8 \
    --compilation-config '{"cudagraph_mode": "FULL_DECODE_ONLY",
                           "pass_config": {"fuse_allreduce_rms": false}}' \
    --enable-chunked-prefill \
    --served-model-name "llama 70b" \
    --frobnicate 3 2>&1 | tee serve.log
