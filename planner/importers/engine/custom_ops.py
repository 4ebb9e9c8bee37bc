"""Which operators vLLM is told to run as its own, where Inductor would write them."""

from __future__ import annotations

import json

_NORM, _QUANT = "+rms_norm", "+quant_fp8"
_EVERY = "all"


def custom_ops(text: str) -> str | None:
    """The flag's value for ``["+quant_fp8", "+rms_norm"]`` or ``+rms_norm,+quant_fp8``.

    None where norms stay Inductor's. Raises ValueError where others than these two are asked for.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = text.split(",")
    words = {str(word).strip() for word in given} if isinstance(given, list) else {text.strip()}
    asked = {_NORM, _QUANT} if _EVERY in words else words - {"none", ""}
    if odd := sorted(asked - {_NORM, _QUANT}):
        raise ValueError(f"what {odd[0][:40]} changes in a step is not described")
    if _NORM not in asked:
        if asked:
            raise ValueError(f"{_QUANT} without {_NORM} is not described")
        return None
    return f"{_NORM},{_QUANT}" if _QUANT in asked else _NORM
