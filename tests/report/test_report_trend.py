"""Trends as lines of blocks."""

from __future__ import annotations

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from planner.report.trend import LEAST_SPAN, sparkline, trends_view


def shown(ratios, **changes) -> str:
    """The view of runs whose ratios are given oldest first, as rows newest first."""
    row = {"plan_id": "3f2a", "statistic": "median", "metric": "tpot"} | changes
    console = Console(file=io.StringIO(), width=100)
    console.print(trends_view([row | {"ratio": ratio} for ratio in reversed(ratios)]))
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], "▁█"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([7, 0], "█▁"),
        # half of the height is 3.5 blocks up, which rounds to 4, the fifth
        ([1, 1, 1], "▅▅▅"),
        ([0, 0], "▅▅"),
        # 1 % apart where 5 % fill the height: 0.4 and 0.6 of 7 blocks are 2.8 and 4.2
        ([1.0, 1.01], "▄▅"),
    ],
)
def test_the_height_is_the_place_between_least_and_most(values, expected):
    assert sparkline(values) == expected


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60))
def test_larger_is_never_drawn_lower(values):
    line = sparkline(values)
    assert len(line) == len(values)
    drawn = sorted(zip(values, line, strict=True))
    assert [block for _, block in drawn] == sorted(line)
    if max(values) - min(values) >= LEAST_SPAN * max(values):
        assert (min(line), max(line)) == ("▁", "█")


def test_a_line_for_each_figure_with_three_runs():
    text = shown([0.9, 0.8, 1.1])
    assert "median tpot" in text
    assert "▃▁█" in text  # (0.9 - 0.8) / 0.3 · 7 = 2.33 blocks up
    assert "0.80  1.10    1.10" in text


def test_two_runs_or_runs_without_prediction_have_no_trend():
    assert shown([0.9, 1.1]).strip() == ""
    assert shown([None, None, None, math.inf, 1.0]).strip() == ""


def test_only_the_newest_forty_are_drawn():
    text = shown([5.0, *[1.0] * 40])
    assert "▅" * 40 in text
    assert "5.00" not in text
