"""Tables of cases: a row is a deployment, and every fault is told at its place in the file."""

import csv
import io

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from planner.errors import SpecError, UsageError
from planner.spec.cases import open_cases, read_cases

HEAD = "id,model,gpu,step.decode.batch,step.decode.context,measured.step_ms"
"""Headings in columns 1, 4, 10, 14, 32 and 52."""


def cases(text):
    raw = text.encode() if isinstance(text, str) else text
    return list(read_cases(io.BytesIO(raw), "runs.csv").cases)


def only(row, head=HEAD):
    (case,) = cases(f"{head}\n{row}\n")
    return case


def faults(row, head=HEAD):
    return [str(fault) for fault in only(row, head).faults]


def refused(text):
    with pytest.raises(SpecError) as caught:
        cases(text)
    return str(caught.value)


def given(case):
    """What the row says of its deployment, the name left aside."""
    return case.deployment.model_dump(exclude_unset=True, exclude={"name"})


def test_a_row_is_a_deployment_with_its_figures():
    case = only("a,qwen3-8b,h100-sxm,8,4096,7.5")
    assert (case.id, case.line, case.faults) == ("a", 2, ())
    assert given(case) == {
        "model": "qwen3-8b",
        "gpu": "h100-sxm",
        "step": {"decode": {"batch": 8, "context": 4096}},
    }
    assert case.measured == {"step_ms": 7.5}


def test_an_empty_cell_is_a_field_not_set():
    head = f"{HEAD},backend.name,workload.batch,workload.input,host.launch"
    case = only("a,qwen3-8b,h100-sxm,8,4096,7.5,,,,", head)
    assert given(case).keys() == {"model", "gpu", "step"}


def test_texts_stay_as_they_are_written():
    """Version 0.10 is not 0.1."""
    case = only("a,m,g,1,1,1,vllm,0.10", f"{HEAD},backend.name,backend.version")
    assert case.deployment.backend.version == "0.10"


def test_flags_are_read_by_the_rules_of_a_spec():
    head = f"{HEAD},backend.name,backend.flags.a,backend.flags.b,backend.flags.c"
    case = only("x,m,g,1,1,1,vllm,TRUE,256,fa2", head)
    assert case.deployment.backend.flags == {"a": True, "b": 256, "c": "fa2"}


def test_quantities_have_their_unit():
    """4.5 us is 4.5e-6 s; a bare 4.5 is none."""
    head = f"{HEAD},host.launch"
    assert only("a,m,g,1,1,1,4.5 us", head).deployment.host.launch == pytest.approx(4.5e-6)
    (said,) = faults("a,m,g,1,1,1,4.5", head)
    assert said.startswith("runs.csv:2:13: host.launch: a time needs its unit")


def test_a_count_may_be_written_with_a_decimal_nought():
    """Tables with empty cells turn 8 into 8.0; 8.5 is no count."""
    assert only("a,m,g,8.0,4096,1").deployment.step.decode.batch == 8
    assert faults("a,m,g,8.5,4096,1") == [
        "runs.csv:2:7: step.decode.batch: expected a whole number, got 8.5"
    ]


def test_times_may_bring_their_unit():
    """0.0075 s is 7.5 ms; 450 ms is 0.45 s."""
    assert only("a,m,g,1,1,0.0075 s").measured == {"step_ms": pytest.approx(7.5)}
    case = only("a,m,g,1,1,1,450 ms", f"{HEAD},measured.latency_s")
    assert case.measured["latency_s"] == pytest.approx(0.45)


@pytest.mark.parametrize("text", ["0", "-1", "fast", "true", ".inf", "7.5 tokens", "1e999"])
def test_a_figure_is_a_number_above_nought(text):
    (said,) = faults(f"a,m,g,1,1,{text}")
    assert said.startswith("runs.csv:2:11: measured.step_ms: ")


def test_groups_of_a_mixed_step_are_numbered():
    head = "model,gpu," + ",".join(
        f"step.mixed.{i}.{name}" for i in (0, 1) for name in ("count", "new_tokens", "kv_tokens")
    )
    case = only("m,g,32,1,4096,1,512,512", head)
    assert [group.count for group in case.deployment.step.mixed] == [32, 1]
    assert only("m,g,32,1,4096,,,", head).deployment.step.mixed[0].kv_tokens == 4096


def test_every_fault_of_a_row_is_told_at_its_cell():
    """Cells begin in columns 1, 3, 5, 7, 9 and 12."""
    assert faults("a,m,g,x,-1,0 ms") == [
        "runs.csv:2:7: step.decode.batch: expected a whole number, got 'x'",
        "runs.csv:2:9: step.decode.context: must be greater than 0, got -1",
        "runs.csv:2:12: measured.step_ms: must be greater than 0, got 0.0",
    ]


def test_a_wrong_row_costs_no_other():
    found = cases(f"{HEAD}\na,m,g,1,1,1\nb,m,g,x,1,1\nc,m,g,1\nd,m,g,1,1,1\n")
    assert [(case.id, bool(case.faults)) for case in found] == [
        ("a", False),
        ("b", True),
        ("c", True),
        ("d", False),
    ]


def test_a_second_id_names_the_first():
    _, second = cases(f"{HEAD}\na,m,g,1,1,1\na,m,g,1,1,1\n")
    assert [str(fault) for fault in second.faults] == [
        "runs.csv:3:1: a second id 'a' (the first is in line 2)"
    ]


def test_a_row_without_an_id_is_called_by_its_line():
    assert only(",m,g,1,1,1").id == "line 2"
    assert only("m,g,1,1", "model,gpu,step.decode.batch,step.decode.context").id == "line 2"


def test_too_many_and_too_few_cells_are_counted():
    """A comma in a note makes a seventh cell, in column 13."""
    assert faults("a,m,g,1,1,1,very fast, honest") == [
        "runs.csv:2:13: 8 cells under 6 columns (put text that holds a comma in quotes)"
    ]
    assert faults("a,m,g,1") == ["runs.csv:2:7: 4 cells under 6 columns"]


def test_a_step_and_a_workload_exclude_each_other():
    head = f"{HEAD},workload.batch,workload.input,workload.output"
    (said,) = faults("a,m,g,1,1,1,8,32,128", head)
    assert "a step or a workload, not both" in said
    assert said.startswith("runs.csv:2:13: ")


def test_what_is_not_built_yet_is_told_at_its_cell():
    (said,) = faults("a,m,g,1,1,1,2", f"{HEAD},prefix_cache")
    assert said.startswith("runs.csv:2:13: prefix_cache: not supported yet")


def test_bytes_that_are_no_utf8_cost_their_row_alone():
    """A table in Latin-1: é is one byte, at column 13."""
    raw = f"{HEAD},note\na,m,g,1,1,1,".encode() + b"caf\xe9\nb,m,g,1,1,1,fine\n"
    first, second = cases(raw)
    assert [str(fault) for fault in first.faults] == [
        "runs.csv:2:13: a byte that is no UTF-8 text (save the file as UTF-8)"
    ]
    assert second.faults == ()


def test_other_columns_pass_through():
    case = only("a,m,g,1,1,1,https://x.org,slow day", f"{HEAD},source,note")
    assert (case.cells["source"], case.cells["note"]) == ("https://x.org", "slow day")


def test_columns_of_results_are_left_aside():
    """So that what was written can be read again."""
    head = f"{HEAD},predicted.step_ms,predicted.step_ms_low,verdict,ratio,error"
    assert given(only("a,m,g,1,1,1,junk,,,,old", head)).keys() == {"model", "gpu", "step"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("step.decode.contxt", "step.decode.context"),
        ("measured.step", "measured.step_ms"),
        ("step_ms", "measured.step_ms"),
        ("batch", "step.decode.batch"),
        ("weights", "precision.weights"),
        ("backend", "backend.name"),
        ("engine_version", "backend.version"),
        ("TP", "parallel.tensor"),
        ("Price", "price"),
        ("nodse", "nodes"),
        ("errors", "error"),
    ],
)
def test_a_heading_that_is_nearly_a_field_is_refused(name, meant):
    """Passed over, it would change the answer. It stands in column 68."""
    said = refused(f"{HEAD},{name}\n")
    assert said == f"runs.csv:1:69: unknown column '{name}' (did you mean '{meant}'?)"


STATIC = "id,gpu,tp,engine,version,model,precision,batch,input,output,latency"


def test_short_names_stand_for_paths_where_input_and_output_tell_a_batch_of_requests():
    case = only("a,h100-sxm,2,vllm,0.10,qwen3-8b,fp8,16,1024,128,2.5", STATIC)
    assert given(case) == {
        "model": "qwen3-8b",
        "gpu": "h100-sxm",
        "parallel": {"tensor": 2},
        "backend": {"name": "vllm", "version": "0.10"},
        "precision": {"weights": "fp8"},
        "workload": {"batch": 16, "input": 1024, "output": 128},
    }
    assert case.measured == {"latency_s": 2.5}
    assert case.cells["tp"] == "2"  # cells keep the name that the file gives them


@pytest.mark.parametrize("cell", ["2500 ms", "2.5 s", "2.5"])
def test_a_latency_is_in_seconds_or_has_its_unit(cell):
    assert only(f"a,h100-sxm,,,,m,,1,1,1,{cell}", STATIC).measured == {"latency_s": 2.5}


def test_paths_and_short_names_may_stand_side_by_side():
    head = "model,gpu,engine,backend.flags.enforce_eager,workload.batch,input,output"
    assert given(only("m,g,vllm,true,4,8,8", head))["workload"]["batch"] == 4
    assert given(only("m,g,vllm,true,4,8,8", head))["backend"]["flags"] == {"enforce_eager": True}


def test_two_names_of_one_field_are_refused():
    said = refused(f"{HEAD},parallel.tensor,tp\n")
    end = "a second column 'parallel.tensor' (the first is in column 69, called 'parallel.tensor')"
    assert said.endswith(end)


@pytest.mark.parametrize("name", ["note", "date", "source", "assumed", "mode", "who measured it"])
def test_a_heading_of_the_users_own_is_not(name):
    assert cases(f"{HEAD},{name}\n") == []


def test_every_fault_of_the_headings_is_told():
    said = refused("id,modle,gpu,gpu,foo.bar,,step.decode.batch\n").splitlines()
    assert [line.partition(": ")[0] for line in said] == [
        "runs.csv:1:4",
        "runs.csv:1:14",
        "runs.csv:1:18",
        "runs.csv:1:26",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is nothing in this file"),
        ("\n\n", "there is nothing in this file"),
        ("\ufeff", "there is nothing in this file"),
        ("id;model;gpu\n", "not separated by commas"),
        ("id\tmodel\tgpu\n", "not separated by commas"),
        ("id,gpu,step.decode.batch\n", "column 'model' is missing"),
        ("id,model,gpu\n", "no column of a step or workload"),
        ('id,"model\n', "the quote that opens here is not closed"),
        (HEAD.encode("utf-16"), "no UTF-8 text"),
        (b"\x89PNG\x0d\x0a\x00\x00", "save the file as UTF-8"),
    ],
)
def test_a_file_that_is_no_table_is_refused(text, told):
    assert told in refused(text)


def test_headings_alone_are_a_table_without_rows():
    assert cases(f"{HEAD}\r\n") == []


def test_a_file_is_read_as_it_is_asked_for():
    """The second row is not looked at before it is wanted."""

    class OneRow(io.BytesIO):
        def readline(self, size=-1):
            line = super().readline(size)
            assert line, "read beyond the first row"
            return line

    table = read_cases(OneRow(f"{HEAD}\na,m,g,1,1,1\n".encode()), "runs.csv")
    assert next(table.cases).id == "a"


@pytest.mark.parametrize("name", ["backend.flags.", "step", "step.decode", "step.mixed", "a.b"])
def test_a_path_without_a_value_of_its_own_is_no_column(name):
    assert f"unknown column '{name}'" in refused(f"{HEAD},{name}\n")


def test_a_group_left_out_of_a_mixed_step_is_told():
    """The second of two, where no first is."""
    head = "model,gpu,step.mixed.1.count,step.mixed.1.new_tokens,step.mixed.1.kv_tokens"
    (said,) = faults("m,g,1,512,512", head)
    assert said.startswith("runs.csv:2:5: step.mixed: expected a list")


ROWS = st.lists(st.one_of(st.sampled_from(HEAD.split(",")), st.text(max_size=6)), max_size=8)


@drawn(st.lists(ROWS, max_size=5), st.binary(max_size=20))
def test_any_rows_become_cases_or_faults(rows, end):
    """Whatever stands under the headings, each case has a deployment or says why not."""
    stream = io.StringIO()
    csv.writer(stream).writerows([HEAD.split(","), *rows])
    for case in cases(stream.getvalue().encode("utf-8", "surrogatepass") + end):
        assert (case.deployment is None) == bool(case.faults)
        assert all(fault.where.line >= 2 for fault in case.faults)


def test_a_missing_file_offers_a_neighbour(tmp_path):
    (tmp_path / "runs.csv").write_text(HEAD, encoding="utf-8")
    with (
        pytest.raises(UsageError, match=r"did you mean '.*runs.csv'"),
        open_cases(tmp_path / "run.csv"),
    ):
        pass
    with pytest.raises(UsageError, match="is a folder"), open_cases(tmp_path):
        pass
