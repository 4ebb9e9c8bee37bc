"""Which kernel to write first: what one ideal group saves beside the engine's own kernels."""

from __future__ import annotations

import pytest

from planner.plan.assemble import assemble
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask


@pytest.fixture(scope="module")
def plan():
    text = "model: qwen2.5-7b-instruct\ngpu: rtx-4090\nstep: {decode: {batch: 16, context: 4096}}\n"
    return assemble(ask(load_text(text, "deploy.yaml", "deployment"), Catalog.standard()))


def test_best_kernel_comes_first(plan):
    gains = [each.gain_s for each in plan.first_kernels]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0


def test_a_kernel_saves_what_it_replaces_less_what_it_takes(plan):
    """Engine kernels inside the group go, the group comes; both once in each of its blocks."""
    inside = [
        (row, [k for k in plan.kernels if set(k.nodes) <= set(row.nodes)])
        for row in plan.first_kernels
    ]
    whole = [
        (row, rows)
        for row, rows in inside
        if sorted(n for k in rows for n in k.nodes) == sorted(row.nodes)
        and all(k.repeat == row.repeat for k in rows)
    ]
    assert whole
    for row, rows in whole:
        saved_s = row.repeat * (sum(k.time_s for k in rows) - row.time_s)
        assert row.gain_s == pytest.approx(saved_s)
        assert row.launches_saved == row.repeat * (sum(k.launches for k in rows) - 1)


def test_the_ideal_step_is_at_least_as_quick_as_with_any_one_kernel(plan):
    """The engine's kernels with one group in their place are one of the ideal groupings."""
    best = plan.first_kernels[0].gain_s
    assert plan.step.rule_sets["ideal"].time_s <= plan.step.time_s - best + 1e-12


def test_kernels_come_with_a_tile_that_fits(plan):
    """An RTX 4090 has 256 KiB of registers a multiprocessor, half of them for sums, no clusters."""
    tiled = [row for row in plan.first_kernels if row.level]
    assert tiled
    for row in tiled:
        assert row.level in {"block", "grid"}
        assert row.multiprocessors == 1
        assert 0 < row.kept_bytes <= 128 * 1024
        assert min(row.tile) >= 16
