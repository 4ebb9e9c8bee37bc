"""Measured rows of the very shape that a plan asks for."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.calibrate.counterparts import SIZES, Counterparts
from planner.calibrate.families import FAMILIES
from planner.calibrate.types import Rows
from planner.cost.kernels.attention import AttentionShape
from planner.cost.kernels.collective import CollectiveShape
from planner.cost.kernels.gemm import GemmShape
from planner.cost.kernels.mla import MlaShape
from planner.cost.kernels.moe import MoeShape


def table(family: str, shape: object, time_s: list[float]) -> Counterparts:
    """A table of so many made-up times."""
    rows = np.array(time_s)
    return Counterparts(
        Rows(family, "g", "e", "1", "v", "t", shape, rows, {}, np.ones(len(rows), bool))
    )


def columns(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


def gemms() -> Counterparts:
    """Two weights; of one 16 and 32 rows were timed."""
    rows, depth = columns(16, 32, 16), columns(4096, 4096, 8192)
    return table("gemm", GemmShape(rows, depth, columns(*[1024] * 3), 6.0 + 0 * rows), [2, 8, 5])


def test_the_very_shape_is_found_and_run_as_the_benchmark_ran_it():
    """The plan's product comes in quantised and cold; the benchmark cycled through six weights."""
    found = gemms().find(GemmShape(16, 8192, 1024, quantised=True))
    assert (found.time_s, found.exact) == (5, True)
    assert (found.shape.weight_copies, found.shape.quantised) == (6, 0)
    assert (found.shape.rows, found.shape.depth) == (16, 8192)


def test_between_rows_of_a_gemm_nothing_stands_in():
    """A row more may be a tile more."""
    assert gemms().find(GemmShape(24, 4096, 1024)) is None


def prompts() -> Counterparts:
    """One sequence of 1,024, of 2,048 and of 8,192 tokens took 2, 8 and 9 seconds."""
    new = columns(1024, 2048, 8192)
    shape = AttentionShape(1 + 0 * new, new, new, 8, 1, 128)
    return table("attention_prefill", shape, [2, 8, 9])


def prompt(tokens: float, heads: int = 8) -> AttentionShape:
    return AttentionShape(1, tokens, tokens, heads, 1, 128)


def test_between_two_neighbours_time_is_straight_in_logarithms():
    """1,448 tokens lie halfway from 1,024 to 2,048 in logarithms: sqrt(2 · 8) = 4."""
    found = prompts().find(prompt(math.sqrt(1024 * 2048)))
    assert (found.time_s, found.exact) == (pytest.approx(4), False)


@pytest.mark.parametrize(
    ("tokens", "heads", "why"),
    [
        (4096, 8, "its neighbours, 2,048 and 8,192 tokens, are four times apart"),
        (512, 8, "nothing shorter was measured"),
        (16384, 8, "nothing longer was measured"),
        (1024, 16, "no such heads were measured"),
    ],
)
def test_nothing_else_stands_in(tokens, heads, why):
    assert prompts().find(prompt(tokens, heads)) is None, why


def experts(**changes: float) -> MoeShape:
    """Eight tokens to two of eight experts each, all of them touched."""
    return dataclasses.replace(MoeShape(8.0, 4096, 7168, 2, 16.0, 8.0, gated=True), **changes)


def test_experts_need_the_load_of_the_busiest_rank_too():
    """Of 8 tokens, one row gave the rank 16 pairs and 8 experts, another 8 pairs and 4 experts."""
    each = {name: columns(value, value) for name, value in vars(experts()).items()}
    rows = table("moe", MoeShape(**each | _loads()), [30, 20])
    assert rows.find(experts()).time_s == 30
    assert rows.find(experts(pairs=8.0, touched=4.0)).time_s == 20
    assert rows.find(experts(pairs=12.0)) is None
    assert rows.find(experts(tokens=7.0)) is None, "no neighbour stands in"
    assert rows.find(experts(gated=False)) is None


def _loads() -> dict[str, np.ndarray]:
    return {"pairs": columns(16, 8), "touched": columns(8, 4)}


def test_decode_of_another_context_is_found_between_and_of_another_head_count_not():
    """From 1,024 keys in 10 us to 2,048 in 20: 1,448 keys, halfway, take 14.1."""
    keys = columns(1024, 2048)
    every = 0 * keys
    rows = table(
        "attention_decode", AttentionShape(4 + every, 1 + every, keys, 8, 1, 128), [10, 20]
    )
    middle = AttentionShape(4, 1, math.sqrt(1024 * 2048), 8, 1, 128)
    assert rows.find(middle).time_s == pytest.approx(math.sqrt(200))
    assert rows.find(dataclasses.replace(middle, heads=16)) is None
    assert rows.find(dataclasses.replace(middle, window=128)) is None


def test_prompts_behind_a_cached_prefix_are_other_prompts():
    """1,024 new tokens behind 1,024 are not 2,048 fresh ones."""
    new = columns(1024, 2048)
    rows = table("mla_prefill", MlaShape(0 * new + 1, new, new, 16), [10, 40])
    assert rows.find(MlaShape(1, 2048, 2048, 16)).time_s == 40
    assert rows.find(MlaShape(1, 1024, 2048, 16)) is None


def test_a_call_from_the_host_is_no_call_of_a_graph():
    size = columns(2**20, 2**20)
    shape = CollectiveShape(size, 8 + 0 * size, columns(1, 0), columns(1, 0))
    found = table("collective", shape, [90, 30]).find(CollectiveShape(2**20, 8))
    assert found.time_s == 30


@given(st.floats(16, 32), st.floats(1, 100), st.floats(1, 100))
def test_a_time_between_neighbours_lies_between_theirs(size, first, second):
    """Whatever the neighbours took."""
    shape = CollectiveShape(columns(16, 32), 8, 0 * columns(1, 1), 0 * columns(1, 1))
    found = table("collective", shape, [first, second]).find(CollectiveShape(size, 8))
    low, high = sorted((first, second))
    assert low * (1 - 1e-9) <= found.time_s <= high * (1 + 1e-9)


def test_every_family_with_shapes_can_be_looked_up():
    """Streaming kernels alone are none that a model asks for by shape."""
    assert {*SIZES} == {*FAMILIES.names()} - {"elementwise"}
