"""What a sweep varies: names, lists and ranges of ``--over``."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import UsageError
from planner.spec.axes import axes
from planner.spec.load import load_text

HEAD = "model: qwen2.5-7b-instruct\ngpu: rtx-4090\n"
DECODE = load_text(HEAD + "step: {decode: {batch: 1, context: 128}}\n", "d.yaml")


def found(*texts, deployment=DECODE):
    return {axis.path: list(axis.values) for axis in axes(texts, deployment)}


def test_one_text_may_hold_every_axis():
    assert found("gpu=h100-sxm,h200-sxm,tp=1:8,batch=1|3") == {
        "gpu": ["h100-sxm", "h200-sxm"],
        "parallel.tensor": ["1", "2", "4", "8"],
        "step.decode.batch": ["1", "3"],
    }


def test_texts_may_stand_apart_under_whole_paths():
    texts = ("parallel.tensor=1:2", "step.decode.context=100:300:100", "precision=bf16|fp8")
    assert found(*texts) == {
        "parallel.tensor": ["1", "2"],
        "step.decode.context": ["100", "200", "300"],
        "precision.weights": ["bf16", "fp8"],
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1:512", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]),
        ("3:20", [3, 6, 12, 20]),
        ("7:7", [7]),
        ("16:64:16", [16, 32, 48, 64]),
        ("1:6:2", [1, 3, 5]),
        ("1:4,4,5", [1, 2, 4, 5]),
    ],
)
def test_ranges_double_or_count(text, values):
    """A doubling range ends with its last value; what comes twice stands once."""
    assert found(f"batch={text}") == {"step.decode.batch": [str(value) for value in values]}


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_doubling_range_doubles_up_to_its_end(first, more):
    (values,) = found(f"batch={first}:{first + more}").values()
    numbers = [int(value) for value in values]
    assert (numbers[0], numbers[-1]) == (first, first + more)
    assert all(b == 2 * a for a, b in pairwise(numbers[:-1]))
    assert len(numbers) < 2 or numbers[-1] <= 2 * numbers[-2]


@pytest.mark.parametrize(
    ("load", "batch", "context"),
    [
        ("step: {prefill: {batch: 1, tokens: 8}}", "step.prefill.batch", "step.prefill.tokens"),
        ("workload: {batch: 1, input: 8, output: 8}", "workload.batch", "workload.input"),
        (
            "workload: {concurrency: 1, input: 8, output: 8}",
            "workload.concurrency",
            "workload.input",
        ),
    ],
)
def test_batch_and_context_are_those_of_the_load(load, batch, context):
    deployment = load_text(HEAD + load + "\n", "d.yaml")
    assert list(found("batch=1", "context=8", deployment=deployment)) == [batch, context]


def test_texts_are_set_as_they_stand():
    """Version 0.10 is no number, a batch is one."""
    version, batch = axes(["version=0.10", "batch=8"], DECODE)
    assert version.setting("0.10") == '--over backend.version="0.10"'
    assert batch.setting("8") == "--over step.decode.batch=8"


@pytest.mark.parametrize(
    ("texts", "said", "hint"),
    [
        (["gpu"], "is no NAME=VALUES", "as in --over"),
        (["=1"], "empty name", "as in"),
        (["batch="], "empty name or value", "as in"),
        (["batch=1,,2"], "empty name or value", "as in"),
        (["bach=1"], "no field 'bach'", "batch"),
        (["step.decode.bath=1"], "no field", "step.decode.batch"),
        (["batch=1", "step.decode.batch=2"], "names step.decode.batch twice", "at once"),
        (["batch=8:1"], "8:1 is no range", "as in"),
        (["batch=0:4"], "is no range", "as in"),
        (["batch=1:4:0"], "is no range", "as in"),
        (["batch=1:2000000:1"], "more than 1,000,000 values", None),
    ],
)
def test_what_is_no_axis_is_refused(texts, said, hint):
    with pytest.raises(UsageError) as caught:
        found(*texts)
    assert said in str(caught.value)
    assert hint is None or hint in str(caught.value)
