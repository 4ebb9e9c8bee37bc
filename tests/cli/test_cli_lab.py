"""`planner lab` without torch: jobs for elsewhere, and what is made of a measured folder."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))
from lab_points import write

from planner.cli.accept import EXIT_CODES

LAB = """\
name: tiny step
model: qwen2.5-0.5b-instruct
gpu: h200-sxm
backend: {name: pytorch-eager, version: "2.13"}
step: {decode: {batch: 4, context: 256}}
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """The lab's deployment in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.yaml").write_text(LAB, encoding="utf-8")
    return "lab.yaml"


def test_a_job_holds_the_step_and_the_shapes_it_is_made_of(run, spec):
    """Projections of Qwen2.5-0.5B by its config, q_proj first, the LM head among them.

    Those of Q, K and V have a bias, that of the output none.
    """
    done = run("lab", "job", spec, "--device", "cpu")
    assert done.code == 0
    job = json.loads(done.out)
    assert job["projections"] == [
        [896, 896, True],
        [896, 128, True],
        [896, 896, False],
        [896, 4864, False],
        [4864, 896, False],
        [896, 151936, False],
    ]
    assert job["heads"] == [[14, 2, 64]]
    assert (job["step"]["batch"], job["step"]["context"]) == (4, 256)
    assert job["context"]["model"] == "qwen2.5-0.5b-instruct"


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (("backend.name=vllm", "backend.version='0.26'"), "the lab runs pytorch-eager, not vllm"),
        (("parallel.tensor=2",), "on one device"),
        (("precision.weights=fp8",), "not fp8"),
        (("step=null", "workload.batch=1", "workload.input=8", "workload.output=8"), "decode step"),
        (("model=gemma-2-2b-it",), "softcap"),
        (("model=nosuch",), "unknown model"),
    ],
)
def test_what_the_lab_does_not_run_is_refused_with_its_place(run, spec, sets, said):
    done = run("lab", "job", spec, *(word for each in sets for word in ("--set", each)))
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_measured_folder_becomes_a_calibration_a_plan_and_a_verdict(run, spec, tmp_path):
    """The predicted step lies between the weights' time alone and twice that; the exit code is
    that of the verdict on the measured 50 ms."""
    folder = write(tmp_path / "lab")
    done = run("lab", "take", spec, "--out", str(folder), "--json")
    found = json.loads(done.out)
    assert found["gpu"] == "cpu-made-up-chip-9000-4-cores"
    assert {fit["kernel"] for fit in found["fits"]} == {
        "gemm.bf16",
        "elementwise.stream",
        "attention_decode.fa2.bf16",
    }
    # 494 M parameters of 2 bytes, all but the tied embedding's look-up read once at 40 GB/s
    assert 494e6 * 2 / 40e9 < found["step"]["predicted_s"] < 2 * 494e6 * 2 / 40e9
    assert done.code == EXIT_CODES[found["verdict"]["verdict"]]
    assert found["verdict"]["judgements"][0]["measured"] == pytest.approx(0.05)
    again = ("--set", "gpu=cpu-made-up-chip-9000-4-cores", "--catalog", str(folder / "catalog"))
    plan = run("plan", spec, *again, "--json", "--no-save")
    assert json.loads(plan.out)["plan_id"] == found["plan_id"]
    kernels = json.loads(plan.out)["kernels"]
    assert {kernel["evidence"] for kernel in kernels} == {"measured-here"}
    history = json.loads(run("history", "--json").out)
    assert [row["run_id"] for row in history["rows"]] == found["run_ids"]


def test_the_report_reads_from_ceilings_to_verdict(run, spec, tmp_path):
    folder = write(tmp_path / "lab")
    done = run("lab", "take", spec, "--out", str(folder))
    headings = [
        "what it reaches",
        "M climbs the roofline",
        "Kernel models fitted",
        "which was in no fit",
        "What came of it",
    ]
    places = [done.out.index(each) for each in headings]
    assert places == sorted(places)
    assert (folder / "roofline.png").stat().st_size > 10_000
    assert "vega" in (folder / "roofline.html").read_text()


def test_a_folder_without_a_step_or_without_points_is_refused(run, spec, tmp_path):
    empty = run("lab", "take", spec, "--out", str(tmp_path / "nothing"))
    assert empty.code == 2
    assert "holds no step" in empty.err
    folder = write(tmp_path / "lab")
    (folder / "run.json").unlink()
    half = run("lab", "take", spec, "--out", str(folder))
    assert half.code == 2
    assert "holds no step" in half.err


def test_a_step_of_another_deployment_is_refused(run, spec, tmp_path):
    folder = write(tmp_path / "lab")
    done = run("lab", "take", spec, "--set", "step.decode.batch=8", "--out", str(folder))
    assert done.code == 2
    assert "step.decode.batch is 4" in done.err


def test_without_torch_the_lab_says_how_to_get_it(run, spec, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run("lab", "run", spec)
    assert done.code == 2
    assert "inference-planner[lab]" in done.err
