"""YAML text to plain data: the 1.2 rules, marks, aliases, files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import PlannerError, SpecError, UsageError
from planner.spec.origin import Mark, Origin
from planner.spec.source import compose, read_bytes


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "y", "n", "On", "NO", "tRUE"])
def test_only_true_and_false_are_booleans(word):
    assert compose(f"a: {word}", "f")[0] == {"a": word}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("+12", 12),
        ("-12", -12),
        ("010", 10),
        ("0o17", 15),
        ("0xff", 255),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("12:30:45", "12:30:45"),
        ("2026-11-30", "2026-11-30"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e-6", 1e-6),
        ("1E3", 1000.0),
        ("0.26.1", "0.26.1"),
        ("4.5 us", "4.5 us"),
        ("-", "-"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("=", "="),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text, value):
    if text == "-":
        text = "'-'"
    found = compose(f"a: {text}", "f")[0]["a"]
    assert found == value
    assert type(found) is type(value)


@given(st.dictionaries(st.text("abcxyz_", min_size=1), st.integers(-(2**63), 2**63 - 1)))
def test_whole_numbers_come_back_as_written(numbers):
    if numbers:
        text = "\n".join(f"'{key}': {value}" for key, value in numbers.items())
        assert compose(text, "f")[0] == numbers


def test_every_path_has_a_mark_of_its_key_and_its_value():
    _, document = compose("a: 1\nb:\n  - x\n  - c: [4, 5]\n", "f")
    assert document.marks == {
        (): Mark(1, 1, 1, 1),
        ("a",): Mark(1, 1, 1, 4),
        ("b",): Mark(2, 1, 3, 3),
        ("b", 0): Mark(3, 5, 3, 5),
        ("b", 1): Mark(4, 5, 4, 5),
        ("b", 1, "c"): Mark(4, 5, 4, 8),
        ("b", 1, "c", 0): Mark(4, 9, 4, 9),
        ("b", 1, "c", 1): Mark(4, 12, 4, 12),
    }


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_alike_for_every_line_ending(end):
    _, document = compose(end.join(["a: 1", "# é", "b: 'x'"]), "f")
    assert document.marks["b",] == Mark(3, 1, 3, 4)
    assert document.lines[2] == "b: 'x'"


def test_a_byte_order_mark_moves_no_column():
    assert compose("\ufeffa: 1".encode(), "f")[1].marks["a",] == Mark(1, 1, 1, 4)


def test_columns_count_characters_not_bytes():
    assert compose("a: {é: µ, b: 1}", "f")[1].marks["a", "b"].value_column == 14


def test_an_alias_repeats_a_value_and_inner_places_point_to_its_text():
    data, document = compose("a: &x {b: 1}\nc: *x\n", "f")
    assert data == {"a": {"b": 1}, "c": {"b": 1}}
    assert document.marks["c",] == Mark(2, 1, 2, 4)
    assert document.marks["c", "b"] == document.marks["a", "b"]


def test_an_alias_bomb_is_refused_without_being_expanded():
    # each line holds the one above nine times: 9**9 leaves in all
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(SpecError, match="aliases expand to more than 10,000 values"):
        compose("\n".join(lines), "f")


def test_aliases_that_nest_beyond_the_depth_are_refused():
    # 40 levels, then 40 more around them through an alias
    inner, outer = "[" * 40 + "]" * 40, "[" * 40 + "*x" + "]" * 40
    with pytest.raises(SpecError, match="deeper than 64"):
        compose(f"a: &x {inner}\nb: {outer}\n", "f")


def test_sixty_three_levels_inside_a_mapping_are_read():
    data, _ = compose("a: " + "[" * 63 + "]" * 63, "f")
    assert str(data["a"]).count("[") == 63


def test_all_faults_that_leave_the_rest_readable_come_at_once():
    text = "a: .inf\nb: {c: 1, c: 2}\n3: x\nd: !t y\ne: *z\nf: {<<: g}\n"
    with pytest.raises(SpecError) as caught:
        compose(text, "f")
    assert [fault.where.line for fault in caught.value.faults] == [1, 2, 3, 4, 5, 6]


def test_faults_before_a_syntax_error_are_kept():
    with pytest.raises(SpecError) as caught:
        compose("a: *nothing\nb: [1\n", "f")
    assert [fault.where.line for fault in caught.value.faults] == [1, 3]


def test_an_empty_file_is_refused_without_a_line():
    with pytest.raises(SpecError) as caught:
        compose(b"", "f.yaml")
    assert str(caught.value) == "f.yaml: there is nothing in this file"


def test_a_line_of_vast_length_is_not_shown():
    with pytest.raises(SpecError) as caught:
        compose("a: " + "b" * 1000 + ": c", "f")
    assert caught.value.faults[0].text is None


def test_an_excerpt_holds_nothing_that_steers_a_terminal():
    with pytest.raises(SpecError) as caught:
        compose("a: \x1b[31m", "f")
    assert caught.value.faults[0].text == "a: \N{REPLACEMENT CHARACTER}[31m"


def test_a_place_that_the_text_lacks_is_shown_at_the_one_above():
    _, document = compose("a:\n  b: 1\n", "f")
    fault = Origin(document, ("a", "c", 0)).fault("m")
    assert (fault.where.line, fault.where.column, fault.text) == (2, 3, "  b: 1")


def test_a_missing_file_names_its_neighbour(tmp_path):
    (tmp_path / "deploy.yaml").write_text("a: 1")
    with pytest.raises(
        UsageError, match=r"there is no file .*deplooy\.yaml .*did you mean .*deploy\.yaml"
    ):
        read_bytes(tmp_path / "deplooy.yaml")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"there is no folder .*nowhere either"):
        read_bytes(tmp_path / "nowhere" / "a.yaml")


def test_a_folder_is_no_spec(tmp_path):
    with pytest.raises(UsageError, match="is a folder, not a spec"):
        read_bytes(tmp_path)


def test_a_large_file_is_refused_by_its_size(tmp_path):
    with (tmp_path / "big").open("wb") as stream:
        stream.truncate(2**40)  # a sparse file: reading it would take a tebibyte
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read_bytes(tmp_path / "big")


def test_an_endless_device_is_read_no_further_than_the_limit(tmp_path):
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read_bytes(tmp_path / "zero")


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_an_impossible_file_name_is_an_error_for_people(tmp_path, name):
    with pytest.raises(PlannerError, match="cannot read"):
        read_bytes(tmp_path / name)
