"""The search over assignments is exact, and the assignments are those a reader would make."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.plan.alignment import (
    GAP,
    MORE,
    NEXT,
    OPEN,
    OPEN_LATE,
    SWAP,
    Expected,
    Launches,
    align,
)


def score(assigned, launches, kernels):
    """The score by the definition, launch by launch; None for what is no assignment."""
    total, visited, here = 0, [], {}
    for name, kernel in zip(launches.names, assigned, strict=True):
        if kernel is None:
            continue
        if not launches.fits[name, kernels[kernel].fits]:
            return None
        if visited and visited[-1] == kernel:
            here[kernel] += 1
            total += NEXT if here[kernel] <= max(1, kernels[kernel].launches) else MORE
        elif kernel in here:
            return None
        else:
            visited.append(kernel)
            here[kernel] = 1
            total += OPEN_LATE if launches.late[name] else OPEN
    lost = passed_over(visited, kernels)
    return None if lost is None else total - lost


def passed_over(visited, kernels):
    """What gaps and swaps cost; None where the order is neither the plan's nor one of swaps."""
    lost, reached = 0, 0
    while visited:
        kernel, *visited = visited
        if visited and visited[0] == kernel - 1 >= reached:
            pair = kernels[kernel - 1], kernels[kernel]
            if pair[0].fits == pair[1].fits or any(one.launches > 1 for one in pair):
                return None
            lost += SWAP + (GAP if kernel - 1 > reached else 0)
            reached, visited = kernel + 1, visited[1:]
        elif kernel >= reached:
            lost += GAP if kernel > reached else 0
            reached = kernel + 1
        else:
            return None
    return lost


def brute_force(launches, kernels):
    choices = [None, *range(len(kernels))]
    scores = (
        score(assigned, launches, kernels)
        for assigned in itertools.product(choices, repeat=len(launches.names))
    )
    return max(found for found in scores if found is not None)


@st.composite
def cases(draw):
    names, columns = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    kernels = draw(
        st.lists(
            st.builds(Expected, st.integers(0, columns - 1), st.integers(0, 3)),
            min_size=1,
            max_size=4,
        )
    )
    order = draw(st.lists(st.integers(0, names - 1), min_size=1, max_size=5))
    bits = st.lists(st.booleans(), min_size=names * columns, max_size=names * columns)
    fits = np.array(draw(bits)).reshape(names, columns)
    late = np.array(draw(st.lists(st.booleans(), min_size=names, max_size=names)))
    return Launches(order, fits, late), kernels


@settings(max_examples=many(60, 300), deadline=None)
@given(cases())
def test_no_assignment_scores_higher_than_the_one_found(case):
    launches, kernels = case
    assigned = align(launches, kernels)
    assert score(assigned, launches, kernels) == brute_force(launches, kernels)


def aligned(words, kernels, fits):
    """Positions for launches and kernels in words; ``fits`` names the kernels a name may be of."""
    names = sorted(set(words))
    kinds = sorted(set(kernels))
    table = np.array([[kind in fits.get(name, ()) for kind in kinds] for name in names])
    late = np.array(["reduce" in name for name in names])
    launches = Launches([names.index(word) for word in words], table, late)
    return align(launches, [Expected(kinds.index(kernel), 1) for kernel in kernels])


GEMM = {"gemm": ("linear",), "splitK_reduce": ("linear",)}
NORM = {"norm": ("norm",), "act": ("act",), "attn": ("attn",)}


def test_order_tells_gemms_of_one_name_apart():
    """qkv, attention, o, norm, gate and up, act, down: all GEMMs are called gemm."""
    words = ["gemm", "attn", "gemm", "norm", "gemm", "act", "gemm"]
    plan = ["linear", "attn", "linear", "norm", "linear", "act", "linear"]
    assert aligned(words, plan, GEMM | NORM) == [0, 1, 2, 3, 4, 5, 6]


def test_a_split_k_reduction_goes_with_the_gemm_before_it():
    words = ["gemm", "splitK_reduce", "gemm", "splitK_reduce", "norm"]
    assert aligned(words, ["linear", "linear", "norm"], GEMM | NORM) == [0, 0, 1, 1, 2]


def test_a_launch_of_no_kernel_stays_unmatched_and_a_kernel_may_get_none():
    words = ["gemm", "memset", "gemm", "norm"]
    plan = ["linear", "attn", "linear", "norm"]
    assert aligned(words, plan, GEMM | NORM) == [0, None, 2, 3]


def test_neighbours_may_have_changed_places():
    """Python computes act(gate(x)) before up(x); the plan names gate, up, act."""
    words = ["gemm", "act", "gemm", "norm"]
    assert aligned(words, ["linear", "linear", "act", "norm"], GEMM | NORM) == [0, 2, 1, 3]


def test_half_a_model_lies_along_whole_layers():
    """Two layers of four that were planned: none is pieced together from several."""
    layer = ["norm", "linear", "act", "linear"]
    words = ["norm", "gemm", "act", "gemm"] * 2
    assert aligned(words, layer * 4, GEMM | NORM) == list(range(8))


def test_expected_launches_settle_who_gets_a_name_that_fits_both():
    """An add of one launch before a norm of three, all called elementwise: 1 + 3."""
    launches = Launches([0, 0, 0, 0], np.array([[True, True]]), np.array([False]))
    assert align(launches, [Expected(0, 1), Expected(1, 3)]) == [0, 1, 1, 1]


def test_a_step_of_thousands_of_launches_is_exact_too():
    """500 layers of four kernels, each launched as planned: every one finds its own."""
    fits = np.eye(4, dtype=bool)
    launches = Launches([0, 1, 2, 3] * 500, fits, np.zeros(4, bool))
    kernels = [Expected(kind, 1) for kind in (0, 1, 2, 3)] * 500
    assert align(launches, kernels) == list(range(2000))
