"""What the lab writes down: jobs, journals, machines, times. None of it needs torch."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_points import MACHINE

from planner.lab import job as jobs
from planner.lab.job import Job
from planner.lab.journal import NAME, Journal, Point, read
from planner.lab.machine import slug, unsteady
from planner.lab.refusal import LabRefused
from planner.lab.timing import LEAST, sampled, summary

JOB = Job(
    "cpu", "bf16", ((64, 64, True), (64, 128, False)), ((4, 2, 16),), 64, None, {"model": "tiny"}
)


def test_a_job_comes_back_from_its_file_as_it_was(tmp_path):
    file = tmp_path / "job.json"
    file.write_text(jobs.to_json(JOB))
    assert jobs.load(file) == JOB
    assert jobs.load(file).digest == JOB.digest


@pytest.mark.parametrize("change", [{"hidden": 128}, {"rows": (1, 2)}, {"dtype": "fp16"}])
def test_another_job_has_another_digest(change):
    assert replace(JOB, **change).digest != JOB.digest


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "3", "null", '{"planner_lab_job": 2}', '{"planner_lab_job": 9}', "{"]
)
def test_a_file_that_is_no_job_is_refused(tmp_path, text):
    file = tmp_path / "job.json"
    file.write_text(text)
    with pytest.raises(LabRefused):
        jobs.load(file)


def test_a_stopped_run_goes_on_where_it_was(tmp_path):
    """A point is on disk when it was added; one that was cut off counts as not measured."""
    first = Journal(tmp_path, JOB, MACHINE)
    first.add("gemm", {"rows": 1}, {"median_s": 1e-5})
    first.add("gemm", {"rows": 2}, {"median_s": 2e-5})
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes()[:-7])
    second = Journal(tmp_path, JOB, MACHINE)
    assert second.known("gemm", {"rows": 1}).values == {"median_s": 1e-5}
    assert second.known("gemm", {"rows": 2}) is None
    second.add("gemm", {"rows": 2}, {"median_s": 3e-5})
    _, points = read(path)
    assert [point.values["median_s"] for point in points] == [1e-5, 3e-5]


def test_a_folder_of_another_job_or_machine_is_not_mixed_with_this_one(tmp_path):
    Journal(tmp_path, JOB, MACHINE)
    with pytest.raises(LabRefused, match="another job"):
        Journal(tmp_path, replace(JOB, hidden=128), MACHINE)
    with pytest.raises(LabRefused, match="another machine"):
        Journal(tmp_path, JOB, replace(MACHINE, name="another chip"))
    fresh = Journal(tmp_path, replace(JOB, hidden=128), MACHINE, fresh=True)
    assert fresh.points == {}


@pytest.mark.parametrize("text", ["", "{}\n", "nonsense\n", '{"planner_lab": 7}\n', "[]\n"])
def test_a_damaged_journal_is_refused(tmp_path, text):
    (tmp_path / NAME).write_text(text)
    with pytest.raises(LabRefused):
        read(tmp_path / NAME)


@pytest.mark.parametrize(
    ("name", "units", "expected"),
    [
        ("AMD EPYC", 2, "cpu-amd-epyc-2-cores"),
        ("AMD EPYC 9654 96-Core Processor", 96, "cpu-amd-epyc-9654-96-core-96-cores"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", 1, "cpu-intel-xeon-1-core"),
        ("Intel(R) Core(TM) i7-1165G7 @ 2.80GHz", 4, "cpu-intel-core-i7-1165g7-4-cores"),
    ],
)
def test_a_cpu_gets_a_name_that_a_catalogue_takes(name, units, expected):
    assert slug(replace(MACHINE, name=name, units=units)) == expected


def test_each_lap_measures_anew(tmp_path):
    journal = Journal(tmp_path, JOB, MACHINE)
    journal.add("gemm", {"rows": 1}, {"median_s": 1e-5})
    journal.lap = 1
    assert journal.known("gemm", {"rows": 1}) is None
    journal.add("gemm", {"rows": 1}, {"median_s": 2e-5})
    _, points = read(tmp_path / NAME)
    assert [(point.lap, point.values["median_s"]) for point in points] == [(0, 1e-5), (1, 2e-5)]


def test_a_step_that_jumps_about_is_noticed():
    """From 90 to 97 ms is 8 %, from 93.4 to 112.8 is 21 %."""
    assert unsteady({"low_s": 0.090, "high_s": 0.097}) is None
    assert "spread by 21%" in unsteady({"low_s": 0.0934, "high_s": 0.1128})


@given(st.lists(st.floats(1e-7, 10.0), min_size=1, max_size=50))
def test_a_summary_lies_within_its_samples(samples):
    found = summary(samples)
    slack = 1e-12 * max(samples)
    assert min(samples) - slack <= found.low_s <= found.median_s + slack
    assert found.median_s - slack <= found.high_s <= max(samples) + slack
    assert found.count == len(samples)


def test_a_call_is_timed_a_few_times_even_without_any_time_left():
    calls = []
    assert len(sampled(lambda: lambda: calls.append(1), 0.0)) == LEAST
    assert len(calls) == LEAST


def test_points_are_told_apart_by_kind_and_sizes_in_any_order():
    one = Point("gemm", {"rows": 1, "depth": 2})
    assert one.key == Point("gemm", {"depth": 2, "rows": 1}, {"median_s": 1.0}).key
    assert one.key != Point("stream", {"rows": 1, "depth": 2}).key
    assert json.loads(one.key) == ["gemm", {"rows": 1, "depth": 2}, 0]
