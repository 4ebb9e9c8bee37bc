"""`planner validate --source aiconfigurator`, on a wheel of our own that holds a few made-up rows."""

import csv
import importlib
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "calibrate"))
from silicon_samples import cells, text

SOURCE = ("validate", "--source", "aiconfigurator")
ROWS = (
    cells(id="eight-users", batch_size=8, silicon_tpot_ms=9.0),
    cells(id="one-user", batch_size=1, silicon_tpot_ms=7.0),
    cells(id="two-gpus", batch_size=8, tp_size=2, moe_tp_size=2, silicon_tpot_ms=6.0),
    cells(id="again", batch_size=8, silicon_tpot_ms=9.0),
    cells(id="too-fast", batch_size=16, silicon_tpot_ms=0.5),
    cells(id="unknown", model_path="somebody/else", silicon_tpot_ms=9.5),
)


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Installs a package of the wheel's name in front of any other: a file and its version."""
    monkeypatch.delitem(sys.modules, "aiconfigurator_core", raising=False)
    folder = tmp_path / "site"
    systems = folder / "aiconfigurator_core" / "systems"
    systems.mkdir(parents=True)
    (folder / "aiconfigurator_core" / "__init__.py").write_text("", encoding="utf-8")
    (systems / "silicon_sample.csv").write_text(text(*ROWS), encoding="utf-8")
    about = folder / "aiconfigurator_core-9.9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: aiconfigurator-core\nVersion: 9.9\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return systems / "silicon_sample.csv"


def document(run, *words):
    outcome = run(*SOURCE, "--json", *words)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_every_row_is_predicted_or_refused_with_its_reason(run, wheel):
    """Six rows; one model is unknown, one TPOT is below what its bytes take."""
    body = document(run, "--rows", "all")
    assert (body["kind"], body["source"]) == ("silicon", "aiconfigurator-core 9.9")
    rows = {row["id"]: row for row in body["measurements"]}
    assert rows["unknown"]["refused"] == "model 'somebody/else' is not in the catalogue"
    assert rows["again"]["flags"] == "duplicate"
    # 16 GB of weights at 3.35 TB/s are 4.8 ms
    assert rows["too-fast"]["flags"] == "impossible"
    assert [row["id"] for row in rows.values() if row["clean"]] == [
        "eight-users", "one-user", "two-gpus", "unknown",
    ]  # fmt: skip
    assert body["refused"] == [
        {"reason": rows["unknown"]["refused"], "rows": 1, "example": "unknown"}
    ]


def test_errors_are_of_predicted_over_measured(run, wheel):
    """The set of all rows: the median of |predicted / measured − 1| over the listed rows."""
    body = document(run, "--rows", "all")
    offs = sorted(
        abs(row["tpot_predicted_s"] / row["tpot_measured_s"] - 1)
        for row in body["measurements"]
        if row["tpot_predicted_s"]
    )
    (everything,) = (row for row in body["sets"] if row["name"] == "all")
    assert (everything["rows"], everything["predicted"]) == (6, 5)
    assert everything["tpot"]["median"] == pytest.approx(offs[2])
    assert everything["tpot"]["mean"] == pytest.approx(sum(offs) / 5)


def test_degrees_of_tensor_parallelism_are_ordered(run, wheel):
    """8 users on one and on two GPUs: one pair, and two GPUs are faster by any plan."""
    tensor = document(run, "--rows", "all")["ranking"]["all"]["tensor"]
    assert (tensor["pairs"], tensor["right"]) == (1, 1.0)


def test_the_even_half_is_what_one_sees_unasked(run, wheel):
    """Half of the ids, by their SHA-1."""
    halves = {row["half"] for row in document(run)["measurements"]}
    assert halves == {"even"}
    assert {row["half"] for row in document(run, "--rows", "odd")["measurements"]} == {"odd"}


def test_of_all_rows_only_the_even_half_is_broken_down(run, wheel):
    """So that nobody studies the other."""
    body = document(run, "--rows", "all", "--by", "half")
    (group,) = body["groups"]
    assert [row["group"] for row in group["rows"]] == [{"half": "even"}]


def test_a_summary_holds_no_row(run, wheel):
    """Errors may be passed on, the measurements are others'."""
    text = run(*SOURCE, "--json", "--summary", "--rows", "all").out
    assert "measurements" not in json.loads(text)
    assert "eight-users" not in text


def test_rows_are_written_as_a_table(run, wheel, tmp_path):
    """A CSV of ids, labels, marks and figures."""
    out = tmp_path / "rows.csv"
    assert run(*SOURCE, "--rows", "all", "-o", str(out)).code == 0
    with out.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["id"] for row in rows} == {row["id"] for row in ROWS}
    assert {row["engine"] for row in rows} == {"vllm"}


def test_the_report_has_every_section(run, wheel):
    """Sets, marks, order, groups and refusals, each under its heading."""
    outcome = run(*SOURCE, "--rows", "all", "--by", "engine,gpus")
    for words in ("without marks", "marks", "two engines, TPOT", "clean rows by engine, gpus"):
        assert words in outcome.out
    assert "1: model 'somebody/else' is not in the catalogue" in outcome.out


def test_so_many_rows_may_be_asked_for(run, wheel):
    """Drawn by their hashes."""
    assert document(run, "--rows", "all", "--limit", "2")["rows"] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--by", "engin"), "cannot group by 'engin'"),
        (("--transfer",), "--transfer is for kernels"),
        (("runs.csv",), "--source is for measurements of its own"),
    ],
)
def test_what_does_not_go_together_is_refused(run, wheel, words, said):
    """With a hint, and 2."""
    outcome = run(*SOURCE, *words)
    assert outcome.code == 2
    assert said in outcome.err


def test_rows_without_a_source_are_refused(run):
    """--rows is nothing of kernels."""
    outcome = run("validate", "--rows", "odd")
    assert outcome.code == 2
    assert "--rows is for --source aiconfigurator" in outcome.err


def test_a_wheel_without_the_file_says_so(run, wheel):
    """An older one, or a newer."""
    wheel.unlink()
    outcome = run(*SOURCE)
    assert outcome.code == 2
    assert "aiconfigurator-core 9.9 has no silicon_sample.csv" in outcome.err
