"""`planner db`: the revision, a copy, export and import."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
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


def test_what_a_store_holds_is_printed(run, filled, tmp_path):
    """One of each, and the bytes of the file with its journal."""
    document = json.loads(run("db", "current", "--json").out)
    assert [document[kind] for kind in ("plans", "runs", "baselines")] == [1, 1, 1]
    assert document["size_bytes"] >= (tmp_path / "plans.db").stat().st_size > 0
    assert "baselines  1" in run("db", "current").out


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


@pytest.fixture
def extra(run, filled):
    """A second run, which is no baseline: its id. Nothing is older than now, all than 0 hours."""
    plan = json.loads(run("list", "--json").out)["plans"][0]["plan_id"]
    return json.loads(run("record", plan, "--value", "8ms", "--json").out)["run_id"]


def test_pruning_only_says_what_could_go(run, filled, extra):
    """The run that is no baseline; the plan is that of the baseline's run."""
    outcome = run("db", "prune", "--older-than", "0h")
    assert outcome.code == 0
    assert "could go: 1 run (11.0 B of files) and 0 results of plans" in outcome.out
    assert "nothing was changed; --yes removes this" in outcome.out
    assert extra in outcome.out
    assert filled not in outcome.out
    assert extra in run("history").out


def test_pruning_removes_with_yes_and_import_takes_it_back(run, filled, extra):
    outcome = run("db", "prune", "--older-than", "0h", "--yes", "--json")
    document = json.loads(outcome.out)
    assert document["removed"] is True
    assert [row["run_id"] for row in document["runs"]] == [extra]
    assert extra not in run("history").out
    assert filled in run("history").out
    assert "runs: 1 new, 0 already known" in run("db", "import", document["archive"]).out
    assert extra in run("history").out


def test_nothing_is_as_old_as_90_days_by_default(run, filled, extra):
    outcome = run("db", "prune", "--yes")
    assert outcome.out.startswith("nothing older than ")
    document = json.loads(run("db", "prune", "--yes", "--json").out)
    assert (document["runs"], document["plans"], document["archive"]) == ([], [], None)


def test_an_archive_goes_where_it_is_told(run, extra):
    outcome = run("db", "prune", "--older-than", "0d", "--yes", "--archive", "kept.jsonl")
    assert "kept in kept.jsonl; `planner db import` takes it back" in outcome.out
    head, line = Path("kept.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(head)["kind"] == "planner-export"
    assert json.loads(line)["run_id"] == extra


def test_upgrade_copies_go_when_asked_but_the_newest(run, filled, tmp_path):
    for number in (1, 2, 3):
        copy = tmp_path / f"plans.db.000{number}.bak"
        copy.write_bytes(b"copy")
        os.utime(copy, (number, number))
    left = sorted(tmp_path.glob("*.bak"))
    run("db", "prune", "--yes")
    assert sorted(tmp_path.glob("*.bak")) == left
    assert "plans.db.0001.bak" in run("db", "prune", "--backups").out
    assert sorted(tmp_path.glob("*.bak")) == left
    assert run("db", "prune", "--backups", "--yes").code == 0
    assert sorted(tmp_path.glob("*.bak")) == left[2:]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--older-than", "90"), "a span of time needs its unit, as in '90d'"),
        (("--older-than", "90m"), "unknown unit 'm' for a span of time"),
        (("--older-than", "-1d"), "must not be negative"),
        (("--older-than", "9999999d"), "nothing is as old as 9999999d"),
        (("--older-than", "0d", "--yes", "--archive", "chat.yaml"), "chat.yaml cannot be written"),
        (("--older-than", "0d", "--yes", "--archive", "no/a"), "no/a cannot be written: No such"),
    ],
)
def test_a_prune_that_is_put_wrong_ends_with_2_and_removes_nothing(run, extra, words, message):
    outcome = run("db", "prune", *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert extra in run("history").out


COMMANDS = [
    ("plan", "chat.yaml"),
    ("list",),
    ("show", "0"),
    ("record", "0", "--value", "9ms"),
    ("accept", "0"),
    ("baseline", "set", "main", "0"),
    ("baseline", "list"),
    ("history",),
    ("db", "current"),
    ("db", "export", "all.jsonl"),
    ("db", "backup", "copy.db"),
    ("db", "prune", "--yes"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("fault", ["no database", "damaged", "newer"])
def test_every_command_refuses_a_store_it_cannot_use_and_leaves_it(
    run, filled, tmp_path, words, fault
):
    """Exit code 2, one sentence with a hint, not a byte changed."""
    file = tmp_path / "plans.db"
    said = SPOIL[fault](file)
    before = file.read_bytes()
    outcome = run(*words)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
    assert outcome.err.rstrip().endswith(")")
    assert file.read_bytes() == before
    assert not (tmp_path / "all.jsonl").exists()
    assert not (tmp_path / "copy.db").exists()


def _no_database(file: Path) -> str:
    file.write_text("price: 0.69 USD/h\n" * 400)
    return "is no SQLite database"


def _damaged(file: Path) -> str:
    with file.open("r+b") as opened:
        opened.seek(100)
        opened.write(b"\xa5" * 3996)
    return "is damaged"


def _newer(file: Path) -> str:
    with closing(sqlite3.connect(file)) as store, store:
        store.execute("UPDATE alembic_version SET version_num = '9999'")
        store.execute("INSERT INTO schema_release VALUES ('9999', '8.1.0')")
    return "is of revision 9999, newer than this program knows (install inference-planner >= 8.1.0)"


SPOIL = {"no database": _no_database, "damaged": _damaged, "newer": _newer}
