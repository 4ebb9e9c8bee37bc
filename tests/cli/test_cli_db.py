"""`planner db`: the revision, a copy, export and import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def filled(run, deployment):
    """A store with a plan, a run of it and a baseline: the id of the run."""
    plan = json.loads(run("plan", deployment, "--no-advice", "--json").out)
    recorded = json.loads(run("record", plan["plan_id"], "--value", "9ms", "--json").out)
    run("baseline", "set", "main", recorded["run_id"], "--by", "ci")
    return recorded["run_id"]


def test_the_revision_and_the_place_are_printed(run, filled, tmp_path):
    document = json.loads(run("db", "current", "--json").out)
    assert document["place"] == str(tmp_path / "plans.db")
    assert document["revision"].isdecimal()
    assert f"revision {document['revision']}" in run("db", "current").out


def test_all_of_a_store_moves_to_another(run, filled):
    """One plan, one run, one baseline."""
    assert "3 plans, runs and baselines" in run("db", "export", "all.jsonl").out
    counts = json.loads(run("db", "import", "all.jsonl", "--db", "other.db", "--json").out)
    assert counts["plan"] == counts["run"] == counts["baseline"] == {"new": 1, "known": 0}
    here, there = (
        run("accept", filled, "--json", *words).out for words in ((), ("--db", "other.db"))
    )
    assert json.loads(here) == json.loads(there)
    assert "runs: 0 new, 1 already known" in run("db", "import", "all.jsonl").out


def test_a_copy_holds_the_same(run, filled):
    assert run("db", "backup", "copy.db").code == 0
    assert filled in run("history", "--db", "copy.db").out
    assert "is there already" in run("db", "backup", "copy.db").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("export", "chat.yaml"), "chat.yaml cannot be written: File exists"),
        (("import", "absent.jsonl"), "absent.jsonl cannot be read: No such file"),
        (("import", "chat.yaml"), "chat.yaml:1:1: no JSON object"),
        (("import", "bytes"), "bytes is no text"),
        (("backup", "absent/copy.db"), "cannot be opened"),
    ],
)
def test_a_file_that_is_wrong_ends_with_2_and_one_sentence(run, filled, words, message):
    Path("bytes").write_bytes(b"\xff\xfe")
    outcome = run("db", *words)
    assert outcome.code == 2
    assert message in outcome.err
