"""The lab's own file of a step."""

import json

import pytest
from importer_files import changed

from planner.importers import ImportRefused, read

FILE = "planner_lab.json"


def test_a_lab_run_gives_its_steps_and_circumstances():
    """Five steps of 80 to 84 ms: their mean is 82 ms, and so is their median."""
    (run,) = read(changed(FILE), FILE)
    figures = {metric.statistic: metric.value for metric in run.metrics}
    assert figures["mean"] == pytest.approx(0.082)
    assert figures["median"] == pytest.approx(0.082)
    assert (figures["min"], figures["max"]) == (0.080, 0.084)
    assert run.samples["step"] == (0.080, 0.082, 0.081, 0.083, 0.084)
    assert run.context["gpu"] == "cpu-test-2-cores"
    assert run.context["step.decode.batch"] == 4
    assert run.source.tool == "planner lab, torch 2.13.0+cpu"
    assert run.notes == ("before the lab: other processes use 12% of the CPU",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"planner_lab_run": 2}, "planner_lab_run is of another version"),
        ({"step_s": []}, "step_s holds no step"),
        ({"step_s": [0.08, 0.0]}, r"step_s\[1\] is 0"),
        ({"step_s": [0.08, 1e12]}, "more than can be"),
        ({"context": {"model": ["a", "list"]}}, "context.model is"),
        ({"context": {"parallel.tensor": float("nan")}}, "NaN or infinite"),
    ],
)
def test_a_damaged_lab_run_is_refused_with_the_key(change, reason):
    with pytest.raises(ImportRefused, match=reason):
        read(changed(FILE, **change), FILE)


def test_a_lab_run_is_told_by_its_mark_not_by_its_name():
    values = json.loads(changed(FILE))
    values.pop("planner_lab_run")
    with pytest.raises(ImportRefused, match="no known measurement format"):
        read(json.dumps(values).encode(), FILE)
