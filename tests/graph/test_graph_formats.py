"""Which formats a deployment runs in, given its checkpoint and what its GPU multiplies."""

import pytest

from planner.errors import SpecError
from planner.graph.formats import asked
from planner.graph.scheme import scheme
from planner.ops.types import Formats
from planner.spec.load import load_text

GPU = """\
kind: gpu
name: g
title: Card
vendor: nvidia
architecture: ada
memory: {type: HBM, capacity: 24 GiB, bandwidth: 1 TB/s}
matrix: {tf32: 50 TFLOP/s, bf16: 100 TFLOP/s, fp16: 100 TFLOP/s, fp8: 200 TFLOP/s}
vector: 10 TFLOP/s
"""
OLD = GPU.replace("title: Card", "title: Old card").replace(", fp8: 200 TFLOP/s", "")
FP16_ONLY = GPU.replace("tf32: 50 TFLOP/s, bf16: 100 TFLOP/s, ", "")
MODEL = """\
kind: model
name: m
title: M
weights: CHECKPOINT
sequence: [{block: embedding}]
"""


def ask(checkpoint: str, precision: str, gpu: str = GPU):
    deployment = load_text(
        f"model: m\ngpu: g\nprecision: {{{precision}}}\nstep: {{decode: {{batch: 1, context: 1}}}}\n",
        "d.yaml",
        "deployment",
    )
    model = load_text(MODEL.replace("CHECKPOINT", checkpoint), "m.yaml")
    card = load_text(gpu, "g.yaml")
    found = scheme(asked(deployment, model, card), card, origin=deployment.origin)
    notes = tuple(runs.note for runs in found.running if runs.note)
    return found.formats, notes


@pytest.mark.parametrize(
    ("checkpoint", "precision", "expected"),
    [
        ("bf16", "", Formats("bf16", "bf16", "bf16", "bf16")),
        ("fp16", "", Formats("fp16", "fp16", "fp16", "fp16")),
        ("fp32", "", Formats("fp32", "fp32", "fp32", "fp32")),
        ("bf16", "kv_cache: fp8", Formats("bf16", "bf16", "bf16", "fp8")),
        ("bf16", "weights: fp8", Formats("fp8", "bf16", "bf16", "bf16")),
        ("bf16", "weights: fp8, activations: fp8", Formats("fp8", "fp8", "bf16", "bf16")),
        ("bf16", "weights: int4", Formats("int4", "bf16", "bf16", "bf16")),
        ("fp8", "", Formats("fp8", "bf16", "bf16", "bf16")),
        ("bf16", "activations: fp16", Formats("bf16", "fp16", "fp16", "fp16")),
        ("fp32", "activations: tf32", Formats("fp32", "tf32", "tf32", "fp32")),
    ],
)
def test_formats_follow_the_request_and_else_the_checkpoint(checkpoint, precision, expected):
    assert ask(checkpoint, precision) == (expected, ())


def test_a_format_that_matrix_units_lack_is_widened_before_the_product():
    found, notes = ask("bf16", "weights: fp8, activations: fp8", OLD)
    assert found == Formats("fp8", "bf16", "bf16", "bf16")
    [note] = notes
    assert note == (
        "Old card has no fp8 matrix rate: weights stay fp8 in memory and are widened to bf16 before "
        "each product"
    )


def test_a_quantised_checkpoint_is_widened_to_what_the_card_multiplies():
    assert ask("int4", "", FP16_ONLY)[0] == Formats("int4", "fp16", "fp16", "fp16")


@pytest.mark.parametrize(
    ("precision", "gpu", "place", "sentence"),
    [
        (
            "activations: fp8",
            GPU,
            "d.yaml:3:26",
            "activations in fp8 need weights in fp8, not in bf16 (set precision.weights: fp8)",
        ),
        (
            "kv_cache: int4",
            GPU,
            "d.yaml:3:23",
            "no engine caches in int4 (one of fp32, bf16, fp16, fp8, int8, nvfp4)",
        ),
        (
            "kv_cache: fp8",
            FP16_ONLY,
            "d.yaml:3:12",
            "Card has no matrix rate for bf16 (it has fp16, fp8)",
        ),
    ],
)
def test_what_nothing_can_run_is_refused_at_its_place(precision, gpu, place, sentence):
    with pytest.raises(SpecError) as error:
        ask("bf16", precision, gpu)
    assert str(error.value).splitlines()[0] == f"{place}: {sentence}"
