"""CSV text to cells with places: what spreadsheets write, and what they should not have."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.spec.csv_cells import LARGEST_BYTES, records


def read(text):
    raw = text.encode() if isinstance(text, str) else text
    return list(records(io.BytesIO(raw)))


def texts(text):
    return [[cell.text for cell in record.cells] for record in read(text)]


def places(record):
    return [(cell.line, cell.column) for cell in record.cells]


def test_cells_know_their_lines_and_columns():
    """``a,bc`` has its second cell in column 3; spaces before a value do not count as it."""
    first, second = read("a,bc\n1,  2\n")
    assert places(first) == [(1, 1), (1, 3)]
    assert places(second) == [(2, 1), (2, 5)]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_either_line_ending_ends_a_row(ending):
    assert texts(ending.join(["a,b", "1,2", ""])) == [["a", "b"], ["1", "2"]]


def test_the_last_line_may_lack_its_ending():
    assert texts("a,b\n1,2") == [["a", "b"], ["1", "2"]]


def test_a_byte_order_mark_is_no_part_of_the_first_name():
    (record,) = read(b"\xef\xbb\xbfid,model\n")
    assert [cell.text for cell in record.cells] == ["id", "model"]
    assert places(record) == [(1, 1), (1, 4)]


def test_quotes_hold_commas_quotes_and_line_breaks():
    """After a break inside quotes the next cell stands in the second line, column 4."""
    (record,) = read('"a, ""b""\nc", d\n')
    assert [cell.text for cell in record.cells] == ['a, "b"\nc', "d"]
    assert places(record) == [(1, 1), (2, 5)]


def test_blank_lines_and_rows_of_empty_cells_are_no_rows():
    assert texts("a,b\n\n,\n  , \n1,\n") == [["a", "b"], ["1", ""]]


def test_a_quote_that_never_closes_costs_its_own_row():
    """The rows below are read as if the quote were not there."""
    first, broken, after = read('a,b\n1,"open\n2,3\n')
    assert first.flaw is None
    assert (broken.line, broken.flaw.line, broken.flaw.column) == (2, 2, 3)
    assert "not closed" in broken.flaw.message
    assert [cell.text for cell in broken.cells] == ["1"]
    assert [cell.text for cell in after.cells] == ["2", "3"]


def test_text_after_a_closing_quote_is_a_flaw_at_its_place():
    broken, after = read('"a"b,c\n1,2\n')
    assert (broken.flaw.line, broken.flaw.column) == (1, 4)
    assert [cell.text for cell in after.cells] == ["1", "2"]


def test_a_carriage_return_inside_a_line_is_a_flaw():
    """A file that ends its lines in CR alone is one line to us."""
    (record,) = read("a,b\r1,2")
    assert (record.flaw.line, record.flaw.column) == (1, 4)


def test_bytes_that_are_no_utf8_are_kept():
    """They can be written back as they were."""
    (record,) = read(b"caf\xe9,x\n")
    assert record.cells[0].text.encode("utf-8", "surrogateescape") == b"caf\xe9"


def test_a_line_of_over_a_mebibyte_is_refused_and_passed():
    """Its rest is not taken for another row."""
    long, after = read("x" * (3 * LARGEST_BYTES) + ",1\n2,3\n")
    assert "1 MiB" in long.flaw.message
    assert (after.line, [cell.text for cell in after.cells]) == (2, ["2", "3"])


def test_rows_are_given_out_as_they_are_read():
    """Of a stream without end the first rows can be had."""

    class Endless(io.RawIOBase):
        def readline(self, size=-1):
            return b"1,2\n"

    rows = records(Endless())
    assert [next(rows).line for _ in range(3)] == [1, 2, 3]


CELLS = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\ufeff", exclude_categories=["Cs"]),
    max_size=8,
)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=4), max_size=6))
def test_what_pythons_writer_writes_is_read_as_it_was(rows):
    """But for spaces around values, and rows that hold nothing."""
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    stripped = [[cell.strip() for cell in row] for row in rows]
    assert texts(stream.getvalue()) == [row for row in stripped if any(row)]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_to_their_end(raw):
    """No row stands above the one before, and no cell outside its file."""
    found = read(raw)
    lines = [record.line for record in found]
    assert lines == sorted(set(lines))
    assert all(1 <= cell.line <= raw.count(b"\n") + 1 for r in found for cell in r.cells)
