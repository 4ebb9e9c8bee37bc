"""The search over splits: everything that divides is planned, and the best one named."""

from dataclasses import replace

import pytest

import planner
from planner.plan.splits import Split, best, splits
from planner.spec.catalog import Catalog
from planner.spec.load import load_text

SPEC = """\
model: {model}
gpu: h100-sxm
backend: {{name: vllm, version: "0.26"}}
step: {{decode: {{batch: {batch}, context: 1024}}}}
"""


def question(model, batch=8):
    deployment = load_text(SPEC.format(model=model, batch=batch).encode(), "d.yaml", "deployment")
    return planner.ask(deployment, Catalog.standard())


def test_every_power_of_two_that_divides_is_tried_within_the_node():
    """Llama-3.3-70B has 64 heads on 8 KV heads and 80 layers: all ten splits up to 8 GPUs build."""
    found = splits(question("llama-3.3-70b-instruct"))
    ways = {(split.tensor, split.pipeline) for split in found}
    assert ways == {
        (1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (4, 2), (1, 4), (2, 4), (1, 8),
    }  # fmt: skip
    assert all(split.expert == 1 for split in found)
    assert [split.fits for split in found] == sorted((s.fits for s in found), reverse=True)


def test_experts_are_cut_or_shared_out_where_there_are_some():
    found = splits(question("mixtral-8x7b"), most=2)
    assert {(s.tensor, s.pipeline, s.expert) for s in found} == {
        (1, 1, 1), (2, 1, 1), (2, 1, 2), (1, 2, 1),
    }  # fmt: skip


def test_a_split_says_what_the_plan_of_it_says():
    asked = question("llama-3.3-70b-instruct")
    (four,) = (s for s in splits(asked) if (s.tensor, s.pipeline) == (4, 1))
    text = SPEC.format(model="llama-3.3-70b-instruct", batch=8) + "parallel: {tensor: 4}\n"
    plan = planner.plan_question(
        planner.ask(load_text(text.encode(), "d.yaml", "deployment"), Catalog.standard())
    )
    assert four.step_s == plan.step.time_s
    assert four.fits == plan.memory.fits
    assert four.tokens_per_s_per_gpu == pytest.approx(8 / plan.step.time_s / 4)
    assert four.sets == ("parallel.tensor=4", "parallel.pipeline=1", "parallel.expert=1")


def test_the_best_fits_and_makes_most_of_a_gpu_and_of_equals_the_smaller():
    one = Split(1, 1, 1, 1, False, 0.01, 100.0, 100.0)
    two = Split(2, 1, 1, 2, True, 0.01, 120.0, 60.0)
    four = Split(4, 1, 1, 4, True, 0.01, 242.0, 60.5)
    eight = Split(8, 1, 1, 8, True, 0.01, 400.0, 50.0)
    assert best((one, two, four, eight)) == two
    assert best((one, replace(two, tokens_per_s_per_gpu=50.0), four, eight)) == four
    assert best((one,)) is None
