"""Products with their sums over ranks as one kernel, as published and as priced."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from builders.fused_sums import cases

FEW_TOKENS = 1024
"""Below, kernels that were measured gain less, or nothing, for reasons of their own."""
MOST_OFF = 0.25
"""Of the ratio of both times."""


def test_one_kernel_gains_as_much_as_was_measured_of_many_tokens():
    found = [case for case in cases() if int(case.cells["tokens"]) >= FEW_TOKENS]
    assert len(found) == 12
    for case in found:
        assert case.ratio == pytest.approx(case.measured, rel=MOST_OFF), case.cells


def test_one_kernel_is_never_priced_above_both():
    """Nor below the longer of link and product, which are at least half of both."""
    for case in cases():
        assert 0.5 < case.ratio < 1
