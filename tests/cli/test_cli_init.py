"""`planner init`: questions or options become a commented deployment that plans."""

import io
import json
import re
from pathlib import Path

import pytest

from planner.cli.common.asking import near
from planner.spec.load import load_deployment

QUICK = ("--model", "qwen2.5-0.5b-instruct", "--gpu", "rtx-4090", "--engine", "vllm", "--tp", "1")
STEP = ("--batch", "4", "--context", "512")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Files go to the test's own folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def typed(monkeypatch):
    """Lines that somebody types."""
    return lambda *lines: monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))


def left():
    """What lies in the folder, the store aside."""
    return sorted(path.name for path in Path().iterdir() if not path.name.startswith("plans.db"))


def test_options_alone_make_a_file_that_plans_at_once(run):
    outcome = run("init", *QUICK, *STEP, "--yes", "-o", "mine.yaml")
    assert (outcome.code, outcome.err) == (0, "")
    assert "it fits" in outcome.out
    assert "planner plan mine.yaml" in outcome.out
    found = load_deployment(Path("mine.yaml"))
    assert (found.model, found.gpu, found.backend.name) == (
        "qwen2.5-0.5b-instruct", "rtx-4090", "vllm",
    )  # fmt: skip
    assert (found.step.decode.batch, found.step.decode.context) == (4, 512)
    assert run("plan", "mine.yaml", "--no-save").code == 0
    assert left() == ["mine.yaml"]


def test_what_stands_in_comments_holds_when_it_is_uncommented(run):
    run("init", *QUICK, *STEP, "--yes")
    text = Path("deploy.yaml").read_text("utf-8")
    words = r"^# (?=(?:precision|memory|price): )"
    changed, count = re.subn(words, "", text, flags=re.MULTILINE)
    assert count == 3
    Path("deploy.yaml").write_text(changed, "utf-8")
    found = load_deployment(Path("deploy.yaml"))
    assert found.precision.kv_cache == "fp8"
    assert (found.memory.utilization, found.price) == (0.9, 2.5)


def test_questions_offer_the_usual_and_names_near_to_a_slip(run, typed):
    typed("qwen2.5 0.5b", "", "rtx 4090", "", "pytorch-eager", "1")
    outcome = run("init")
    assert outcome.code == 0
    assert "no model 'qwen2.5 0.5b'; near it: qwen2.5-0.5b-instruct" in outcome.err
    assert "model [qwen2.5-0.5b-instruct]:" in outcome.err
    assert "no gpu 'rtx 4090'; near it: rtx-4090" in outcome.err
    found = load_deployment(Path("deploy.yaml"))
    assert (found.model, found.gpu) == ("qwen2.5-0.5b-instruct", "rtx-4090")
    # an engine that serves no requests is asked for a step
    assert (found.step.decode.batch, found.step.decode.context) == (16, 4096)


def test_users_are_asked_for_where_the_engine_serves_them(run, typed):
    typed("8", "100", "20")
    outcome = run("init", *QUICK, "--json")
    document = json.loads(outcome.out)
    assert document["kind"] == "init"
    assert document["fits"]
    assert document["text"] == Path("deploy.yaml").read_text("utf-8")
    workload = load_deployment(Path("deploy.yaml")).workload
    assert (workload.concurrency, workload.input, workload.output) == (8, 100, 20)


def test_a_model_too_large_for_one_gpu_lies_on_the_fewest_that_hold_it(run):
    # 70.6e9 parameters × 2 bytes = 141 GB: more than the 80 GiB = 86 GB of one, and less than
    # 0.9 of the 172 GB of two
    words = ("--model", "llama-3.3-70b-instruct", "--gpu", "h100-sxm", "--engine", "vllm")
    assert run("init", *words, *STEP, "--yes").code == 0
    assert load_deployment(Path("deploy.yaml")).parallel.tensor == 2


def test_what_fits_nowhere_is_written_and_ends_with_1(run):
    words = ("--model", "llama-3.3-70b-instruct", "--gpu", "t4", "--engine", "pytorch-eager")
    outcome = run("init", *words, "--tp", "1", *STEP, "--yes")
    assert outcome.code == 1
    assert "DOES NOT FIT" in outcome.out
    assert left() == ["deploy.yaml"]
    # the T4 has no BF16
    assert load_deployment(Path("deploy.yaml")).precision.weights == "fp16"


def test_an_existing_file_is_kept_unless_force_is_given(run):
    Path("deploy.yaml").write_text("mine", "utf-8")
    outcome = run("init", *QUICK, *STEP, "--yes")
    assert outcome.code == 2
    assert "deploy.yaml exists (--force writes over it)" in outcome.err
    assert Path("deploy.yaml").read_text("utf-8") == "mine"
    assert run("init", *QUICK, *STEP, "--yes", "--force").code == 0
    assert Path("deploy.yaml").read_text("utf-8") != "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "qwen2.5-7b-instrct"), "did you mean 'qwen2.5-7b-instruct'?"),
        (("--gpu", "h100-smx"), "did you mean 'h100-sxm'?"),
        (("--engine", "vlm"), "did you mean 'vllm'?"),
        (("--users", "4", "--batch", "4"), "a load is users or a step"),
        (("--model", "./absent.json"), "absent.json"),
        (("--users", "0"), "--users"),
        (("-o", "absent/deploy.yaml", *QUICK, *STEP), "cannot be written"),
    ],
)
def test_a_wrong_answer_ends_with_2_and_writes_nothing(run, words, said):
    outcome = run("init", "--yes", *words)
    assert outcome.code == 2
    assert said in outcome.err
    assert left() == []


class Interrupted(io.StringIO):
    """A terminal on which somebody answers once, and presses Ctrl-C at the second question."""

    def readline(self, *size: int) -> str:
        if self.tell():
            raise KeyboardInterrupt
        return super().readline(*size)


def test_ctrl_c_leaves_nothing_behind(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", Interrupted("qwen2.5-0.5b-instruct\nrtx-4090\n"))
    outcome = run("init")
    assert outcome.code == 130
    assert left() == []


def test_ctrl_c_while_the_file_is_put_in_place_leaves_the_old_one(run, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    Path("deploy.yaml").write_text("mine", "utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        assert run("init", *QUICK, *STEP, "--yes", "--force").code == 130
    assert left() == ["deploy.yaml"]
    assert Path("deploy.yaml").read_text("utf-8") == "mine"


def test_input_that_ends_is_no_answer(run, typed):
    typed("qwen2.5-0.5b-instruct")
    assert run("init").code == 130
    assert left() == []


def test_names_that_hold_every_part_come_before_those_spelt_alike():
    known = ["h100-pcie", "h100-sxm", "h200-sxm", "a100-80gb-sxm"]
    assert near("SXM h100", known)[0] == "h100-sxm"
    assert near("h10-sxm", known)[0] == "h100-sxm"
    assert near("nothing like it", known) == []
