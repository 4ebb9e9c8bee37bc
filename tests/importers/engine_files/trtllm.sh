#!/bin/bash
# options of trtllm-serve stand in a file that the script writes
MODEL=deepseek-ai/DeepSeek-R1
EXTRA=/tmp/extra-llm-api-config.yml
cat << EOF > ${EXTRA}
enable_attention_dp: true
kv_cache_config:
    dtype: fp8
    free_gpu_memory_fraction: 0.8
cuda_graph_config:
    enable_padding: true
    max_batch_size: 256
stream_interval: 10
print_iter_log: true
EOF

mpirun -n 8 --allow-run-as-root trtllm-llmapi-launch \
    trtllm-serve ${MODEL} --host localhost --port 8000 --max_batch_size 256 \
    --max_num_tokens 8192 --tp_size 8 --ep_size 8 --extra_llm_api_options ${EXTRA}
