"""`planner completion`: the shell asks by click's protocol, this program answers in words."""

import json
import shutil
import subprocess
import sys

import pytest


@pytest.fixture
def tab(run, monkeypatch):
    """The words offered behind a line, by the protocol in which bash asks."""

    def _tab(*line: str) -> list[str]:
        words = ["planner", *line]
        monkeypatch.setenv("COMP_WORDS", " ".join(words[:-1]) + " " + words[-1])
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_PLANNER_COMPLETE", "bash_complete")
        outcome = run()
        monkeypatch.delenv("_PLANNER_COMPLETE")
        assert (outcome.code, outcome.err) == (0, "")
        return outcome.out.split()

    return _tab


def plain(*words: str) -> list[str]:
    """Words as bash reads them: their type first."""
    return [f"plain,{word}" for word in words]


@pytest.mark.parametrize(
    ("shell", "opening"),
    [
        ("bash", "_planner_completion() {"),
        ("zsh", "#compdef planner"),
        ("fish", "function _planner_completion;"),
    ],
)
def test_each_shell_gets_a_script_that_asks_this_program(shell, opening, run):
    outcome = run("completion", shell)
    assert outcome.code == 0
    assert outcome.out.startswith(opening)
    assert f"_PLANNER_COMPLETE={shell}_complete" in outcome.out


def test_an_unknown_shell_is_a_question_put_wrong(run):
    assert run("completion", "tcsh").code == 2


def test_commands_and_options_are_offered(tab):
    assert tab("comp") == plain("completion")
    assert tab("diff", "--g") == plain("--gpu")


def test_names_of_the_catalogue_are_offered(tab):
    assert tab("catalog", "show", "gpus", "rtx-409") == plain("rtx-4090")
    assert tab("catalog", "show", "op", "rms") == plain("rms_norm")
    assert tab("catalog", "list", "cal") == plain("calibrations")
    assert tab("schema", "dep") == plain("deployment")
    assert tab("intensity", "qwen2.5-7b-instruct-") == plain("qwen2.5-7b-instruct-awq")


def test_the_last_of_several_names_is_completed(tab):
    assert tab("diff", "a.yaml", "--gpu", "l40s,rtx-409") == plain("l40s,rtx-4090")


def test_names_of_the_users_own_folder_count(tab, tmp_path, monkeypatch):
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus/rtx-4090-blue.yaml").touch()
    monkeypatch.setenv("PLANNER_CATALOG", str(tmp_path))
    assert tab("intensity", "m", "--gpu", "rtx-409") == plain("rtx-4090", "rtx-4090-blue")


def test_paths_of_settings_are_offered_and_names_behind_them(tab):
    assert tab("plan", "a.yaml", "--set", "step.decode.") == plain(
        "step.decode.batch=", "step.decode.context="
    )
    assert "plain,backend.flags.enforce_eager=" in tab("plan", "a.yaml", "--set", "backend.flags.")
    assert tab("plan", "a.yaml", "--set", "gpu=rtx-409") == plain("gpu=rtx-4090")
    assert tab("plan", "a.yaml", "--set", "step.decode.batch=") == []


def test_ids_and_baselines_of_the_store_are_offered(tab, run, deployment):
    plan_id = json.loads(run("plan", deployment, "--no-advice", "--json").out)["plan_id"]
    assert tab("show", plan_id[:3]) == plain(plan_id)
    assert tab("record", "") == plain(plan_id)
    assert tab("diff", "") == plain(plan_id, "chat.yaml")
    run_id = json.loads(run("record", plan_id, "--value", "1 ms", "--json").out)["run_id"]
    run("baseline", "set", "main", run_id)
    assert tab("accept", "") == plain(run_id)
    assert tab("accept", run_id, "--baseline", "m") == plain("main")


def test_asking_for_ids_makes_no_store(tab, tmp_path):
    assert tab("show", "") == []
    assert not (tmp_path / "plans.db").exists()


def test_a_store_that_cannot_be_read_offers_nothing(tab, tmp_path):
    (tmp_path / "plans.db").write_text("no database " * 100, encoding="utf-8")
    assert tab("show", "") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_itself_completes_with_the_script(run, tmp_path):
    program = tmp_path / "planner"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m planner "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    asked = (
        f"{run('completion', 'bash').out}\nCOMP_WORDS=(planner catalog show gpus rtx-409)\n"
        f'COMP_CWORD=4\n_planner_completion {program}\necho "${{COMPREPLY[@]}}"\n'
    )
    ended = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert ended.stdout == "rtx-4090\n"


def test_no_space_follows_a_path_of_a_setting_in_bash(run):
    assert "[[ $value == *= ]] && compopt -o nospace" in run("completion", "bash").out
