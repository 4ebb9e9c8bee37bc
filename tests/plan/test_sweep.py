"""Many decode steps as arrays: each row is what a plan of that row alone says."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sweep_samples import CATALOG, EQUAL, STRUCTURES, check
from sweep_samples import question as asked_for
from thoroughness import many

from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.plan.sweep import decodes
from planner.spec.question import ask

EDGES = (1, 2, 3, 8, 9, 64, 65, 128, 129, 256, 257, 512, 513)
"""Captured sizes and the next batch, and where fused all-reduces end."""
batches = st.one_of(st.sampled_from(EDGES), st.integers(1, 4096))
contexts = st.one_of(st.sampled_from((1, 2, 16, 17, 128, 129, 8192, 8193)), st.integers(1, 131_072))


def question(text, batch=16, context=4096):
    return asked_for(text, f"step: {{decode: {{batch: {batch}, context: {context}}}}}")


@pytest.mark.parametrize("text", STRUCTURES.values(), ids=STRUCTURES)
@settings(
    max_examples=many(2, 5), deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(rows=st.lists(st.tuples(batches, contexts), min_size=2, max_size=3))
def test_each_row_is_its_own_plan(text, rows):
    """Asked for together, at several contexts of each batch, and one by one."""
    batch, context = (np.array(each) for each in zip(*rows, strict=True))
    more = np.repeat(batch, 3), np.concatenate([np.roll(context, n) for n in (0, 1, 2)])
    for asked in ((batch, context), more):
        found = decodes(question(text), *asked)
        place = len(asked[0]) // 2
        pair = int(asked[0][place]), int(asked[1][place])
        check(found, place, assemble(question(text, *pair)))


@pytest.mark.parametrize("name", ["fused all-reduce", "an elder engine"])
def test_every_batch_around_the_edges_of_its_regimes(name):
    """Rows astride captured sizes and the limits of fused kernels, in one call."""
    batch = np.array(EDGES)
    found = decodes(question(STRUCTURES[name]), batch, np.full(len(batch), 1024))
    for place, each in enumerate(EDGES):
        check(found, place, assemble(question(STRUCTURES[name], each, 1024)))


def test_pieces_change_nothing():
    """Seven rows at a time or all at once, in any order of rows."""
    draw = np.random.default_rng(5)
    batch, context = draw.integers(1, 2000, 200), draw.integers(1, 30_000, 200)
    asked = question(STRUCTURES["fused all-reduce"])
    whole, cut = decodes(asked, batch, context), decodes(asked, batch, context, chunk=7)
    turned = decodes(asked, batch[::-1], context[::-1])
    for name in ("step_s", "low_s", "high_s", "bound", "mode"):
        values = getattr(whole.steps, name)
        assert getattr(cut.steps, name) == pytest.approx(values, rel=EQUAL)
        assert getattr(turned.steps, name)[::-1] == pytest.approx(values, rel=EQUAL)
    assert cut.missing_bytes == pytest.approx(whole.missing_bytes, rel=EQUAL)


def test_no_rows_have_no_answers():
    none = np.array([], dtype=int)
    assert len(decodes(question(STRUCTURES["dense"]), none, none).steps.step_s) == 0


def test_what_no_row_can_be_is_refused_at_its_place():
    """Seven ranks do not share 64 heads."""
    text = "model: llama-3.3-70b-instruct\ngpu: h100-sxm\nparallel: {tensor: 7}\n"
    with pytest.raises(SpecError, match="does not split over 7"):
        decodes(question(text), np.array([1]), np.array([1]))


def test_the_roofline_sweeps_too():
    """A lower bound has no interval."""
    asked = question(STRUCTURES["dense"])
    bare = ask(asked.deployment, CATALOG, "roofline")
    found = decodes(bare, np.array([16, 300]), np.array([4096, 100]))
    assert found.steps.step_s[0] == pytest.approx(assemble(bare).step.time_s, rel=EQUAL)
    assert np.isnan(found.steps.high_s).all()
