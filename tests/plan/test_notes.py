"""Notes of a plan: constants that another version of the engine gave, GPUs that no link joins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.plan.assemble import assemble
from planner.plan.notes import _order
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
SAID = "kernel constants were measured with "


def question(backend: str = "{name: vllm}", gpu: str = "h100-sxm", model: str = "calibrated"):
    step = "{decode: {batch: 4, context: 512}}"
    text = f"model: qwen2.5-0.5b-instruct\ngpu: {gpu}\nbackend: {backend}\nstep: {step}\n"
    return ask(load_text(text, "deploy.yaml"), CATALOG, model)


def measured_with(asked, version, **others):
    """The question with every constant measured by a version; ``others`` by family."""
    changed = []
    for each in asked.calibrations:
        kernels = {
            name: entry.model_copy(update={"version": others.get(name.split(".")[0], version)})
            for name, entry in each.calibration.kernels.items()
        }
        calibration = each.calibration.model_copy(update={"kernels": kernels})
        changed.append(replace(each, calibration=calibration))
    return replace(asked, calibrations=tuple(changed))


def notes(asked) -> list[str]:
    return [note for note in assemble(asked).notes if note.startswith(SAID)]


@pytest.mark.parametrize(
    ("backend", "measured", "expected"),
    [
        ("{name: vllm, version: '0.26'}", "0.24.0", "vLLM 0.24.0, older than 0.26: changes of"),
        ("{name: vllm, version: '0.26.1'}", "0.24.0", "vLLM 0.24.0, older than 0.26.1: changes of"),
        ("{name: vllm, version: '0.19'}", "0.24.0", "vLLM 0.24.0, newer than 0.19: changes of"),
        ("{name: vllm, version: '0.26'}", "0.9.2", "vLLM 0.9.2, older than 0.26: changes of"),
        ("{name: vllm}", "0.1", "vLLM 0.1, older than 0.26: changes of"),  # the newest described
    ],
)
def test_another_version_is_said_once_with_its_order(backend, measured, expected):
    (note,) = notes(measured_with(question(backend), measured))
    assert note.startswith(SAID + expected)
    assert "(h100-sxm-vllm)" in note


@pytest.mark.parametrize("measured", ["0.26.0", "0.26", "v0.26.3", None, "", "unknown"])
def test_the_same_version_or_none_known_needs_no_note(measured):
    """0.26 stands for each 0.26.x."""
    asked = question("{name: vllm, version: '0.26'}")
    assert notes(measured_with(asked, measured)) == []


def test_versions_that_differ_among_kernels_are_told_in_one_note():
    (note,) = notes(measured_with(question(), "0.24.0", gemm="0.9.1"))
    assert note.startswith(f"{SAID}vLLM 0.9.1 and 0.24.0, older than 0.26")


def test_older_and_newer_ones_are_two_notes():
    older, newer = notes(measured_with(question(), "0.26.0", gemm="0.24.0", attention_decode="1.0"))
    assert "0.24.0, older" in older
    assert "1.0, newer" in newer


def test_constants_that_priced_nothing_are_not_spoken_of():
    """A decode step runs no prefill kernel."""
    assert notes(measured_with(question(), "0.26.0", attention_prefill="0.1")) == []


def test_constants_of_another_engine_have_versions_of_their_own():
    """SGLang's streaming kernels were timed in vLLM's tables; eager PyTorch borrows them all."""
    sglang = question("{name: sglang, version: '0.5.6'}")
    assert notes(measured_with(sglang, "0.5.6", elementwise="0.24.0")) == []
    assert notes(measured_with(question("{name: pytorch-eager}"), "0.1")) == []


def test_the_bare_roofline_uses_no_constants():
    assert notes(question(model="roofline")) == []


def test_a_note_moves_neither_the_plan_nor_its_result():
    """It is advice to the reader: versions are part of the calibration, notes of nothing."""
    with_note = assemble(measured_with(question(), "0.24.0"))
    without = assemble(measured_with(question(), "0.26.0"))
    assert with_note.result_hash == without.result_hash
    assert len(with_note.notes) == len(without.notes) + 1


NUMBERS = st.lists(st.integers(0, 30), min_size=1, max_size=4)


@given(NUMBERS, NUMBERS)
def test_the_order_is_that_of_the_numbers_both_have(one, other):
    """Brute force on the common beginning of both lists."""
    common = min(len(one), len(other))
    left, right = one[:common], other[:common]
    expected = None if left == right else "older" if left < right else "newer"
    assert _order(".".join(map(str, one)), ".".join(map(str, other))) == expected


def crowded(gpu: str, parallel: str, more: str = "") -> list[str]:
    step = "{decode: {batch: 4, context: 512}}"
    text = f"model: llama-3.1-70b-instruct\ngpu: {gpu}\nparallel: {parallel}\nstep: {step}\n{more}"
    found = assemble(ask(load_text(text, "deploy.yaml"), CATALOG)).notes
    return [note for note in found if "taken to be one node" in note]


def test_more_gpus_than_a_link_joins_are_told_with_the_nodes_they_take():
    (note,) = crowded("h100-sxm", "{tensor: 8, pipeline: 2}")
    assert note.startswith("16 GPUs are taken to be one node, joined by NVLink4, which joins 8")
    assert "nodes: 2 and network: {bandwidth: 50 GB/s, latency: 10 us}" in note


def test_nothing_is_told_of_what_a_link_joins_or_of_nodes_that_are_named():
    network = "nodes: 2\nnetwork: {bandwidth: 50 GB/s, latency: 10 us}\n"
    assert not crowded("h100-sxm", "{tensor: 8, pipeline: 2}", network)
    assert not crowded("h100-sxm", "{tensor: 8, data: 4}")  # replicas do not talk
    assert not crowded("gb200", "{tensor: 8, pipeline: 2}")  # a rack joins 72
