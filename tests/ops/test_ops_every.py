"""What holds for every registered operator, whatever its family."""

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from op_examples import CASES, EXAMPLES, FORMATS, inputs_of, load, sites
from thoroughness import many

from planner.ops import OPERATORS
from planner.ops.types import OpClass, Operator, Site, Tiling, Work

TILING = Tiling(query_tile=4, l2_bytes=2_000)
"""So small an L2 that some of the drawn loads miss it and some don't."""

LOADS = st.tuples(st.integers(1, 50), st.integers(1, 40), st.integers(0, 300)).map(
    lambda drawn: (drawn[0], drawn[1], drawn[1] + drawn[2])
)

each = pytest.mark.parametrize(
    ("name", "example"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)


few = settings(max_examples=many(10, 25))
"""Enough for each of some thirty operators."""


def ledger(op: Operator, site: Site) -> dict[str, object]:
    """Every number an operator answers with."""
    found: dict[str, object] = {}
    works = {
        "work": op.work(site),
        "untiled": op.executed(site, None),
        "tiled": op.executed(site, TILING),
    }
    for name, work in works.items():
        for part in dataclasses.fields(Work):
            found[f"{name}.{part.name}"] = getattr(work, part.name)
        found[f"{name}.private"] = work.private_bytes
    for position, size in enumerate(op.input_bytes(site)):
        found[f"in{position}"] = size
    for tensor in (*site.inputs, *site.outputs):
        found[tensor.name + ".bytes"] = tensor.bytes(site.load)
    return found


def ledgers(name, example, step) -> dict[str, object]:
    return {
        f"{i}.{key}": value
        for i, (op, site) in enumerate(sites(name, example, step))
        for key, value in ledger(op, site).items()
    }


def test_every_registered_operator_has_an_example():
    assert set(EXAMPLES) == set(OPERATORS.names())


@each
@few
@given(loads=st.lists(LOADS, min_size=1, max_size=6), kind=st.sampled_from([np.int64, np.float64]))
def test_arrays_of_loads_give_what_each_load_gives_alone(name, example, loads, kind):
    columns = [np.array(column, dtype=kind) for column in zip(*loads, strict=True)]
    together = ledgers(name, example, load(*columns))
    alone = [ledgers(name, example, load(*one)) for one in loads]
    for key, values in together.items():
        expected = [one[key] for one in alone]
        assert np.broadcast_to(values, len(loads)).tolist() == pytest.approx(expected, rel=1e-12), (
            key
        )


@each
@few
@given(one=LOADS)
def test_no_amount_is_negative(name, example, one):
    assert all(value >= 0 for value in ledgers(name, example, load(*one)).values())


@each
@few
@given(
    one=LOADS, more=st.integers(1, 60), what=st.sampled_from(["count", "new_tokens", "kv_tokens"])
)
def test_a_larger_load_never_costs_less(name, example, one, more, what):
    count, new, kv = one
    if example.decodes:
        assume(what != "new_tokens")
        new = 1
    # New tokens come behind the same prior ones; a longer cache lies before the same new ones.
    grown = {
        "count": (count + more, new, kv),
        "new_tokens": (count, new + more, kv + more),
        "kv_tokens": (count, new, kv + more),
    }[what]
    small = ledgers(name, example, load(count, new, kv))
    large = ledgers(name, example, load(*grown))
    assert all(small[key] <= large[key] for key in small)


@each
@few
@given(one=LOADS)
def test_a_kernel_executes_at_least_the_useful_work(name, example, one):
    for op, site in sites(name, example, load(*one)):
        useful = op.work(site)
        for executed in (op.executed(site, None), op.executed(site, TILING)):
            assert executed.matmul_flops >= useful.matmul_flops
            assert executed.vector_flops >= useful.vector_flops
            assert executed.private_bytes >= useful.private_bytes


@each
def test_an_operator_says_what_it_is(name, example):
    kind = OPERATORS.get(name)
    assert kind is not None
    assert kind.about
    assert kind.__doc__
    assert kind.op_class is not OpClass.OPAQUE
    fewest, most = kind.arity
    assert fewest <= len(example.inputs) <= most


@each
def test_only_operators_on_matrix_units_have_matrix_flops(name, example):
    for op, site in sites(name, example, load(3, 1 if example.decodes else 5, 9)):
        assert (op.work(site).matmul_flops > 0) == op.matrix


@each
def test_equal_attributes_make_equal_operators(name, example):
    assert example.operator(name) == example.operator(name)
    assert hash(example.operator(name)) == hash(example.operator(name))


@each
def test_on_two_ranks_no_operator_does_more_than_on_one(name, example):
    op, _ = example.operator(name).sharded(2)
    whole = example.operator(name)
    if whole.parts():
        return
    shapes = tuple(tensor.shape for tensor in inputs_of(name, example))
    before = sum(p.elements for p in whole.parameters(shapes, FORMATS))
    assert sum(p.elements for p in op.parameters(shapes, FORMATS)) <= before


def test_a_composite_has_no_work_of_its_own():
    op = EXAMPLES["attention"][0].operator("attention")
    with pytest.raises(TypeError, match=r"^Attention has no work of its own"):
        op.work(None)
