"""Published megakernels beside their limit: sound rows, and none below it."""

import sys

import pytest
from docs_pages import ROOT

sys.path.insert(0, str(ROOT / "docs"))

from builders.megakernels import cases


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.cells["case"])
def test_nobody_measured_less_than_the_limit(case):
    assert case.limit_s < case.measured_s


def test_every_row_has_a_source_and_says_whether_it_was_read():
    rows = [case.cells for case in cases()]
    assert all(row["source"].startswith("https://") for row in rows)
    assert {row["seen"] for row in rows} == {"read", "recalled"}
    assert len({row["case"] for row in rows}) == len(rows)
