"""The bottom layer: errors, registries, number formats, shared arithmetic, shipped folders."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import num, resources
from planner.dtypes import DTYPES, bytes_per_element, is_quantized
from planner.errors import Fault, PlannerError, SpecError, UsageError, Where
from planner.registry import Registry, nearest

NUMBERS = st.integers(min_value=-(10**6), max_value=10**6)


def test_a_fault_shows_place_message_hint_line_and_caret():
    fault = Fault(
        Where("d.yaml", 2, 3), "contxt: unknown field", "did you mean 'context'?", "  contxt: 1"
    )
    assert str(fault).splitlines() == [
        "d.yaml:2:3: contxt: unknown field (did you mean 'context'?)",
        "   2 |   contxt: 1",
        "     |   ^",
    ]


def test_the_caret_stands_under_its_column():
    shown = str(Fault(Where("d.yaml", 1, 5), "wrong", None, "abc XYZ")).splitlines()
    assert shown[2].index("^") == shown[1].index("X")


def test_a_place_without_line_is_the_file_alone():
    assert str(Fault(Where("<python>"), "wrong", text="never shown")) == "<python>: wrong"


def test_a_spec_error_sorts_its_faults_as_they_stand_in_the_file():
    places = [Where("a.yaml", 9, 1), Where("a.yaml", 2, 7), Where("a.yaml", 2, 3)]
    error = SpecError(Fault(place, "wrong") for place in places)
    assert [fault.where for fault in error.faults] == sorted(places)
    assert str(error).splitlines()[0] == "a.yaml:2:3: wrong"


def test_every_error_for_people_is_one_tree_with_exit_code_two():
    assert issubclass(SpecError, PlannerError)
    assert issubclass(UsageError, PlannerError)
    assert PlannerError.exit_code == 2


def test_a_registry_keeps_order_and_finds_by_name():
    registry: Registry[str] = Registry("fruit")
    registry.register("pear")("a pear")
    registry.register("apple")("an apple")
    assert registry.names() == ("pear", "apple")
    assert registry.get("apple") == "an apple"
    assert registry.get("plum") is None
    assert list(registry) == [("pear", "a pear"), ("apple", "an apple")]


def test_a_registry_refuses_two_things_by_one_name():
    registry: Registry[str] = Registry("fruit")
    registry.register("pear")("a pear")
    with pytest.raises(ValueError, match=r"^two of kind fruit are named 'pear'$"):
        registry.register("pear")("another")


def test_the_nearest_name_is_offered_only_when_it_is_near():
    registry: Registry[int] = Registry("operator")
    registry.register("linear")(1)
    assert registry.nearest("liner") == "linear"
    assert registry.nearest("softmax") is None
    assert nearest("contxt", ["context", "batch"]) == "context"


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("fp32", 4),
        ("tf32", 4),
        ("bf16", 2),
        ("fp16", 2),
        ("fp8", 1),
        ("int8", 1),
        ("fp8_block", (128 * 128 * 8 + 32) / 8 / 128**2),  # a block shares a 32-bit scale
        ("int4", (128 * 4 + 16) / 8 / 128),  # 128 elements share a 16-bit scale
        ("int4_g64", (64 * 4 + 16) / 8 / 64),
        ("int4_g32", (32 * 4 + 16) / 8 / 32),
        ("awq", (128 * 4 + 16 + 4) / 8 / 128),  # and a 4-bit zero point
        # 64 elements share an 8-bit scale, 256 such scales a 32-bit one
        ("nf4", (256 * (64 * 4 + 8) + 32) / 8 / (256 * 64)),
        ("nvfp4", (16 * 4 + 8) / 8 / 16),  # 16 elements share an 8-bit scale
        ("mxfp4", (32 * 4 + 8) / 8 / 32),  # 32 elements share an 8-bit exponent
    ],
)
def test_an_element_takes_its_bits_and_its_share_of_the_scale(dtype, size):
    assert bytes_per_element(dtype) == size


def test_every_format_has_a_size_and_only_narrow_ones_are_quantised():
    assert {dtype for dtype in DTYPES if is_quantized(dtype)} == {
        "fp8", "fp8_block", "int8", "int4", "int4_g64", "int4_g32", "awq", "nf4", "nvfp4", "mxfp4",
    }  # fmt: skip
    assert all(0 < bytes_per_element(dtype) <= 4 for dtype in DTYPES)


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.lists(NUMBERS, min_size=3, max_size=3))
def test_maximum_and_minimum_agree_for_scalars_and_arrays(values, column):
    assert num.maximum(*values) == max(values)
    assert num.minimum(*values) == min(values)
    arrays = np.array(column)
    assert num.maximum(arrays, *values).tolist() == [max(x, *values) for x in column]
    assert num.minimum(arrays, *values).tolist() == [min(x, *values) for x in column]


def test_where_chooses_for_a_scalar_and_element_by_element():
    assert num.where(True, 1, 2) == 1
    assert num.where(False, 1, 2) == 2
    assert num.where(np.array([1, 5]) > 3, 10, 20).tolist() == [20, 10]


@given(st.integers(0, 10**12), st.integers(1, 10**6))
def test_ceil_div_is_the_least_whole_number_that_covers(numerator, denominator):
    quotient = num.ceil_div(numerator, denominator)
    assert (quotient - 1) * denominator < numerator <= quotient * denominator
    assert num.ceil_div(np.array([numerator]), denominator).tolist() == [quotient]


@pytest.mark.parametrize("name", ["catalog", "specs", "migrations"])
def test_shipped_folders_are_found(name):
    assert resources.folder(name).is_dir()
    assert resources.folder(name).name == name


def test_a_missing_folder_means_a_broken_installation():
    with pytest.raises(PlannerError, match=r"^the installation lacks its folder 'nowhere'"):
        resources.folder("nowhere")


def test_the_wheels_own_data_is_found_before_a_folder_beside_the_package(tmp_path, monkeypatch):
    package = tmp_path / "planner"
    (package / "_data" / "catalog").mkdir(parents=True)
    (tmp_path / "catalog").mkdir()
    (tmp_path / "specs").mkdir()
    monkeypatch.setattr(resources, "_PACKAGE", package)
    assert resources.folder("catalog") == package / "_data" / "catalog"
    assert resources.folder("specs") == tmp_path / "specs"


def test_a_name_that_goes_on_where_the_word_stops_is_the_nearest():
    known = ["qwen3-0.6b", "qwen2.5-0.5b-instruct", "qwen2.5-0.5b-instruct-awq"]
    assert nearest("qwen2.5-0.5b", known) == "qwen2.5-0.5b-instruct"
    assert nearest("", known) is None
