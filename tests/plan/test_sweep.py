"""Many decode steps as arrays: each row is what a plan of that row alone says."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.capture.types import MODE_WORDS, MODES
from planner.cost.estimator import BOUNDS
from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.plan.cases import bound
from planner.plan.sweep import decodes
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
EDGES = (1, 2, 3, 8, 9, 64, 65, 128, 129, 256, 257, 512, 513)
"""Captured sizes and the next batch, and where fused all-reduces end."""
batches = st.one_of(st.sampled_from(EDGES), st.integers(1, 4096))
contexts = st.one_of(st.sampled_from((1, 2, 16, 17, 128, 129, 8192, 8193)), st.integers(1, 131_072))


def question(text, batch=16, context=4096):
    step = f"step: {{decode: {{batch: {batch}, context: {context}}}}}\n"
    return ask(load_text(text + step, "deploy.yaml"), CATALOG)


def check(found, place, plan):
    """One row against its plan: numbers to 1e-9, words exactly."""
    step = plan.step
    assert found.step_s[place] == pytest.approx(step.time_s, rel=EQUAL)
    if step.low_s is None:
        assert np.isnan(found.low_s[place])
        assert np.isnan(found.high_s[place])
    else:
        assert found.low_s[place] == pytest.approx(step.low_s, rel=EQUAL, abs=EQUAL * step.time_s)
        assert found.high_s[place] == pytest.approx(step.high_s, rel=EQUAL)
    assert found.missing_bytes[place] == pytest.approx(plan.memory.missing_bytes, rel=EQUAL, abs=1)
    assert bool(found.fits[place]) == plan.memory.fits
    assert BOUNDS[int(found.bound[place])] == bound(plan)
    assert MODE_WORDS[MODES[int(found.mode[place])]] == step.mode


@pytest.mark.parametrize("text", STRUCTURES.values(), ids=STRUCTURES)
@settings(
    max_examples=many(2, 5), deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(rows=st.lists(st.tuples(batches, contexts), min_size=2, max_size=3))
def test_each_row_is_its_own_plan(text, rows):
    """Asked for together, at several contexts of each batch, and one by one."""
    batch, context = (np.array(each) for each in zip(*rows, strict=True))
    more = np.repeat(batch, 3), np.concatenate([np.roll(context, n) for n in (0, 1, 2)])
    for asked in ((batch, context), more):
        found = decodes(question(text), *asked)
        place = len(asked[0]) // 2
        pair = int(asked[0][place]), int(asked[1][place])
        check(found, place, assemble(question(text, *pair)))


@pytest.mark.parametrize("name", ["fused all-reduce", "an elder engine"])
def test_every_batch_around_the_edges_of_its_regimes(name):
    """Rows astride captured sizes and the limits of fused kernels, in one call."""
    batch = np.array(EDGES)
    found = decodes(question(STRUCTURES[name]), batch, np.full(len(batch), 1024))
    for place, each in enumerate(EDGES):
        check(found, place, assemble(question(STRUCTURES[name], each, 1024)))


def test_pieces_change_nothing():
    """Seven rows at a time or all at once, in any order of rows."""
    draw = np.random.default_rng(5)
    batch, context = draw.integers(1, 2000, 200), draw.integers(1, 30_000, 200)
    asked = question(STRUCTURES["fused all-reduce"])
    whole, cut = decodes(asked, batch, context), decodes(asked, batch, context, chunk=7)
    turned = decodes(asked, batch[::-1], context[::-1])
    for name in ("step_s", "low_s", "high_s", "missing_bytes", "bound", "mode"):
        assert getattr(cut, name) == pytest.approx(getattr(whole, name), rel=EQUAL)
        assert getattr(turned, name)[::-1] == pytest.approx(getattr(whole, name), rel=EQUAL)


def test_no_rows_have_no_answers():
    none = np.array([], dtype=int)
    assert len(decodes(question(STRUCTURES["dense"]), none, none).step_s) == 0


def test_what_no_row_can_be_is_refused_at_its_place():
    """Seven ranks do not share 64 heads."""
    text = "model: llama-3.3-70b-instruct\ngpu: h100-sxm\nparallel: {tensor: 7}\n"
    with pytest.raises(SpecError, match="does not split over 7"):
        decodes(question(text), np.array([1]), np.array([1]))


def test_the_roofline_sweeps_too():
    """A lower bound has no interval."""
    asked = question(STRUCTURES["dense"])
    bare = ask(asked.deployment, CATALOG, "roofline")
    found = decodes(bare, np.array([16, 300]), np.array([4096, 100]))
    assert found.step_s[0] == pytest.approx(assemble(bare).step.time_s, rel=EQUAL)
    assert np.isnan(found.high_s).all()
