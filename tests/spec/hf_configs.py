"""Configs of models in the catalogue, with the fields that their public config.json have.

Defaults of transformers' classes are left out where the public file leaves them out too.
"""

from __future__ import annotations

from typing import Any

BF16 = {"torch_dtype": "bfloat16", "use_cache": True, "transformers_version": "4.43.1"}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "mlp_bias": False,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 128000,
    **BF16,
}
LLAMA3 = {"factor": 8.0, "rope_type": "llama3", "original_max_position_embeddings": 8192}
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "use_sliding_window": False,
    **BF16,
}
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "attention_bias": False,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 40960,
    "rope_scaling": None,
    "sliding_window": None,
    "use_sliding_window": False,
    "vocab_size": 151936,
    **BF16,
}
GEMMA2 = {
    "architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2",
    "attention_bias": False,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "cache_implementation": "hybrid",
    "max_position_embeddings": 8192,
    "sliding_window": 4096,
    "vocab_size": 256000,
    **BF16,
}
MISTRAL = {
    "architectures": ["MistralForCausalLM"],
    "model_type": "mistral",
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    **BF16,
}
OPT = {
    "architectures": ["OPTForCausalLM"],
    "model_type": "opt",
    "_remove_final_layer_norm": False,
    "activation_function": "relu",
    "do_layer_norm_before": True,
    "max_position_embeddings": 2048,
    "torch_dtype": "float16",
    "vocab_size": 50272,
}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "n_ctx": 1024,
    "n_positions": 1024,
    "vocab_size": 50257,
    "summary_type": "cls_index",
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
}


def sized(base: dict[str, Any], sizes: tuple[int, ...], **more: Any) -> dict[str, Any]:
    """A config with hidden, intermediate, layers, heads, KV heads and vocabulary."""
    names = (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "vocab_size",
    )
    return {**base, **dict(zip(names, sizes, strict=False)), **more}


CONFIGS: dict[str, dict[str, Any]] = {
    "llama-2-7b": sized(
        LLAMA, (4096, 11008, 32, 32, 32, 32000), max_position_embeddings=4096, rope_scaling=None
    ),
    "llama-2-70b": sized(LLAMA, (8192, 28672, 80, 64, 8, 32000), max_position_embeddings=4096),
    "llama-3.1-8b-instruct": sized(
        LLAMA,
        (4096, 14336, 32, 32, 8, 128256),
        max_position_embeddings=131072,
        rope_scaling=LLAMA3,
        _name_or_path="meta-llama/Llama-3.1-8B-Instruct",
    ),
    "llama-3.2-1b-instruct": sized(
        LLAMA,
        (2048, 8192, 16, 32, 8, 128256),
        head_dim=64,
        max_position_embeddings=131072,
        rope_scaling={**LLAMA3, "factor": 32.0},
        tie_word_embeddings=True,
    ),
    "llama-3.1-405b-instruct": sized(
        LLAMA, (16384, 53248, 126, 128, 8, 128256), max_position_embeddings=131072
    ),
    "smollm2-135m": sized(
        LLAMA,
        (576, 1536, 30, 9, 3, 49152),
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        rope_interleaved=False,
    ),
    "yi-1.5-34b": sized(LLAMA, (7168, 20480, 60, 56, 8, 64000), max_position_embeddings=4096),
    "mistral-7b-v0.1": sized(
        MISTRAL, (4096, 14336, 32, 32, 8, 32000), max_position_embeddings=32768, sliding_window=4096
    ),
    "mistral-7b-v0.3": sized(
        MISTRAL, (4096, 14336, 32, 32, 8, 32768), max_position_embeddings=32768, sliding_window=None
    ),
    "mistral-nemo-12b": sized(
        MISTRAL,
        (5120, 14336, 40, 32, 8, 131072),
        head_dim=128,
        max_position_embeddings=1024000,
        sliding_window=None,
    ),
    "qwen2.5-0.5b-instruct": sized(
        QWEN2,
        (896, 4864, 24, 14, 2, 151936),
        max_window_layers=21,
        sliding_window=32768,
        tie_word_embeddings=True,
    ),
    "qwen2.5-7b-instruct": sized(
        QWEN2,
        (3584, 18944, 28, 28, 4, 152064),
        max_window_layers=28,
        sliding_window=131072,
        tie_word_embeddings=False,
    ),
    "qwen2.5-72b-instruct": sized(
        QWEN2, (8192, 29568, 80, 64, 8, 152064), max_window_layers=70, sliding_window=131072
    ),
    "qwen3-0.6b": sized(
        QWEN3, (1024, 3072, 28, 16, 8), max_window_layers=28, tie_word_embeddings=True
    ),
    "qwen3-8b": sized(QWEN3, (4096, 12288, 36, 32, 8), max_window_layers=36),
    "qwen3-32b": sized(QWEN3, (5120, 25600, 64, 64, 8), max_window_layers=64),
    "gemma-7b-it": sized(
        {
            "architectures": ["GemmaForCausalLM"],
            "model_type": "gemma",
            "hidden_act": "gelu",
            **BF16,
        },
        (3072, 24576, 28, 16, 16, 256000),
        attention_bias=False,
        head_dim=256,
        max_position_embeddings=8192,
    ),
    "command-r-v01": sized(
        {"architectures": ["CohereForCausalLM"], "model_type": "cohere", "torch_dtype": "float16"},
        (8192, 22528, 40, 64, 64, 256000),
        attention_bias=False,
        hidden_act="silu",
        layer_norm_eps=1e-05,
        logit_scale=0.0625,
        max_position_embeddings=8192,
        model_max_length=131072,
        use_qk_norm=False,
    ),
    "command-r7b": sized(
        {"architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2", **BF16},
        (4096, 14336, 32, 32, 8, 256000),
        attention_bias=False,
        head_dim=128,
        hidden_act="silu",
        layer_switch=4,
        logit_scale=0.25,
        max_position_embeddings=131072,
        order_of_interleaved_layers="local_attn_first",
        position_embedding_type="rope_gptj",
        rotary_pct=1.0,
        sliding_window=4096,
        sliding_window_pattern=4,
        use_embedding_sharing=True,
        use_gated_activation=True,
        use_parallel_block=True,
        use_parallel_embedding=True,
    ),
    "gemma-2-2b-it": sized(GEMMA2, (2304, 9216, 26, 8, 4), head_dim=256, query_pre_attn_scalar=256),
    "gemma-2-9b-it": sized(
        GEMMA2,
        (3584, 14336, 42, 16, 8),
        head_dim=256,
        query_pre_attn_scalar=256,
        sliding_window_size=4096,
    ),
    "gemma-3-1b-it": {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 1152,
        "intermediate_size": 6912,
        "max_position_embeddings": 32768,
        "num_attention_heads": 4,
        "num_hidden_layers": 26,
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 256,
        "rope_local_base_freq": 10000,
        "rope_scaling": None,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "vocab_size": 262144,
        **BF16,
    },
    "phi-3-mini-4k-instruct": sized(
        {**BF16, "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_act": "silu"},
        (3072, 8192, 32, 32, 32, 32064),
        max_position_embeddings=4096,
        original_max_position_embeddings=4096,
        sliding_window=2047,
        attention_bias=False,
        auto_map={"AutoConfig": "configuration_phi3.Phi3Config"},
    ),
    "phi-4": sized(
        {**BF16, "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_act": "silu"},
        (5120, 17920, 40, 40, 10, 100352),
        max_position_embeddings=16384,
        sliding_window=None,
    ),
    "phi-4-mini-instruct": sized(
        {**BF16, "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_act": "silu"},
        (3072, 8192, 32, 24, 8, 200064),
        max_position_embeddings=131072,
        partial_rotary_factor=0.75,
        sliding_window=262144,
        tie_word_embeddings=True,
        rope_scaling={"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]},
        full_attn_mod=1,
        interpolate_factor=1,
    ),
    "granite-3.1-8b-instruct": sized(
        {**LLAMA, "architectures": ["GraniteForCausalLM"], "model_type": "granite"},
        (4096, 12800, 40, 32, 8, 49155),
        attention_multiplier=0.0078125,
        embedding_multiplier=12.0,
        logits_scaling=16.0,
        residual_multiplier=0.22,
        max_position_embeddings=131072,
        tie_word_embeddings=True,
    ),
    "olmo-2-7b": sized(
        {"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "torch_dtype": "float32"},
        (4096, 11008, 32, 32, 32, 100352),
        attention_bias=False,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
    ),
    "starcoder2-3b": sized(
        {"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "use_bias": True},
        (3072, 12288, 30, 24, 2, 49152),
        hidden_act="gelu_pytorch_tanh",
        max_position_embeddings=16384,
        mlp_type="default",
        norm_type="layer_norm",
        sliding_window=4096,
    ),
    "gpt2": {**GPT2, "n_embd": 768, "n_head": 12, "n_layer": 12},
    "gpt2-xl": {**GPT2, "n_embd": 1600, "n_head": 25, "n_layer": 48},
    "opt-125m": {
        **OPT,
        "ffn_dim": 3072,
        "hidden_size": 768,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
        "word_embed_proj_dim": 768,
    },
    "opt-13b": {
        **OPT,
        "ffn_dim": 20480,
        "hidden_size": 5120,
        "num_attention_heads": 40,
        "num_hidden_layers": 40,
        "word_embed_proj_dim": 5120,
    },
    "falcon-7b": {
        "architectures": ["FalconForCausalLM"],
        "model_type": "falcon",
        "alibi": False,
        "bias": False,
        "hidden_size": 4544,
        "multi_query": True,
        "new_decoder_architecture": False,
        "num_attention_heads": 71,
        "num_hidden_layers": 32,
        "parallel_attn": True,
        "vocab_size": 65024,
        **BF16,
    },
    "falcon-40b": {
        "architectures": ["FalconForCausalLM"],
        "model_type": "falcon",
        "alibi": False,
        "bias": False,
        "hidden_size": 8192,
        "new_decoder_architecture": True,
        "num_attention_heads": 128,
        "num_hidden_layers": 60,
        "num_kv_heads": 8,
        "parallel_attn": True,
        "vocab_size": 65024,
        **BF16,
    },
}
"""By the catalogue's names."""
