"""The longest context an engine takes a config for."""

from __future__ import annotations

from planner.spec.hf.fields import Config

_STRETCHED = ("linear", "dynamic", "yarn")
"""Kinds of `rope_scaling` whose factor multiplies the longest context. Source: vLLM
`_get_and_verify_max_len`, which leaves llama3, longrope, mrope and Gemma 3 as they are."""


def longest(config: Config, key: str = "max_position_embeddings", default: int = 2048) -> int:
    """Positions the model was trained for, times what its RoPE scaling adds."""
    positions = config.count(key, default)
    scaling = config.inside("rope_scaling") or config.inside("rope_parameters")
    config.get("rope_theta")
    if scaling is None:
        return positions
    kind = scaling.text("rope_type") or scaling.text("type")
    factor = scaling.number("factor", 1.0)
    original = scaling.maybe("original_max_position_embeddings")
    if kind not in _STRETCHED or not 1 <= factor <= 10_000:  # noqa: PLR2004 - no model stretches so
        return positions
    return int((original if kind == "yarn" and original else positions) * factor)
