"""Batches with their weights: written out, and in files."""

import pytest

from planner.errors import SpecError, UsageError
from planner.spec.batches import read_batches


def test_written_out():
    assert read_batches("1:10,8:2.5, 16") == {1: 10, 8: 2.5, 16: 1}


def test_a_batch_that_stands_twice_counts_twice():
    assert read_batches("8,2,8") == {2: 1, 8: 2}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("steps.yaml", "1: 10\n8: 2\n"),
        ("steps.csv", "batch,weight\n8,2\n1,10\n"),
        ("steps.csv", "8,2\n1,4\n1,6\n"),
    ],
)
def test_files(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_batches(str(tmp_path / name)) == {1: 10, 8: 2}


def test_logs_of_engines_count_their_lines(tmp_path):
    """Lines as SGLang 0.5 and vLLM print them; an idle one is no step."""
    log = tmp_path / "server.log"
    log.write_text(
        "Decode batch. #running-req: 48, #token: 90123, cuda graph: True\n"
        "Avg generation throughput: 900.1 tokens/s, Running: 47 reqs, Waiting: 0 reqs\n"
        "Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs\n"
        "Decode batch. #running-req: 48, #token: 90171, cuda graph: True\n",
        encoding="utf-8",
    )
    assert read_batches(str(log)) == {47: 1, 48: 2}


@pytest.mark.parametrize(
    "given", ["0:1", "1:nan", "99999999:1", "8:0", "1:1e999", "absent.csv", ""]
)
def test_what_is_no_batch(given):
    with pytest.raises(UsageError):
        read_batches(given)


@pytest.mark.parametrize("text", ["[1, 2]", "a: 1", "1.5: 2", "true: 1", "{", "1: [2]"])
def test_what_is_no_mapping(tmp_path, text):
    (tmp_path / "steps.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        read_batches(str(tmp_path / "steps.yaml"))


def test_a_bad_line_is_named(tmp_path):
    (tmp_path / "steps.csv").write_text("8,2\nx,1\n", encoding="utf-8")
    with pytest.raises(SpecError, match=r"steps\.csv:2:1: 'x: 1' is no batch"):
        read_batches(str(tmp_path / "steps.csv"))
