"""Damaged files end in a run or in an error for people, never in anything else."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importer_files import BAD, GOOD, mutated, raw

from planner.errors import PlannerError
from planner.importers import ImportRefused, from_value, read
from planner.plan.runs import Run


def assert_a_run_or_an_error(data: bytes, file: str) -> None:
    try:
        runs = read(data, file)
    except PlannerError as error:
        said = str(error)
    else:
        said = file
        assert runs
        for run in runs:
            assert_sound(run)
    assert said.startswith(file)
    assert said.encode("utf-8")


def assert_sound(run: Run) -> None:
    assert all(math.isfinite(metric.value) and metric.value > 0 for metric in run.metrics)
    assert all(kernel.calls > 0 and 0 <= kernel.total_s < math.inf for kernel in run.kernels)
    for values in run.samples.values():
        assert values
        assert all(0 <= value < math.inf for value in values)
    words = json.dumps(
        [dict(run.context), run.notes, [k.name for k in run.kernels]], allow_nan=False
    )
    assert json.loads(words)
    words = [*run.context.values(), *run.notes, run.source.tool, *(k.name for k in run.kernels)]
    assert "".join(map(str, words)).encode("utf-8")


@pytest.mark.parametrize("file", [*GOOD, *BAD])
def test_thirty_mutations_of_each_file_give_a_run_or_an_error(file):
    data = raw(file)
    for number in range(30):
        assert_a_run_or_an_error(mutated(data, f"{file} {number}"), file)


@pytest.mark.parametrize("file", GOOD)
def test_a_file_cut_anywhere_is_read_or_refused(file):
    data = raw(file)
    for end in range(1, len(data), max(1, len(data) // 40)):
        assert_a_run_or_an_error(data[:end], file)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    assert_a_run_or_an_error(data, "run.json")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_any_json_is_read_or_refused(value):
    data = json.dumps(value).encode("utf-8", "surrogatepass")
    assert_a_run_or_an_error(data, "run.json")


@given(st.text(), st.text())
def test_any_typed_value_is_read_or_refused(metric, text):
    for name in (metric, "tpot", "output_throughput"):
        try:
            assert_sound(from_value(name, text))
        except ImportRefused:
            continue
