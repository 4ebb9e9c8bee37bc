"""An engine's start-up log: KV capacity, weights and graph memory as the engine found them.

Lines as printed by vLLM, SGLang and TensorRT-LLM. Several versions print GiB and call it GB; both
are read as GiB, since all three divide by 2^30 (recalled, not looked up, for SGLang and
TensorRT-LLM).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from planner.importers.document import Document
from planner.importers.dtype_words import dtype
from planner.importers.fields import Fields
from planner.importers.lengths import stated
from planner.importers.refusal import ImportRefused
from planner.importers.registry import Importer, register
from planner.plan.runs import Run

NAME = "startup_log"
_NUMBER = r"(?P<value>\d[\d,]*(?:\.\d+)?)"
_GIB = 2.0**30
_TOKENS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"GPU KV cache size: {_NUMBER} tokens",
        rf"max_total_num_tokens={_NUMBER}",
        rf"max tokens in paged KV cache \({_NUMBER}\)",
    )
)
_MEMORY: Mapping[str, re.Pattern[str]] = {
    "memory.weights_bytes": re.compile(
        rf"(?:Model loading took|Loading model weights took) {_NUMBER} ?(?P<unit>Gi?B)"
    ),
    "memory.kv_bytes": re.compile(
        rf"(?:Available KV cache memory: |MemUsageChange\] Allocated ){_NUMBER} ?(?P<unit>Gi?B)"
    ),
    "memory.graph_bytes": re.compile(
        r"(?:CUDA graph pool memory: |Graph capturing finished in [\d.]+ secs?, took "
        rf"|Capture cuda graph end\..*?mem usage=){_NUMBER} ?(?P<unit>Gi?B)"
    ),
}
_ENGINE = re.compile(
    r"Initializing a V\d LLM engine \(v(?P<version>[\w.+-]{1,60})\) with config:(?P<config>.*)"
)
_SETTING = re.compile(r"(\w+)='?([^,'\s]+)'?")
_MOST_TOKENS = 1e12
_MOST_GIB = 1e6


def _claims(document: Document) -> bool:
    patterns = (*_TOKENS, *_MEMORY.values())
    return any(pattern.search(document.text) for pattern in patterns)


def _read(document: Document) -> tuple[Run, ...]:
    notes = ["no time was measured; the context holds what the engine found at its start"]
    context = {**_engine(document, notes), **_sizes(document, notes)}
    return (Run(document.source(NAME, "start-up log"), (), context=context, notes=tuple(notes)),)


def _sizes(document: Document, notes: list[str]) -> dict[str, int | float | str]:
    found: dict[str, int | float | str] = {}
    tokens = [m for pattern in _TOKENS for m in pattern.finditer(document.text)]
    if tokens:
        found["memory.kv_tokens"] = int(_agreed(document, "KV tokens", tokens, _MOST_TOKENS, notes))
        notes.append("KV tokens are derived by the engine; of hybrid models they are an equivalent")
    for path, pattern in _MEMORY.items():
        matches = list(pattern.finditer(document.text))
        if not matches:
            continue
        found[path] = _agreed(document, path, matches, _MOST_GIB, notes) * _GIB
        if any(match["unit"] == "GB" for match in matches):
            notes.append(f"{path} is printed as GB and read as GiB, which is what engines count in")
    return found


def _agreed(
    document: Document, what: str, matches: list[re.Match[str]], most: float, notes: list[str]
) -> float:
    """The value all lines agree on, else the smallest: an engine uses what every rank can hold."""
    digits = (match["value"].replace(",", "") for match in matches)
    values = {float(number) for number in digits}
    if not 0 < min(values) <= max(values) <= most:
        raise ImportRefused(document.where, f"{what} of {min(values):g} cannot be")
    if len(values) > 1:
        notes.append(f"{what} differs between lines; the smallest is taken")
    return min(values)


def _several(config: Fields, name: str) -> int | None:
    """A size that later versions print of every start, where it is more than 1."""
    size = config.positive_count(name)
    return size if size and size > 1 else None


def _engine(document: Document, notes: list[str]) -> dict[str, int | float | str]:
    """What vLLM prints of its own settings."""
    starts = list(_ENGINE.finditer(document.text))
    if not starts:
        return {}
    if len({start["config"] for start in starts}) > 1:
        raise ImportRefused(
            document.where, "the log holds several different starts", "cut it to one"
        )
    # The first of a name counts: a draft model stands after the model, in brackets.
    settings = dict(reversed(_SETTING.findall(starts[0]["config"])))
    config = Fields(settings, document.where, "config.")
    quantization = config.text("quantization")
    plain = quantization in (None, "None")
    if not plain and not dtype(quantization):
        notes.append(f"weights are in {quantization}, which has no name here")
    return stated(
        {
            "model": config.text("model"),
            "backend.name": "vllm",
            "backend.version": starts[0]["version"],
            "parallel.tensor": config.positive_count("tensor_parallel_size"),
            "parallel.pipeline": config.positive_count("pipeline_parallel_size"),
            "parallel.context": _several(config, "decode_context_parallel_size"),
            "parallel.prefill_context": _several(config, "prefill_context_parallel_size"),
            "precision.weights": dtype(config.text("dtype") if plain else quantization),
            "precision.kv_cache": dtype(config.text("kv_cache_dtype")),
        }
    )


register(Importer(NAME, "engine start-up log", "text", _claims, _read))
