"""Capture modes of many steps at once, against the decision for each of them."""

import numpy as np
import pytest

from planner.capture.decide import decide, decide_all
from planner.capture.types import MODES
from planner.plan.prepare import prepare
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
BACKENDS = {
    "full": "{name: vllm}",
    "piecewise": "{name: vllm, flags: {cudagraph_mode: PIECEWISE}}",
    "none": "{name: vllm, flags: {enforce_eager: true}}",
    "elder": '{name: vllm, version: "0.6"}',
    "sglang": "{name: sglang}",
    "unpadded": "{name: sglang, flags: {disable_cuda_graph_padding: true}}",
    "tensorrt": "{name: tensorrt-llm}",
    "eager": "{name: pytorch-eager}",
    "compiled": "{name: pytorch-compiled}",
}


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_every_batch_gets_its_own_decision(backend):
    text = (
        f"model: llama-3.1-8b-instruct\ngpu: h100-sxm\nbackend: {backend}\n"
        "step: {decode: {batch: 1, context: 128}}\n"
    )
    engine = prepare(ask(load_text(text, "d.yaml"), CATALOG)).engine("decode")
    tokens = np.arange(1, 1100)
    modes, padding = decide_all(engine, tokens * 1.0)
    for each, mode, rows in zip(tokens.tolist(), modes, padding, strict=True):
        found = decide(engine, each)
        assert MODES[mode] == found.mode
        assert rows == found.choice(found.mode).padding_tokens
