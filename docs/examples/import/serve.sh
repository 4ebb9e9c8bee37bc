#!/bin/sh
export VLLM_ATTENTION_BACKEND=FLASHINFER
TP=${TP:-2}
pip install -q vllm==0.19.0
exec vllm serve Qwen/Qwen2.5-32B-Instruct \
  --tensor-parallel-size "$TP" \
  --kv-cache-dtype fp8 \
  --max-model-len 16k --max_num_seqs=64 \
  --compilation-config '{"cudagraph_mode": "FULL_DECODE_ONLY"}' \
  --enable-prefix-caching \
  --port 8000 --my-own-flag 3
