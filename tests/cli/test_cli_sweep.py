"""`planner sweep`: grids and tables, written, ranked, interrupted and taken up again."""

import csv
import json
import os
from itertools import product
from pathlib import Path

import pytest

from planner.cli.sweep import command
from planner.desk.sweep_file import part_of
from planner.plan.assemble import assemble
from planner.plan.cases import predictions
from planner.plan.swept import RANKINGS
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
HEAD = "id,model,gpu,backend.name,step.decode.batch,step.decode.context,note"
SMALL = "qwen2.5-0.5b-instruct"


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes a table into the working directory; its name."""
    monkeypatch.chdir(tmp_path)

    def _table(*rows, head=HEAD):
        Path("cases.csv").write_text("\n".join((head, *rows, "")), encoding="utf-8")
        return "cases.csv"

    return _table


def case(name, batch=4, context=1024, gpu="rtx-4090", note="kept"):
    return f"{name},{SMALL},{gpu},vllm,{batch},{context},{note}"


def planned(batch, context, gpu="rtx-4090"):
    values = {
        "model": SMALL,
        "gpu": gpu,
        "backend": {"name": "vllm"},
        "step": {"decode": {"batch": batch, "context": context}},
    }
    return assemble(ask(load_text(json.dumps(values), "d"), CATALOG))


def rows_of(path):
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_grid_is_every_combination_each_as_planned(run, deployment):
    """Two GPUs, two batches and two contexts make eight rows; figures are written in ms."""
    words = ("--over", "gpu=rtx-4090,l40s,batch=1|32", "--over", "context=128|4096")
    assert run("sweep", deployment, *words, "-o", "grid.csv").code == 0
    rows = rows_of("grid.csv")
    assert [row["id"] for row in rows] == [str(n) for n in range(1, 9)]
    combinations = product(("rtx-4090", "l40s"), (1, 32), (128, 4096))
    for row, (gpu, batch, context) in zip(rows, combinations, strict=True):
        names = ("gpu", "step.decode.batch", "step.decode.context")
        assert [row[name] for name in names] == [gpu, str(batch), str(context)]
        step = planned(batch, context, gpu).step
        assert float(row["predicted.step_ms"]) == pytest.approx(step.time_s * 1e3, rel=1e-5)
        assert float(row["predicted.tpot_ms_high"]) == pytest.approx(step.high_s * 1e3, rel=1e-5)
        assert (row["fits"], row["error"]) == ("true", "")
    assert not Path("grid.csv.part").exists()


def test_the_best_rows_are_shown_first(run, deployment):
    """More sequences a step make more tokens: 64 before 8 before 1. Of a step the fewest win."""
    over = ("--over", "batch=1|64|8", "--json")
    rates = json.loads(run("sweep", deployment, *over).out)
    assert [row["cells"]["step.decode.batch"] for row in rates["rows"]] == ["64", "8", "1"]
    best = rates["rows"][0]
    assert best["tok_s"] == pytest.approx(64 / best["predicted"]["step_ms"]["value"] * 1e3)
    times = json.loads(run("sweep", deployment, *over, "--sort", "step_ms", "--top", "1").out)
    assert [row["cells"]["step.decode.batch"] for row in times["rows"]] == ["1"]
    assert (times["count"], times["fitting"], times["errors"]) == (3, 3, 0)


def test_a_table_for_people(run, deployment):
    outcome = run("sweep", deployment, "--over", "gpu=rtx-4090,l40s,batch=1:4")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0] == "6 rows, 6 fit"
    head = next(line for line in lines if line.startswith("gpu"))
    assert head.split() == [
        "gpu",
        "batch",
        "step",
        "ms",
        "80",
        "%",
        "tok/s",
        "per",
        "GPU",
        "fits",
        "bound",
    ]


def test_rows_may_be_ranked_by_every_figure():
    (sort,) = (option for option in command.params if option.name == "sort")
    assert list(sort.type.choices) == list(RANKINGS)


def test_a_price_ranks_by_cost_and_is_only_that_of_its_gpu(run, deployment):
    """0.36 USD an hour are 1e-4 USD a second: a million tokens at r a second cost 100 / r."""
    words = ("--set", "price=0.36 USD/h", "--over", "gpu=l40s,rtx-4090", "--sort", "usd_per_mtok")
    rows = json.loads(run("sweep", deployment, *words, "--json").out)["rows"]
    assert [row["cells"]["gpu"] for row in rows] == ["rtx-4090", "l40s"]
    assert rows[0]["usd_per_mtok"] == pytest.approx(100 / rows[0]["tok_s"])
    assert rows[1]["usd_per_mtok"] is None


def test_what_does_not_fit_comes_last_and_what_cannot_be_is_told(run, deployment):
    """14 heads do not split over four ranks; a batch of a million holds no cache."""
    words = ("--over", "tp=1:4,batch=1|1000000", "--json")
    outcome = run("sweep", deployment, *words)
    found = json.loads(outcome.out)
    assert (outcome.code, found["count"], found["errors"]) == (0, 6, 2)
    assert [row["fits"] for row in found["rows"]] == sorted(
        (row["fits"] for row in found["rows"]), reverse=True
    )
    (reason,) = found["reasons"]
    assert reason["rows"] == 2
    assert "does not split over 4 GPUs" in reason["error"]


@pytest.mark.parametrize(("over", "code"), [("batch=1", 0), ("batch=1000000", 1), ("tp=5", 2)])
def test_exit_codes_of_a_grid(run, deployment, over, code):
    """Fine; the answer is no; the question is wrong."""
    assert run("sweep", deployment, "--over", over).code == code


def test_batches_are_ranked_by_their_throughput(run, deployment):
    words = (
        "--set",
        "workload.batch=4",
        "--set",
        "workload.input=512",
        "--set",
        "workload.output=8",
    )
    words += ("--over", "batch=1|4", "--json")
    rows = json.loads(run("sweep", deployment, *words).out)["rows"]
    assert [row["cells"]["workload.batch"] for row in rows] == ["4", "1"]
    assert rows[0]["predicted"].keys() >= {"ttft_ms", "tpot_ms", "latency_s"}
    assert rows[0]["tok_s"] == rows[0]["predicted"]["throughput_tok_s"]["value"]


def test_a_table_is_answered_row_by_row(run, table):
    """Good rows in their order; each bad one has its error, and the command exits with 2."""
    file = table(
        case("a", 4), case("b", 8, note='"x, y"'), case("c", gpu="nope"), case("d", 0),
        case("a", 1), case("e", 2), case("f", "4.0"),
    )  # fmt: skip
    outcome = run("sweep", "--cases", file, "-o", "out.csv")
    assert outcome.code == 2
    rows = rows_of("out.csv")
    assert [row["id"] for row in rows] == ["a", "b", "c", "d", "a", "e", "f"]
    assert [row["note"] for row in rows] == ["kept", "x, y", *["kept"] * 5]
    said = {n: row["error"] for n, row in enumerate(rows) if row["error"]}
    assert said.keys() == {2, 3, 4}
    assert said[2].startswith("cases.csv:4:")
    assert "unknown gpu 'nope'" in said[2]
    assert "greater than 0" in said[3]
    assert "a second id 'a'" in said[4]
    for number, batch in ((0, 4), (1, 8), (5, 2), (6, 4)):
        expected = planned(batch, 1024).step.time_s * 1e3
        assert float(rows[number]["predicted.step_ms"]) == pytest.approx(expected, rel=1e-5)


def test_measured_columns_pass_through_and_are_judged(run, table):
    """Twice as slow as planned: 2."""
    ms = 2e3 * planned(4, 1024).step.time_s
    file = table(
        case("a", note=f"{ms}"), case("b", note=""), head=HEAD.replace("note", "measured.step_ms")
    )
    assert run("sweep", "--cases", file, "-o", "out.csv").code == 0
    slow, bare = rows_of("out.csv")
    assert (slow["verdict"], float(slow["ratio"])) == ("regress", pytest.approx(2, rel=1e-3))
    assert slow["measured.step_ms"] == f"{ms}"
    assert (bare["verdict"], bare["measured.step_ms"]) == ("", "")


def interrupted(path, rows, cut=0):
    """What is left of a written file: so many rows, and so many bytes of one more."""
    lines = Path(path).read_bytes().splitlines(keepends=True)
    Path(f"{path}.part").write_bytes(b"".join(lines[: rows + 1]) + lines[rows + 1][:cut])
    Path(path).unlink()


@pytest.mark.parametrize("cut", [0, 9])
@pytest.mark.parametrize("kind", ["grid", "table"])
def test_an_interrupted_sweep_goes_on(run, table, deployment, kind, cut):
    """Three rows and a piece of the fourth: the file is as if nothing had happened."""
    words = (deployment, "--over", "tp=1|5,batch=1:4")
    if kind == "table":
        bad = case("bad", gpu="nope")
        words = ("--cases", table(case("a"), bad, case("c", 9), case("d", 8), case("e", 7)))
    first = run("sweep", *words, "-o", "out.csv", "--json")
    whole = Path("out.csv").read_bytes()
    interrupted("out.csv", 3, cut)
    second = run("sweep", *words, "-o", "out.csv", "--json")
    assert Path("out.csv").read_bytes() == whole
    assert first.code == second.code
    told = [json.loads(outcome.out) for outcome in (first, second)]
    for name in ("count", "errors", "fitting"):
        assert told[0][name] == told[1][name]
    assert told[1]["resumed"] == 2


def test_a_part_of_another_sweep_is_not_gone_on_with(run, deployment):
    """Other columns; the same columns of another file."""
    run("sweep", deployment, "--over", "batch=1:8", "-o", "out.csv")
    interrupted("out.csv", 2)
    other = run("sweep", deployment, "--over", "context=1:8", "-o", "out.csv")
    assert other.code == 2
    assert "another sweep: its columns differ" in other.err
    changed = run("sweep", deployment, "--set", "gpu=l40s", "--over", "batch=1:8", "-o", "out.csv")
    assert changed.code == 2
    assert "are of another sweep" in changed.err
    assert run("sweep", deployment, "--over", "batch=1:8", "-o", "out.csv").code == 0
    assert len(rows_of("out.csv")) == 4


def test_rows_of_several_loads_in_one_table(run, table):
    """From a spreadsheet: a mark of its byte order, CRLF, and empty cells where another load is."""
    head = "id,model,gpu,step.decode.batch,step.decode.context,step.prefill.batch,"
    head += "step.prefill.tokens,workload.batch,workload.concurrency,workload.input,workload.output"
    start = f"{SMALL},rtx-4090"
    rows = [
        f"d,{start},4,1024,,,,,,",
        f"p,{start},,,2,700,,,,",
        f"b,{start},,,,,3,,500,40",
        f"l,{start},,,,,,5,500,40",
        f"m,{start},,,,,,5,90000000,40",
        f"x,{start},4,1024,2,700,,,,",
    ]
    name = table()
    Path(name).write_bytes("\r\n".join(("\ufeff" + head, *rows, "")).encode())
    assert run("sweep", "--cases", name, "-o", "out.csv").code == 2
    found = {row["id"]: row for row in rows_of("out.csv")}
    fields = {"p": "prefill: {batch: 2, tokens: 700}", "b": "batch: 3", "l": "concurrency: 5"}
    for row, load in fields.items():
        kind = "step" if row == "p" else "workload"
        more = "" if row == "p" else ", input: 500, output: 40"
        text = f"model: {SMALL}\ngpu: rtx-4090\n{kind}: {{{load}{more}}}\n"
        for figure, each in predictions(plan_question(ask(load_text(text, "d"), CATALOG))).items():
            assert float(found[row][f"predicted.{figure}"]) == pytest.approx(each.value, rel=1e-5)
    assert float(found["d"]["predicted.step_ms"]) == pytest.approx(
        planned(4, 1024).step.time_s * 1e3, rel=1e-5
    )
    assert "cases.csv:6:" in found["m"]["error"]
    assert "not one request of" in found["m"]["error"]
    assert "a step is one of" in found["x"]["error"]


def test_two_sweeps_into_one_file(run, deployment, tmp_path):
    """The second is told; what the first writes stays whole."""
    with part_of(Path("out.csv"), ["id"]):
        outcome = run("sweep", deployment, "--over", "batch=1:8", "-o", "out.csv")
        assert outcome.code == 2
        assert "another sweep is writing out.csv.part" in " ".join(outcome.err.split())


def test_no_device_is_replaced(run, deployment, tmp_path):
    """A pipe stays what it is; a link goes on pointing to the file."""
    os.mkfifo("pipe")
    outcome = run("sweep", deployment, "--over", "batch=1", "-o", "pipe")
    assert (outcome.code, Path("pipe").is_fifo()) == (2, True)
    assert "pipe is no file" in outcome.err
    Path("real.csv").touch()
    Path("link.csv").symlink_to("real.csv")
    assert run("sweep", deployment, "--over", "batch=1", "-o", "link.csv").code == 0
    assert Path("link.csv").is_symlink()
    assert len(rows_of("real.csv")) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "a sweep is of a FILE or of --cases"),
        (("chat.yaml", "--cases", "x.csv"), "a FILE or of --cases"),
        (("chat.yaml",), "needs --over"),
        (("--cases", "x.csv", "--over", "batch=1"), "change a FILE"),
        (("chat.yaml", "--over", "bach=1"), "no field 'bach'"),
        (("none.yaml", "--over", "batch=1"), "none.yaml"),
        (("--cases", "none.csv"), "none.csv"),
        (("chat.yaml", "--over", "batch=1", "-o", "no/where.csv"), "cannot write no/where.csv"),
    ],
)
def test_wrong_questions(run, deployment, words, said):
    outcome = run("sweep", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
