"""Models of the catalogue as they are served, and steps of them whose sizes the tables have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Formats: TypeAlias = Mapping[str, str]

FP8: Formats = {"weights": "fp8", "activations": "fp8"}
BLOCKS: Formats = {"weights": "fp8_block", "activations": "fp8"}
NVFP4: Formats = {"weights": "nvfp4", "activations": "nvfp4"}
INT4: Formats = {"weights": "int4"}
ROUTING = {"load": "power-law", "alpha": 1.01}
"""One of the loads that experts were measured under, the milder of the skewed ones."""
LOADS: Mapping[str, Mapping[str, Any]] = {
    "decode 1 × 4,096": {"decode": {"batch": 1, "context": 4096}},
    "decode 16 × 4,096": {"decode": {"batch": 16, "context": 4096}},
    "decode 128 × 2,048": {"decode": {"batch": 128, "context": 2048}},
    "prefill 1 × 2,048": {"prefill": {"batch": 1, "tokens": 2048}},
    "prefill 8 × 1,024": {"prefill": {"batch": 8, "tokens": 1024}},
}
"""Steps whose sizes the tables have."""


@dataclass(frozen=True)
class Case:
    """A model as it is served: formats and how it is split."""

    model: str
    formats: Formats = field(default_factory=dict)
    """Of the deployment; empty for the model's own."""
    tensor: int = 1
    expert: int = 1
    data: int = 1

    @property
    def words(self) -> str:
        """How tables call its formats and split."""
        weights = self.formats.get("weights", "as shipped")
        cache = ["KV " + self.formats["kv_cache"]] if "kv_cache" in self.formats else []
        ranks = {"TP": self.tensor, "EP": self.expert, "DP": self.data}
        parts = [f"{name}{count}" for name, count in ranks.items() if count > 1]
        return " ".join([weights, *cache, *parts])


CASES = (
    Case("deepseek-v3", tensor=8),
    Case("deepseek-v3", tensor=8, expert=8),
    Case("deepseek-v3", data=8, expert=8),
    Case("deepseek-v3", {"kv_cache": "fp8"}, tensor=8),
    Case("deepseek-v3", NVFP4, tensor=8),
    Case("kimi-k2-instruct", tensor=8),
    Case("kimi-k2-instruct", tensor=8, expert=8),
    Case("kimi-k2-thinking", tensor=8),
    Case("glm-4.5", tensor=8),
    Case("glm-4.5", BLOCKS, tensor=4),
    Case("minimax-m2", tensor=4),
    Case("minimax-m2", tensor=4, expert=4),
    Case("qwen3-235b-a22b", tensor=8),
    Case("qwen3-235b-a22b", FP8, tensor=4),
    Case("qwen3-235b-a22b", BLOCKS, tensor=4),
    Case("qwen3-235b-a22b", BLOCKS, tensor=8, expert=8),
    Case("qwen3-235b-a22b", NVFP4, tensor=4),
    Case("qwen3-coder-480b-a35b", BLOCKS, tensor=4),
    Case("qwen3-30b-a3b"),
    Case("qwen3-30b-a3b", FP8, tensor=2),
    Case("qwen3-30b-a3b", BLOCKS),
    Case("llama-4-maverick", tensor=8),
    Case("mixtral-8x7b", tensor=2),
    Case("mixtral-8x7b", FP8, tensor=2),
    Case("mixtral-8x22b", tensor=8),
    Case("gpt-oss-20b"),
    Case("gpt-oss-120b"),
    Case("gpt-oss-120b", tensor=4),
    Case("llama-3.3-70b-instruct", tensor=8),
    Case("llama-3.3-70b-instruct", {**FP8, "kv_cache": "fp8"}, tensor=4),
    Case("llama-3.3-70b-instruct", BLOCKS, tensor=4),
    Case("llama-3.3-70b-instruct", NVFP4, tensor=4),
    Case("llama-3.3-70b-instruct", INT4, tensor=8),
    Case("llama-3.1-8b-instruct"),
    Case("llama-3.1-8b-instruct", FP8),
    Case("qwen3-32b", BLOCKS, tensor=2),
    Case("qwen3-32b-awq"),
)
