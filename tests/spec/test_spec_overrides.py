"""Values given as --set PATH=VALUE."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_samples import DEPLOYMENT

from planner.errors import SpecError
from planner.spec.load import build
from planner.spec.overrides import apply
from planner.spec.source import compose
from planner.spec.types import DeploymentSpec


def changed(*sets, text=DEPLOYMENT):
    return apply(*compose(text, "d.yaml"), list(sets))[0]


def refused(*sets, text=DEPLOYMENT):
    """What building the changed deployment says."""
    with pytest.raises(SpecError) as caught:
        build(DeploymentSpec, *apply(*compose(text, "d.yaml"), list(sets)))
    return str(caught.value)


def test_a_value_in_the_file_is_replaced():
    assert changed("step.decode.batch=64")["step"]["decode"] == {"batch": 64, "context": 4096}


def test_the_data_given_stays_as_it_was():
    data, document = compose(DEPLOYMENT, "d.yaml")
    apply(data, document, ["step.decode.batch=64", "backend.flags.new=1"])
    assert data == compose(DEPLOYMENT, "d.yaml")[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("no", "no"),
        ("'8'", "8"),
        ("0.5", 0.5),
        ("", None),
        ("[1, 2]", [1, 2]),
        ("{a: {b: 1}}", {"a": {"b": 1}}),
        ("0.69 USD/h", "0.69 USD/h"),
        ("a=b", "a=b"),
    ],
)
def test_a_value_is_read_as_in_a_file(text, value):
    assert changed(f"x={text}")["x"] == value


def test_mappings_on_the_way_are_made():
    assert changed("a.b.c=1")["a"] == {"b": {"c": 1}}
    assert changed("step.decode.batch=1", text="step:\n")["step"] == {"decode": {"batch": 1}}


def test_a_number_is_a_position_in_a_list():
    text = "step: {mixed: [{count: 1}, {count: 2}]}\n"
    assert changed("step.mixed.1.count=9", text=text)["step"]["mixed"] == [
        {"count": 1},
        {"count": 9},
    ]


def test_later_settings_win():
    assert changed("gpu=a", "gpu=b")["gpu"] == "b"


def test_another_kind_of_step_replaces_the_one_in_the_file():
    assert changed("step.prefill.tokens=512")["step"] == {"prefill": {"tokens": 512}}


def test_a_workload_replaces_the_step_and_a_step_the_workload():
    data = changed("workload={batch: 1, input: 2, output: 3}")
    assert "step" not in data
    data = changed("workload.batch=1", "step.decode.batch=2")
    assert "workload" not in data
    assert data["step"] == {"decode": {"batch": 2}}


def test_null_replaces_nothing():
    assert "step" in changed("workload=")


def test_a_fault_in_a_set_value_stands_in_the_set_text():
    said = refused("step.decode.batch=many").split("\n")
    assert said[0].startswith(
        "--set step.decode.batch=many:1:19: step.decode.batch: expected a whole"
    )
    assert said[1:] == ["   1 | step.decode.batch=many", "     | " + " " * 18 + "^"]


def test_a_misspelt_path_is_found_at_its_part():
    said = refused("step.decode.btch=64")
    assert said.startswith(
        "--set step.decode.btch=64:1:13: step.decode.btch: unknown field (did you mean 'batch'?)"
    )


def test_a_fault_inside_a_flow_value_has_its_column():
    assert "--set step={decode: {batch: 0, context: 1}}:1:23: " in refused(
        "step={decode: {batch: 0, context: 1}}"
    )


def test_a_field_missing_from_a_replaced_step_is_shown_at_the_set_text():
    said = refused("step.prefill.batch=1")
    assert "--set step.prefill.batch=1:1:6: step.prefill: missing field 'tokens'" in said


def test_a_fault_elsewhere_still_stands_in_the_file():
    assert "d.yaml:16:14: " in refused("step.decode.batch=4", text=DEPLOYMENT.replace("4096", "x"))


def test_a_path_given_by_a_setting_begins_at_the_working_directory():
    data, document = apply(*compose(DEPLOYMENT, "folder/d.yaml"), ["gpu=./g.yaml"])
    spec = build(DeploymentSpec, data, document)
    assert str(spec.origin.at("gpu").folder()) == "."
    assert str(spec.origin.at("model").folder()) == "folder"


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("batch", 6, "expected PATH=VALUE"),
        ("", 1, "expected PATH=VALUE"),
        ("=4", 1, "a path is names joined by dots"),
        ("a..b=4", 3, "a path is names joined by dots"),
        ("a. b=4", 3, "a path is names joined by dots"),
        ("a=[1, 2", 8, "not closed"),
        ("a='b", 3, "the quote that opens here"),
        ("a=b: c", 3, "a value on one line"),
        ("a=- c", 3, "a value on one line"),
        ("a={b: 1, b: 2}", 10, "duplicate key 'b'"),
        ("a=*x", 3, "anchored as &x"),
        ("a=.nan", 3, "not a finite number"),
        ("a=@b", 3, "no value can begin with '@'"),
        ("a=1\nb: 2", 1, "one line of plain text"),
        ("a=\0", 1, "one line of plain text"),
        ("gpu.name=x", 5, "gpu is no mapping"),
        ("l.2=x", 3, "l has positions 0 to 1, not '2'"),
        ("l.-1=x", 3, "l has positions 0 to 1, not '-1'"),
        ("l.x.y=x", 3, "l has positions 0 to 1, not 'x'"),
        ("e.0=x", 3, "e has no positions"),
    ],
)
def test_a_malformed_setting_is_refused_at_its_place(text, column, words):
    data, document = compose("gpu: g\nl: [a, b]\ne: []\n", "d.yaml")
    with pytest.raises(SpecError) as caught:
        apply(data, document, [text])
    (fault,) = caught.value.faults
    assert fault.where.file == f"--set {text}"
    assert (fault.where.line, fault.where.column) == (1, column)
    assert words in str(fault)


def test_every_malformed_setting_is_named():
    data, document = compose(DEPLOYMENT, "d.yaml")
    with pytest.raises(SpecError) as caught:
        apply(data, document, ["a", "b", "step.decode.batch=1"])
    assert len(caught.value.faults) == 2


@given(st.text(max_size=40) | st.text("step.decode=[]{}&*!:,'\"# 0\t", max_size=40))
def test_no_setting_ends_in_anything_but_a_spec_error(text):
    data, document = compose(DEPLOYMENT, "d.yaml")
    faults = ()
    try:
        build(DeploymentSpec, *apply(data, document, [text]))
    except SpecError as error:
        faults = error.faults
    assert all(fault.where.line >= 1 for fault in faults)
