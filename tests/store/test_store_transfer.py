"""Export and import of everything as JSON lines."""

from __future__ import annotations

import errno
import json

import pytest
from run_examples import FIRST, example_run
from store_examples import example_plan

from planner.errors import SpecError, StoreError, UsageError
from planner.store.database import open_store
from planner.store.transfer import export_lines, import_lines, write_lines
from planner.store.types import BaselineRow


@pytest.fixture
def filled(store):
    """Two plans, one with two results, two runs, and a baseline that superseded another."""
    store.save_plan(example_plan(0))
    store.save_plan(example_plan(0, result_hash="bb" * 32))
    store.save_plan(example_plan(1))
    for number in range(2):
        store.save_run(example_run(number))
        store.set_baseline("main", example_run(number).run_id, "ci")
    return store


def everything(store):
    return list(store.every_plan()), list(store.every_run()), store.every_baseline()


def test_an_export_fills_another_store_with_the_same(filled, tmp_path):
    """From either database into SQLite: 3 plans, 2 runs, 2 baselines."""
    lines = list(export_lines(filled))
    assert len(lines) == 1 + 3 + 2 + 2
    with open_store(str(tmp_path / "other.db")) as other:
        counts = import_lines(other, lines, "export.jsonl")
        assert counts == {"plan": (3, 0), "run": (2, 0), "baseline": (2, 0)}
        assert everything(other) == everything(filled)


def test_an_export_comes_back_into_a_store_of_the_same_kind(filled, url, tmp_path):
    """Importing what is there already changes nothing."""
    before = everything(filled)
    counts = import_lines(filled, list(export_lines(filled)), "export.jsonl")
    assert counts == {"plan": (0, 3), "run": (0, 2), "baseline": (0, 2)}
    assert everything(filled) == before


def test_a_file_from_sqlite_goes_into_either_database(store, tmp_path):
    with open_store(str(tmp_path / "first.db")) as first:
        first.save_run(example_run())
        import_lines(store, list(export_lines(first)), "export.jsonl")
    assert store.run(example_run().run_id) == example_run()


def test_a_run_exported_before_steps_were_read_has_none(filled, tmp_path):
    lines = []
    for line in export_lines(filled):
        document = json.loads(line)
        document.get("run", {}).pop("traced", None)
        lines.append(json.dumps(document))
    with open_store(str(tmp_path / "other.db")) as other:
        assert import_lines(other, lines, "export.jsonl")["run"] == (2, 0)
        assert other.run(example_run().run_id).run.traced is None


def head(**changes) -> str:
    return json.dumps({"kind": "planner-export", "format": 1} | changes)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "e.jsonl:1:1: no JSON object"),
        (["[]"], "e.jsonl:1:1: no JSON object"),
        (["{}"], "e.jsonl:1:1: this is no export of planner"),
        ([head(format=9)], "the export is of format 9, not 1"),
        ([head(), '{"kind": "thing"}'], "e.jsonl:2:1: unknown kind 'thing'"),
        ([head(), '{"kind": "run"}'], "e.jsonl:2:1: the run is damaged"),
        ([head(), '{"kind": "plan", "created_at": 3}'], "e.jsonl:2:1: the plan is damaged"),
    ],
)
def test_lines_that_are_wrong_are_refused_with_their_place(store, lines, message):
    with pytest.raises(SpecError) as refused:
        import_lines(store, lines, "e.jsonl")
    assert message in str(refused.value)


def test_a_baseline_whose_run_is_nowhere_is_refused_in_a_sentence(filled, url, tmp_path):
    """A line cut out of an export: the run isn't in this store, and neither is it in the file."""
    lines = [line for line in export_lines(filled) if json.loads(line)["kind"] != "run"]
    with open_store(str(tmp_path / "other.db")) as other:
        with pytest.raises(StoreError, match=r"lacks what is referred to .* imported whole"):
            import_lines(other, lines, "export.jsonl")
        assert len(list(other.every_plan())) == 3


def test_a_server_refuses_a_baseline_without_its_run_in_the_same_words(store):
    row = BaselineRow("b" * 12, "main", "9" * 12, FIRST, "ci", None)
    with pytest.raises(StoreError, match="lacks what is referred to"):
        store.keep_baseline(row)


def test_an_export_that_cannot_be_written_leaves_no_half_a_file(filled, tmp_path):
    """A line that fails stands for a disk that is full."""

    def lines():
        yield "{}\n"
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "export.jsonl"
    with pytest.raises(
        UsageError, match=r"No space left on device \(name a file where there is more"
    ):
        write_lines(file, lines())
    assert not file.exists()


def test_lines_before_a_wrong_one_are_kept(filled, tmp_path):
    lines = [*list(export_lines(filled))[:3], "{"]
    with open_store(str(tmp_path / "other.db")) as other:
        with pytest.raises(SpecError):
            import_lines(other, lines, "export.jsonl")
        assert len(list(other.every_plan())) == 2


def test_a_name_that_stands_for_something_else_here_stays_as_it_is(filled, tmp_path):
    with open_store(str(tmp_path / "other.db")) as other:
        other.save_run(example_run(7))
        mine = other.set_baseline("main", example_run(7).run_id, "ann")
        counts = import_lines(other, list(export_lines(filled)), "export.jsonl")
        assert counts["baseline"] == (1, 1)
        assert other.baseline_history("main")[-1] == mine
