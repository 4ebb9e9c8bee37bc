"""Faults are printed at their place in what the user wrote; nothing else reaches stdout."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli.main import main, root


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "planner", *words]


def test_every_fault_of_a_file_is_shown_with_its_line_and_a_caret(run, deployment, tmp_path):
    wrong = "model: qwen2.5-0.5b-instruct\ngpu: rtx-4090\nstep: {decode: {batch: 0, contxt: 4}}\n"
    (tmp_path / deployment).write_text(wrong)
    outcome = run("plan", deployment)
    assert (outcome.code, outcome.out) == (2, "")
    assert "chat.yaml:3:24: step.decode.batch: " in outcome.err
    assert (
        "chat.yaml:3:27: step.decode.contxt: unknown field (did you mean 'context'?)" in outcome.err
    )
    assert (
        "   3 | step: {decode: {batch: 0, contxt: 4}}\n     |                           ^"
        in outcome.err
    )


def test_a_file_is_named_as_the_user_typed_it(run, deployment, tmp_path):
    (tmp_path / deployment).write_text("gpu: 3\n")
    assert run("plan", "chat.yaml").err.startswith("chat.yaml:")
    assert run("plan", str(tmp_path / "chat.yaml")).err.startswith(f"{tmp_path}/chat.yaml:")


def test_a_missing_file_ends_with_2(run, deployment):
    outcome = run("plan", "caht.yaml")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "there is no file caht.yaml (did you mean 'chat.yaml'?)\n"


def test_an_unknown_name_ends_with_2_at_its_place(run, deployment):
    outcome = run("plan", deployment, "--set", "gpu=rtx4090")
    assert outcome.code == 2
    assert (
        "--set gpu=rtx4090:1:5: gpu: unknown gpu 'rtx4090' (did you mean 'rtx-4090'?)"
        in outcome.err
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("step.decode.bach=3", "--set step.decode.bach=3:1:13: step.decode.bach: unknown field"),
        ("step.decode.batch", "--set step.decode.batch:1:18: expected PATH=VALUE"),
        ("step.decode.batch=many", "--set step.decode.batch=many:1:19: step.decode.batch: "),
        ("memory.utilization=1.5", "--set memory.utilization=1.5:1:20: memory.utilization: "),
    ],
)
def test_a_setting_that_is_wrong_ends_with_2_at_its_place(run, deployment, text, place):
    outcome = run("plan", deployment, "--set", text)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(place)


def test_a_missing_catalogue_folder_ends_with_2(run, deployment):
    outcome = run("plan", deployment, "--catalog", "nowhere")
    assert (outcome.code, outcome.err) == (2, "there is no catalogue folder nowhere\n")


def test_a_bug_keeps_its_traceback(monkeypatch):
    def broken(*_args, **_kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(root, "invoke", broken)
    with pytest.raises(ZeroDivisionError):
        main(["list"])


def test_a_reader_that_goes_away_is_no_error(deployment, tmp_path):
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        command("plan", deployment, "--db", str(tmp_path / "plans.db")),
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("asked", [("plan", None, "--no-save"), ("--help",)])
def test_output_that_finds_no_room_is_told(asked, deployment):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command(*(word or deployment for word in asked)),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"the output cannot be written: No space left on device")
    assert b"Traceback" not in ended.stderr


def test_a_plan_is_kept_though_its_reader_goes_away(run, deployment, tmp_path):
    read, write = os.pipe()
    os.close(read)
    database = str(tmp_path / "plans.db")
    subprocess.run(command("plan", deployment, "--db", database), stdout=write, check=True)
    os.close(write)
    assert "small chat" in run("list").out


def test_ctrl_c_ends_with_130_and_a_word(tmp_path, hears_ctrl_c):
    waiting = tmp_path / "chat.yaml"
    os.mkfifo(waiting)
    started = subprocess.Popen(command("plan", str(waiting)), stderr=subprocess.PIPE)
    with waiting.open("wb"):  # opens once the command waits for the file's text
        started.send_signal(signal.SIGINT)
        _, error = started.communicate()
    assert started.returncode == 130
    assert error.decode().strip() == "stopped"


def test_a_terminal_without_unicode_gets_a_report_all_the_same(deployment):
    ended = subprocess.run(
        command("plan", deployment, "--no-save"),
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b" a step " in ended.stdout


def test_colour_stays_out_of_a_file(run, deployment):
    assert "\x1b" not in run("plan", deployment).out
