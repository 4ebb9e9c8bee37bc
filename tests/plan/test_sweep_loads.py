"""Prefill steps, static batches and closed loops as arrays: each row is what its own plan says."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sweep_samples import EQUAL, STRUCTURES, check, question

from planner.errors import SpecError, UsageError
from planner.plan.batches import batches
from planner.plan.sweep import prefills
from planner.serving.loops import loops
from planner.serving.plan import plan_question

LOADS = {
    "prefill": (prefills, "step: {{prefill: {{batch: {}, tokens: {}}}}}"),
    "batch": (batches, "workload: {{batch: {}, input: {}, output: {}}}"),
    "loop": (loops, "workload: {{concurrency: {}, input: {}, output: {}}}"),
    "drifting": (
        loops,
        "workload: {{concurrency: {}, input: {}, output: {}, spread: 0.4, cached: 0.3}}",
    ),
    "counted": (loops, "workload: {{concurrency: {}, input: {}, output: {}, requests: 90}}"),
}
counts = st.one_of(st.sampled_from((1, 2, 3, 8, 9, 64, 65, 512)), st.integers(1, 600))
lengths = st.one_of(st.sampled_from((1, 2, 16, 17, 2048, 8192, 8193)), st.integers(1, 40_000))
outputs = st.one_of(st.sampled_from((1, 2, 3, 6)), st.integers(1, 2048))


def check_all(text, load, rows):
    """The middle row of several, asked for together, is its own plan."""
    sweep, words = LOADS[load]
    rows = [row[: words.count("{}")] for row in rows]
    place = len(rows) // 2
    found = sweep(question(text, words.format(*rows[0])), *np.array(rows).T)
    asked = question(text, words.format(*rows[place]))
    if place in found.wrong:
        with pytest.raises(SpecError, match=re.escape(found.wrong[place])):
            plan_question(asked)
        return
    check(found, place, plan_question(asked))


@pytest.mark.parametrize(
    ("name", "load"),
    [
        *((name, "prefill") for name in STRUCTURES if name != "drafts"),
        *((name, "batch") for name in ("dense", "stages", "replicas", "shared rows", "chunks")),
    ],
)
@settings(max_examples=2, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(st.tuples(counts, lengths, outputs), min_size=2, max_size=4))
def test_each_row_is_its_own_plan(name, load, rows):
    check_all(STRUCTURES[name], load, rows)


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("drafts", "batch"),
        ("drafts", "loop"),
        ("dense", "loop"),
        ("another engine", "drifting"),
        ("an elder engine", "counted"),
        ("replicas", "drifting"),
        ("windows", "loop"),
        ("shared rows", "loop"),
    ],
)
@settings(max_examples=2, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(st.tuples(counts, lengths, outputs), min_size=2, max_size=4))
def test_each_loop_is_its_own_plan(name, load, rows):
    check_all(STRUCTURES[name], load, rows)


def test_pictures_of_prompts_are_those_of_the_step():
    """Prompts that need the encoder are solved one by one; those that bring nothing need none."""
    text = "model: qwen2.5-vl-7b-instruct\ngpu: h100-sxm\n"
    for items in (0, 1):
        words = f"step: {{prefill: {{batch: 2, tokens: 1500, items: {items}}}}}"
        found = prefills(question(text, words), np.array([2, 1]), np.array([1500, 2000]))
        check(found, 0, plan_question(question(text, words)))


def test_ranks_that_share_prompts():
    text = "model: deepseek-v3\ngpu: h200-sxm\n"
    text += "parallel: {tensor: 8, prefill_context: 2, expert: 16}\n"
    words = "step: {prefill: {batch: 2, tokens: 3000}}"
    found = prefills(question(text, words), np.array([2, 1]), np.array([3000, 1]))
    check(found, 0, plan_question(question(text, words)))


def test_a_chunk_of_the_engine_at_its_edges():
    """vLLM computes 8,192 prompt tokens a step on an H100: two prompts of 4,096 or one and a
    second step, a prompt of 8,193 in two chunks.
    """
    text = "model: llama-3.1-8b-instruct\ngpu: h100-sxm\n"
    batch, prompt = np.array([2, 3, 2, 2]), np.array([4096, 4096, 4097, 8193])
    found = batches(question(text, LOADS["batch"][1].format(1, 1, 2)), batch, prompt, batch)
    for place, (b, i) in enumerate(zip(batch, prompt, strict=True)):
        check(found, place, plan_question(question(text, LOADS["batch"][1].format(b, i, b))))


def test_pieces_change_nothing():
    """Seven rows at a time or all at once."""
    draw = np.random.default_rng(7)
    rows = [draw.integers(1, most, 60) for most in (64, 9000, 300)]
    for name in ("batch", "loop"):
        sweep, words = LOADS[name]
        asked = question(STRUCTURES["fused all-reduce"], words.format(1, 2, 3))
        whole, cut = sweep(asked, *rows), sweep(asked, *rows, chunk=7)
        for figure, values in whole.figures.items():
            assert cut.figures[figure].value == pytest.approx(values.value, rel=EQUAL)


def test_a_request_that_fits_nowhere_is_wrong_alone():
    """24 GB less 15 GB of weights have no room for 200,000 tokens of 56 KiB: 11.5 GB."""
    asked = question(STRUCTURES["dense"], LOADS["loop"][1].format(1, 10, 10))
    found = loops(asked, np.array([2, 2]), np.array([200_000, 100]), np.array([10, 10]))
    assert "not one request of 200,010 tokens fits" in found.wrong[0]
    assert found.wrong.keys() == {0}
    assert np.isnan(found.tok_s[0])
    assert found.tok_s[1] > 0


def test_an_engine_without_a_scheduler_serves_no_loop():
    text = "model: qwen2.5-0.5b-instruct\ngpu: rtx-4090\nbackend: {name: pytorch-eager}\n"
    asked = question(text, LOADS["loop"][1].format(1, 10, 10))
    one = np.array([1])
    with pytest.raises(UsageError, match="serves no requests"):
        loops(asked, one, one, one)


def test_blocks_of_loops_are_joined(monkeypatch):
    """Three blocks of two rows and a last one of one, a wrong row in the second."""
    asked = question(STRUCTURES["dense"], LOADS["loop"][1].format(1, 10, 10))
    users = np.array([1, 2, 3, 4, 5, 6, 7])
    prompt = np.array([10, 20, 30, 200_000, 50, 60, 70])
    whole = loops(asked, users, prompt, users)
    monkeypatch.setattr("planner.serving.loops.BLOCK", 2)
    cut = loops(asked, users, prompt, users)
    assert cut.wrong == whole.wrong
    assert cut.wrong.keys() == {3}
    assert cut.missing_bytes == pytest.approx(whole.missing_bytes, nan_ok=True)
    for name, figure in whole.figures.items():
        assert cut.figures[name].high == pytest.approx(figure.high, rel=EQUAL, nan_ok=True)


@pytest.mark.parametrize("load", LOADS)
def test_no_rows_have_no_answers(load):
    sweep, words = LOADS[load]
    none = [np.array([], dtype=int)] * words.count("{}")
    found = sweep(question(STRUCTURES["dense"], words.format(1, 2, 3)), *none)
    assert len(found.missing_bytes) == len(found.tok_s) == 0
