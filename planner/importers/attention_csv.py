"""vLLM's attention benchmark: one kernel timed alone. Recognised so that it is refused by name."""

from __future__ import annotations

from planner.importers.document import Document
from planner.importers.refusal import ImportRefused
from planner.importers.registry import Importer, register
from planner.plan.runs import Run

NAME = "vllm_attention_benchmark"
_HEADER = "backend,batch_spec,num_layers,kv_cache_dtype,mean_time"


def _claims(document: Document) -> bool:
    return document.text.startswith(_HEADER)


def _read(document: Document) -> tuple[Run, ...]:
    raise ImportRefused(
        document.where,
        "an attention benchmark times one kernel, not a run of a model",
        "time whole steps, as 'vllm bench latency' does",
    )


register(Importer(NAME, "vLLM attention benchmark (refused)", "text", _claims, _read))
