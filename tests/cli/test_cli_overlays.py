"""Calibrations measured here, on the command line: looked at, checked, used by a team's folder."""

from __future__ import annotations

import json

import pytest

OVERLAY = """\
kind: calibration
name: {name}
title: Ours
gpu: {gpu}
backend: {backend}
date: "2026-11-30"
script: by hand
evidence: measured-here
{body}
"""
STEP_TIME = "host: {step: 1 ms}"


@pytest.fixture
def overlay(tmp_path):
    """Writes a calibration into a folder of one's own, and answers with the folder."""

    def write(body=STEP_TIME, *, name="rtx-4090-vllm-runs", gpu="rtx-4090", backend="vllm"):
        folder = tmp_path / "team" / "calibrations"
        folder.mkdir(parents=True, exist_ok=True)
        text = OVERLAY.format(name=name, gpu=gpu, backend=backend, body=body)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        return str(folder.parent)

    return write


def test_a_teams_folder_may_come_from_the_environment(run, deployment, overlay, monkeypatch):
    words = ("plan", deployment, "--no-advice", "--no-save", "--json")
    before = json.loads(run(*words).out)["step"]["time_s"]
    folder = overlay()
    named = json.loads(run(*words, "--catalog", folder).out)["step"]["time_s"]
    monkeypatch.setenv("PLANNER_CATALOG", folder)
    found = json.loads(run(*words).out)["step"]
    assert found["time_s"] == named == pytest.approx(before + 1e-3)
    assert found["fixed_s"]["step_s"] == pytest.approx(1e-3)


def test_the_explained_plan_names_the_cost_and_its_file(run, deployment, overlay):
    shown = run("plan", deployment, "--no-advice", "--explain", "--catalog", overlay()).out
    assert "host time of a step that nothing hides" in shown
    assert "rtx-4090-vllm-runs (measured-here), 2026-11-30" in " ".join(shown.split())


def test_an_overlay_is_shown_with_its_evidence(run, overlay):
    words = ("catalog", "show", "calibrations", "rtx-4090-vllm-runs", "--catalog", overlay())
    found = json.loads(run(*words, "--json").out)
    assert found["figures"]["evidence"] == "measured-here"
    assert found["entry"]["host"] == {"step": 1e-3}


def test_a_sound_overlay_passes_the_check(run, overlay):
    assert run("catalog", "check", "--catalog", overlay()).code == 0


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"gpu": "rtx-4091"}, "rtx-4090-vllm-runs: gpu rtx-4091 is not in the catalogue"),
        ({"backend": "vlm"}, "rtx-4090-vllm-runs: backend vlm is not in the catalogue"),
        (
            {"name": "h100-sxm-vllm"},
            "h100-sxm-vllm: measures rtx-4090 under vllm, which its name belies",
        ),
    ],
)
def test_an_overlay_that_nothing_can_use_is_found(run, overlay, changes, fault):
    outcome = run("catalog", "check", "--catalog", overlay(**changes), "--json")
    assert outcome.code == 1
    assert json.loads(outcome.out)["faults"] == [fault]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("host: {step: 3}", "9:14: host.step: a time needs its unit"),
        ("host: {stpe: 1 ms}", "9:8: host.stpe: unknown field (did you mean 'step'?)"),
        ("efficiency: {gem: 1.1}", "9:14: efficiency.gem"),
        ("efficiency: {gemm: 0}", "9:20: efficiency.gemm: must be greater than 0"),
    ],
)
def test_a_faulty_overlay_ends_the_plan_with_its_place(run, deployment, overlay, body, place):
    outcome = run("plan", deployment, "--catalog", overlay(body))
    assert outcome.code == 2
    assert f"rtx-4090-vllm-runs.yaml:{place}" in outcome.err


def test_a_folder_of_overlays_alone_leaves_validate_the_constants_that_ship(run, overlay):
    pytest.importorskip("aiconfigurator_core")
    words = ("validate", "--family", "elementwise", "--gpu", "h100-sxm", "--json")
    assert run(*words, "--catalog", overlay()).out == run(*words).out
