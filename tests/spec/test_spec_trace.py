"""Trace files in the shapes that are published."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import PlannerError, SpecError, UsageError
from planner.spec.trace import TraceRow, read_trace

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.5000000+00:00,300,20
2024-05-10 00:00:02.7500000+00:00,100,10
"""
AZURE_2023 = """\
TIMESTAMP,ContextTokens,GeneratedTokens\r
2023-11-16 18:15:46.6805900,374,44\r
2023-11-16 18:15:50.9951690,396,109\r
"""
MOONCAKE = """\
{"timestamp": 0, "input_length": 655, "output_length": 52, "hash_ids": [46, 47]}
{"timestamp": 1500, "input_length": 672, "output_length": 26, "hash_ids": [46, 47]}
"""
OWN = "id,arrival_s,input,output\na,3,10,4\nb,1.5,20,5\n"


def read(tmp_path, text):
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    return read_trace(path)


def test_the_azure_trace_of_2024(tmp_path):
    assert read(tmp_path, AZURE) == (TraceRow(0, 300, 20), TraceRow(2.25, 100, 10))


def test_the_azure_trace_of_2023_has_no_zone_and_seven_digits(tmp_path):
    first, second = read(tmp_path, "\ufeff" + AZURE_2023)
    assert (first.input, first.output) == (374, 44)
    assert second.at_s == pytest.approx(50.995169 - 46.680590, abs=1e-5)


def test_the_mooncake_trace_counts_milliseconds(tmp_path):
    assert read(tmp_path, MOONCAKE) == (TraceRow(0, 655, 52), TraceRow(1.5, 672, 26))


def test_a_trace_of_our_own_is_put_in_order(tmp_path):
    assert read(tmp_path, OWN) == (TraceRow(0, 20, 5), TraceRow(1.5, 10, 4))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("arrival_s,input,output\n0,10,4\nx,10,4\n", "trace:3:1: not a request: 'x' is no time"),
        ("arrival_s,input,output\n0,0,4\n", "trace:2:1: not a request: '0' is no number of tokens"),
        ("arrival_s,input,output\nnan,1,4\n", "trace:2:1: not a request: 'nan' is no time"),
        ("arrival_s,input,output\n0,10\n", "trace:2:1: not a request: output is missing"),
        ("arrival_s,input,output\n0,10,1.5\n", "'1.5' is no number of tokens above zero"),
        (AZURE + "2023-13-45 1,1,1\n", "trace:4:1: not a request: '2023-13-45 1' is no date"),
        ('{"timestamp": [], "input_length": 1, "output_length": 1}\n', "[] is no time"),
        (
            AZURE + "yesterday,1,1\n",
            "trace:4:1: not a request: 'yesterday' is no date, as in 2023-11-16",
        ),
        ('{"timestamp": 0}\n', "trace:1:1: not a request: input_length is missing"),
        ('{"timestamp": 0, "input_length": true, "output_length": 1}\n', "True is no number"),
        (MOONCAKE + "{nonsense\n", "trace:3:1: not a request: a line is one object of JSON"),
    ],
)
def test_a_row_that_is_no_request_is_told_with_its_line(tmp_path, text, words):
    with pytest.raises(SpecError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "arrival_s,input\n"])
def test_a_file_of_other_columns_is_no_trace(tmp_path, text):
    with pytest.raises(UsageError, match=r"no trace that is known .*TIMESTAMP,ContextTokens"):
        read(tmp_path, text)


def test_a_file_without_rows_or_none_at_all_is_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no request"):
        read(tmp_path, "arrival_s,input,output\n")
    with pytest.raises(UsageError, match="there is no file"):
        read_trace(tmp_path / "absent")
    with pytest.raises(UsageError, match="cannot read"):
        read_trace(tmp_path)


@given(st.text(max_size=60))
def test_whatever_stands_in_it_is_read_or_refused(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("traces")
    for head in ("", "arrival_s,input,output\n", "{"):
        with suppress(PlannerError):
            assert read(folder, head + text)
