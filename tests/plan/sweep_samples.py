"""Deployments whose loads are swept, and the plan that each row must be."""

import math

import numpy as np
import pytest

from planner.capture.types import MODE_WORDS, MODES
from planner.cost.estimator import BOUNDS
from planner.plan.cases import bound, predictions
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
EQUAL = 1e-9
STRUCTURES = {
    "dense": "model: qwen2.5-7b-instruct\ngpu: rtx-4090\n",
    "fused all-reduce": "model: llama-3.3-70b-instruct\ngpu: h100-sxm\nparallel: {tensor: 4}\n",
    "experts": "model: deepseek-v3\ngpu: h200-sxm\nparallel: {tensor: 8, expert: 8}\n",
    "skewed experts": "model: qwen3-30b-a3b\ngpu: h100-sxm\nexperts: {load: power-law}\n",
    "eager": "model: llama-3.1-8b-instruct\ngpu: h100-sxm\n"
    "backend: {name: vllm, flags: {enforce_eager: true}}\n",
    "piecewise": "model: llama-3.1-8b-instruct\ngpu: h100-sxm\n"
    "backend: {name: vllm, flags: {cudagraph_mode: PIECEWISE}}\n",
    "another engine": "model: qwen3-235b-a22b\ngpu: b200-sxm\nparallel: {tensor: 4}\n"
    "backend: {name: sglang}\nprecision: {weights: fp8}\n",
    "an elder engine": "model: qwen2.5-7b-instruct\ngpu: a100-80gb-sxm\nparallel: {tensor: 2}\n"
    'backend: {name: vllm, version: "0.6"}\n',
    "stages": "model: llama-3.3-70b-instruct\ngpu: h100-sxm\nparallel: {tensor: 2, pipeline: 3}\n",
    "replicas": "model: llama-3.1-8b-instruct\ngpu: l40s\nparallel: {data: 3}\n",
    "shared rows": "model: llama-3.3-70b-instruct\ngpu: h100-sxm\nparallel: {tensor: 8}\n"
    'backend: {name: vllm, version: "0.26", flags: {enable_sp: true}}\n',
    "a shared context": "model: deepseek-v3\ngpu: h200-sxm\nparallel: {tensor: 8, context: 8}\n",
    "drafts": "model: llama-3.1-8b-instruct\ngpu: h100-sxm\n"
    "speculation: {tokens: 3, acceptance: 0.7}\n",
    "windows": "model: gpt-oss-120b\ngpu: h100-sxm\nparallel: {tensor: 2}\n",
    "chunks": "model: llama-4-scout\ngpu: h200-sxm\nparallel: {tensor: 4}\n",
    "states": "model: qwen3-next-80b-a3b\ngpu: h200-sxm\nparallel: {tensor: 2}\n",
    "sparse": "model: deepseek-v3.2\ngpu: b200-sxm\nparallel: {tensor: 8}\n",
    "an encoder": "model: whisper-large-v3\ngpu: l40s\n",
}


def question(text, load):
    """A deployment with a load."""
    return ask(load_text(f"{text}{load}\n", "deploy.yaml"), CATALOG)


def check(found, place, plan):
    """One row against its plan: numbers to 1e-9, words exactly."""
    expected = predictions(plan)
    for name, figure in found.figures.items():
        for end in ("value", "low", "high"):
            values, wanted = getattr(figure, end), getattr(expected.get(name), end, None)
            value = math.nan if values is None else values[place]
            if wanted is None:
                assert np.isnan(value), (name, end)
            else:
                assert value == pytest.approx(wanted, rel=EQUAL, abs=1e-12), (name, end)
    assert expected.keys() <= found.figures.keys()
    assert found.missing_bytes[place] == pytest.approx(plan.memory.missing_bytes, rel=EQUAL, abs=1)
    assert bool(found.fits[place]) == plan.memory.fits
    assert BOUNDS[int(found.steps.bound[place])] == bound(plan)
    assert MODE_WORDS[MODES[int(found.steps.mode[place])]] == plan.step.mode
