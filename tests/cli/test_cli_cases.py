"""`planner validate FILE`: a table of measured runs, planned, judged and written back."""

import csv
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.desk.cases import Planner
from planner.plan.assemble import assemble
from planner.spec.cases import open_cases
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

HEAD = "id,model,gpu,backend.name,step.decode.batch,step.decode.context,measured.step_ms,note"
CATALOG = Catalog.standard()


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes a table into the working directory; its name."""
    monkeypatch.chdir(tmp_path)

    def _table(*rows, head=HEAD):
        Path("runs.csv").write_text("\n".join((head, *rows, "")), encoding="utf-8")
        return "runs.csv"

    return _table


def small(name, ms, engine="vllm"):
    return f"{name},qwen2.5-0.5b-instruct,rtx-4090,{engine},4,1024,{ms},kept"


@pytest.fixture
def step_ms():
    """The planned step of those rows."""
    values = {
        "model": "qwen2.5-0.5b-instruct",
        "gpu": "rtx-4090",
        "backend": {"name": "vllm"},
        "step": {"decode": {"batch": 4, "context": 1024}},
    }
    return assemble(ask(load_text(json.dumps(values), "d"), CATALOG)).step.time_s * 1e3


def answered(run, *words):
    outcome = run("validate", *words, "--json")
    return outcome.code, json.loads(outcome.out)


def test_a_table_of_static_batches_takes_short_names(run, table):
    """The second ran half as fast again as planned, and says so in milliseconds."""
    values = {
        "model": "qwen2.5-0.5b-instruct",
        "gpu": "rtx-4090",
        "backend": {"name": "vllm", "version": "0.6"},
        "precision": {"weights": "fp16"},
        "workload": {"batch": 4, "input": 128, "output": 16},
    }
    plan = assemble(ask(load_text(json.dumps(values), "d"), CATALOG))
    latency_s = plan.workload.latency_s
    like = "rtx-4090,1,vllm,0.6,qwen2.5-0.5b-instruct,fp16,4,128,16"
    name = table(
        f"same,{like},{latency_s}",
        f"slow,{like},{1500 * latency_s} ms",
        head="id,gpu,tp,engine,version,model,precision,batch,input,output,latency",
    )
    code, document = answered(run, name, "--by", "engine")
    assert code == 0
    assert [row["figures"][0]["ratio"] for row in document["rows"]] == pytest.approx([1, 1.5])
    assert [group["group"] for group in document["groups"]] == [{"engine": "vllm"}]


def test_a_table_of_runs_is_told_with_its_errors(run, table, step_ms):
    """As planned, and half as fast again: 1.50."""
    outcome = run("validate", table(small("same", step_ms), small("slow", 1.5 * step_ms)))
    assert outcome.code == 0
    words = [line.split() for line in outcome.out.splitlines()]
    assert next(w for w in words if w[:1] == ["same"])[-2:] == ["1.00", "pass"]
    assert next(w for w in words if w[:1] == ["slow"])[-2] == "1.50"
    assert next(w for w in words if w[:1] == ["vllm"])[1:4] == ["2", "2", "1.25"]


def test_errors_are_grouped_by_any_columns(run, table, step_ms):
    """Ratios 1 and 2: errors 0 and 0.5."""
    rows = (small("a", step_ms), small("b", 2 * step_ms), small("c", 1, "sglang"))
    _, found = answered(run, table(*rows), "--by", "backend.name,figure,backend.version")
    groups = {group["group"]["backend.name"]: group for group in found["groups"]}
    assert found["by"] == ["backend.name", "figure", "backend.version"]
    assert groups["vllm"]["group"]["figure"] == "step_ms"
    assert groups["vllm"]["median_ratio"] == pytest.approx(1.5)
    assert groups["vllm"]["mean"] == pytest.approx(0.25)
    assert groups["sglang"]["rows"] == 1


def test_names_of_groups_stay_beside_their_errors(run, table, step_ms, monkeypatch):
    """Also on the narrowest report, where some rows are refused."""
    monkeypatch.setenv("COLUMNS", "80")
    name = table(small("a", step_ms), small("b", -1), small("c", -1))
    shown = run("validate", name, "--by", "gpu,figure").out.partition("errors\n")[2].splitlines()
    assert shown[0].split() == [
        *("gpu", "figure", "rows", "figures", "ratio", "median", "mean", "bias", "in", "80", "%"),
        "refused",
    ]
    assert any(line.startswith("rtx-4090  step_ms") for line in shown)
    assert any(line.endswith("2 errors") for line in shown)


def test_a_wrong_row_is_told_and_costs_no_other(run, table, step_ms):
    rows = (small("a", step_ms), small("b", "fast"), small("c", step_ms).replace("rtx", "rxt"))
    code, found = answered(run, table(*rows))
    assert code == 2
    assert [row["refused"] for row in found["rows"]] == [None, "error", "error"]
    assert found["rows"][1]["error"].startswith("runs.csv:3:46: measured.step_ms: 'fast' is no")
    assert found["rows"][2]["error"].startswith("runs.csv:4:25: gpu: unknown gpu 'rxt-4090'")
    assert found["groups"][0]["refused"] == {"error": 2}
    assert found["groups"][0]["figures"] == 1


def test_what_only_planning_finds_is_told_at_its_cell(run, table):
    """A flag that the engine has not, in column 60 of the headings."""
    head = HEAD.replace("note", "backend.flags.enforce_egaer")
    code, found = answered(run, table(small("a", 1).replace("kept", "true"), head=head))
    assert code == 2
    assert found["rows"][0]["error"].startswith(f"runs.csv:1:{head.index('backend.flags') + 1}: ")


def test_a_run_that_cannot_be_is_refused_with_its_cause(run, table, step_ms):
    """A twentieth of the planned step is beyond any roofline."""
    code, found = answered(run, table(small("a", step_ms / 20), small("b", step_ms)))
    row = found["rows"][0]
    assert (code, row["refused"], row["verdict"]) == (0, "impossible", "incomparable")
    assert "impossible" in row["reason"]
    group = found["groups"][0]
    assert (group["rows"], group["figures"], group["refused"]) == (2, 1, {"impossible": 1})


def test_rows_are_written_back_with_what_was_predicted(run, table, step_ms):
    run("validate", table(small("a", step_ms), "b,broken"), "-o", "out.csv")
    with Path("out.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    good, bad = rows
    assert (good["id"], good["note"], good["verdict"], good["fits"]) == (
        "a",
        "kept",
        "pass",
        "true",
    )
    assert float(good["predicted.step_ms"]) == pytest.approx(step_ms, rel=1e-5)
    assert float(good["predicted.step_ms_low"]) < step_ms < float(good["predicted.step_ms_high"])
    assert (good["predicted.ttft_ms"], good["error"], good["ratio"]) == ("", "", "1")
    assert (bad["id"], bad["model"], bad["verdict"]) == ("b", "broken", "")
    assert bad["error"] == "runs.csv:3:3: 2 cells under 8 columns"


def test_what_was_written_can_be_read_again(run, table, step_ms):
    """Into itself too, and nothing changes but the names of places."""
    run("validate", table(small("a", step_ms), small("b", 2 * step_ms)), "-o", "one.csv")
    once = Path("one.csv").read_bytes()
    assert run("validate", "one.csv", "-o", "one.csv").code == 0
    assert Path("one.csv").read_bytes() == once
    assert sorted(path.name for path in Path().iterdir()) == ["one.csv", "runs.csv"]


def test_bytes_of_another_encoding_are_written_back(run, table, step_ms):
    name = table(small("a", step_ms))
    raw = Path(name).read_bytes().replace(b"kept", b"caf\xe9")
    Path(name).write_bytes(raw)
    assert run("validate", name, "-o", "out.csv").code == 2
    assert b",caf\xe9," in Path("out.csv").read_bytes()


def test_models_are_found_beside_the_table(run, table, tmp_path):
    """A relative path begins at the folder of the file that names it."""
    source = Path(CATALOG.folders[-1], "models/qwen2.5-0.5b-instruct.yaml").read_text("utf-8")
    inside = tmp_path / "lab"
    inside.mkdir()
    (inside / "mine.yaml").write_text(source, encoding="utf-8")
    row = small("a", 5).replace("qwen2.5-0.5b-instruct", "./mine.yaml")
    Path(table(row)).rename(inside / "runs.csv")
    code, found = answered(run, "lab/runs.csv")
    assert (code, found["rows"][0]["error"]) == (0, None)


def test_headings_alone_give_no_rows(run, table):
    outcome = run("validate", table())
    assert (outcome.code, outcome.out) == (0, "there is no row under the headings\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("runs.csv", "--by", "backend.nam"), "did you mean 'backend.name'?"),
        (("runs.csv", "--transfer"), "--transfer is for kernels"),
        (("runs.csv", "--gpu", "h100-sxm"), "--gpu is for kernels"),
        (("runs.csv", "-o", "no/such/out.csv"), "cannot write"),
        (("absent.csv",), "there is no file absent.csv"),
        (("-o", "out.csv"), "--out writes the rows of a FILE"),
    ],
)
def test_questions_that_make_no_sense_are_refused(run, table, words, told):
    table(small("a", 5))
    outcome = run("validate", *words)
    assert outcome.code == 2
    assert told in outcome.err


def test_a_table_without_measurements_is_refused(run, table):
    head = HEAD.replace("measured.step_ms,", "")
    outcome = run("validate", table("a,m,g,vllm,1,1,x", head=head))
    assert outcome.code == 2
    assert "no measured figures" in outcome.err


def test_a_row_without_a_figure_is_planned_and_counted(run, table):
    code, found = answered(run, table(small("a", "")))
    assert (code, found["rows"][0]["refused"]) == (0, "nothing measured")
    assert found["rows"][0]["predicted"]["step_ms"]["value"] > 0


LOADS = st.one_of(
    st.fixed_dictionaries(
        {"step.decode.batch": st.integers(1, 64), "step.decode.context": st.integers(1, 9000)}
    ),
    st.fixed_dictionaries(
        {"step.prefill.batch": st.integers(1, 4), "step.prefill.tokens": st.integers(1, 3000)}
    ),
    st.fixed_dictionaries(
        {
            "workload.batch": st.integers(1, 16),
            "workload.input": st.integers(1, 3000),
            "workload.output": st.integers(1, 64),
        }
    ),
)
REST = st.fixed_dictionaries(
    {"gpu": st.sampled_from(["rtx-4090", "h100-sxm", "a10"])},
    optional={
        "backend.name": st.sampled_from(["vllm", "sglang", "tensorrt-llm"]),
        "precision.kv_cache": st.sampled_from(["bf16", "fp8"]),
        "memory.utilization": st.sampled_from([0.5, 0.9]),
        "host.launch": st.sampled_from(["4.5 us", "20 us"]),
        "parallel.tensor": st.sampled_from([1, 2]),
    },
)


def nested(fields):
    """Dotted paths as mappings in mappings."""
    found = {}
    for path, value in fields.items():
        *above, last = path.split(".")
        holder = found
        for part in above:
            holder = holder.setdefault(part, {})
        holder[last] = value
    return found


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(LOADS, REST)
def test_a_row_is_planned_as_the_same_deployment_in_yaml(tmp_path, load, rest):
    """Same identity, same result, to the bit; empty columns beside it change nothing."""
    fields = {"model": "qwen2.5-0.5b-instruct", **rest, **load}
    empty = ["backend.version", "step.decode.context", "workload.output"]
    columns = [*fields, *(name for name in empty if name not in fields)]
    path = tmp_path / "one.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, columns, restval="")
        writer.writeheader()
        writer.writerow(fields)
    with open_cases(path) as found:
        (row,) = [Planner(CATALOG).answered(case) for case in found.cases]
    plan = assemble(ask(load_text(json.dumps(nested(fields)), "d"), CATALOG))
    assert row.error is None
    assert row.answer.plan.plan_id == plan.plan_id
    assert row.answer.plan.result_hash == plan.result_hash


def test_runs_of_the_same_work_are_ranked(run, table):
    """A 4090 (1,008 GB/s) and an H100 (3,352 GB/s) decode the same batch: one pair, in order."""
    head = HEAD.replace(",note", "")
    rows = (
        "a,qwen2.5-0.5b-instruct,rtx-4090,vllm,4,1024,3",
        "b,qwen2.5-0.5b-instruct,h100-sxm,vllm,4,1024,2",
    )
    outcome = run("validate", table(*rows, head=head), "--json")
    (found,) = json.loads(outcome.out)["ranking"]
    assert (found["figure"], found["groups"], found["options"]) == ("step_ms", 1, 2)
    assert (found["tau"], found["first"], found["regret"]) == (1.0, 1.0, 0.0)


def test_a_choice_that_was_measured_slower_costs_the_difference(run, table):
    """The H100 is predicted first, and was measured at 3 ms beside 2: half as much again."""
    head = HEAD.replace(",note", "")
    rows = (
        "a,qwen2.5-0.5b-instruct,rtx-4090,vllm,4,1024,2",
        "b,qwen2.5-0.5b-instruct,h100-sxm,vllm,4,1024,3",
    )
    outcome = run("validate", table(*rows, head=head))
    assert "order of runs of the same work" in outcome.out
    (line,) = (row for row in outcome.out.splitlines() if "-1.00" in row)
    assert "50.0%" in line


def test_runs_of_different_work_are_not_ranked(run, table):
    """Another batch is another piece of work."""
    head = HEAD.replace(",note", "")
    rows = (
        "a,qwen2.5-0.5b-instruct,rtx-4090,vllm,4,1024,2",
        "b,qwen2.5-0.5b-instruct,h100-sxm,vllm,8,1024,3",
    )
    outcome = run("validate", table(*rows, head=head), "--json")
    assert json.loads(outcome.out)["ranking"] == []
