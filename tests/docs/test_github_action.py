"""The GitHub Action and the pre-commit hooks: what is in the files runs."""

import json
import os
import shlex
import subprocess
import sys

import pytest
import yaml
from docs_pages import ROOT, blocks

ACTION = ROOT / "docs/examples/github-action"
CHAT = """\
name: small chat
model: qwen2.5-0.5b-instruct
gpu: rtx-4090
step: {decode: {batch: BATCH, context: 1024}}
"""


def program(path, *lines):
    """An executable shell script."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder for a test, with `planner` in its bin/."""
    found = tmp_path_factory.mktemp("action")
    program(found / "bin/planner", f'exec {sys.executable} -m planner "$@"')
    return found


def ran(place, *words, cwd=None, **more):
    """A command that finds `planner`; git asks nobody who its author is."""
    who = {
        f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    environment = {**os.environ, **who, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **more}
    environment["PATH"] = f"{place / 'bin'}:{environment['PATH']}"
    return subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=cwd, env=environment
    )


@pytest.fixture(scope="module")
def repository(place):
    """Two commits: one deployment is changed, one goes, one comes and is wrong; others stay."""
    folder = place / "repository"
    folder.mkdir()

    def commit(**files):
        for name, text in files.items():
            path = folder / f"{name}.yaml"
            path.unlink() if text is None else path.write_text(text, encoding="utf-8")
        for words in (("add", "--all"), ("commit", "--quiet", "--message", "more")):
            ended = ran(place, "git", *words, cwd=folder)
            assert ended.returncode == 0, ended.stderr

    ran(place, "git", "init", "--quiet", cwd=folder)
    commit(
        **{"chat bot": CHAT.replace("BATCH", "4")},
        old=CHAT.replace("BATCH", "1"),
        same=CHAT.replace("BATCH", "2"),
        other="gpu: none\n",
    )
    commit(
        **{"chat bot": CHAT.replace("BATCH", "8")},
        old=None,
        new=CHAT.replace("BATCH", "x"),
        other="gpu: more\n",
    )
    return folder


@pytest.fixture(scope="module")
def comment(place, repository):
    """What the script prints of the second commit."""
    return ran(place, "sh", str(ACTION / "plan-diff.sh"), "HEAD~1", cwd=repository)


def test_a_changed_deployment_gets_its_diff_as_markdown(comment):
    part = comment.stdout.split("### `chat bot.yaml`")[1].split("### ")[0]
    assert "| what differs | before | after |\n| :-- | :-- | :-- |" in part
    workload = "decode, batch {}, context 1,024"
    assert f"| workload | {workload.format(4)} | {workload.format(8)} |" in part
    assert "| fits | yes | yes |  |" in part


def test_what_is_wrong_gone_or_no_deployment_is_told(comment):
    assert comment.stdout.startswith("<!-- planner -->\n")
    assert "### `old.yaml`\n\nIt is removed." in comment.stdout
    assert "**It cannot be planned.**\n\n```text\nnew.yaml:4:" in comment.stdout
    assert "same.yaml" not in comment.stdout  # it did not change
    assert "other.yaml" not in comment.stdout  # it is no deployment


def test_a_deployment_that_cannot_be_planned_fails_the_job(comment):
    assert (comment.returncode, comment.stderr) == (2, "")


def test_the_script_leaves_the_repository_as_it_was(comment, place, repository):
    assert ran(place, "git", "worktree", "list", cwd=repository).stdout.count("\n") == 1
    assert ran(place, "git", "status", "--short", cwd=repository).stdout == ""


def test_a_commit_that_is_not_there_is_told(place, repository):
    ended = ran(place, "sh", str(ACTION / "plan-diff.sh"), "absent", cwd=repository)
    assert ended.returncode == 2
    assert "no common commit with absent" in ended.stderr


def test_nothing_that_changed_is_said_so(place, repository):
    ended = ran(place, "sh", str(ACTION / "plan-diff.sh"), "HEAD", cwd=repository)
    assert ended.returncode == 0
    assert ended.stdout.endswith("No deployment changed.\n")


@pytest.mark.parametrize(("known", "method"), [("", "POST"), ("17\n18", "PATCH")])
def test_the_comment_of_the_last_run_is_replaced(place, tmp_path, known, method):
    """The stand-in for `gh` notes what it is asked: there is no GitHub here."""
    program(
        tmp_path / "bin/gh",
        f'echo "$@" >> {tmp_path}/asked',
        f"case $2 in --method) ;; *) printf '{known}' ;; esac",
    )
    (tmp_path / "plans.md").write_text("<!-- planner -->\n", encoding="utf-8")
    words = ("sh", str(ACTION / "comment.sh"), "me/mine", "5", str(tmp_path / "plans.md"))
    ended = ran(place, *words, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert ended.returncode == 0, ended.stderr
    last = (tmp_path / "asked").read_text("utf-8").splitlines()[-1]
    end = "issues/comments/17" if known else "issues/5/comments"
    assert f"--method {method} repos/me/mine/{end} -F body=@" in last


def test_the_action_and_the_workflow_are_whole():
    """Steps name inputs that exist and scripts that lie beside them; nobody's text is run."""
    action = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))
    steps = action["runs"]["steps"]
    said = json.dumps(steps)
    assert all(f"inputs.{name}" in said for name in action["inputs"])
    scripts = {path.name for path in ACTION.glob("*.sh")}
    assert all(f"$GITHUB_ACTION_PATH/{name}" in said for name in scripts)
    assert not any("${{" in step.get("run", "") for step in steps)
    assert all("shell" in step for step in steps if "run" in step)
    workflow = yaml.safe_load((ACTION / "workflow.yml").read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    (job,) = workflow["jobs"].values()
    assert job["steps"][0]["with"]["fetch-depth"] == 0
    assert job["steps"][-1]["uses"] == "./.github/actions/plan"


def hooks():
    """The repository's hooks by id."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    return {hook["id"]: hook for hook in yaml.safe_load(text)}


def test_the_page_uses_hooks_that_exist():
    (page,) = blocks("docs/examples/github-action/README.md", "yaml")
    used = [hook["id"] for repo in yaml.safe_load(page)["repos"] for hook in repo["hooks"]]
    assert set(used) == hooks().keys()
    assert all({"name", "entry", "language", "files"} <= hook.keys() for hook in hooks().values())


def test_the_hook_plans_each_file_and_stops_at_the_first_that_is_wrong(place, tmp_path):
    """pre-commit runs the entry with the names of the files behind it."""
    (tmp_path / "a b.yaml").write_text(CHAT.replace("BATCH", "4"), encoding="utf-8")
    (tmp_path / "b.yaml").write_text(CHAT.replace("BATCH", "x"), encoding="utf-8")
    entry = shlex.split(hooks()["planner-plan"]["entry"])
    ended = ran(place, *entry, "a b.yaml", "b.yaml", "absent.yaml", cwd=tmp_path)
    assert ended.returncode == 2
    assert "fits" in ended.stdout
    assert "b.yaml:4:" in ended.stderr
    assert "absent" not in ended.stderr
