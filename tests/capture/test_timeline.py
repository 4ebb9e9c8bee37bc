"""The launch timeline against a kernel-by-kernel run of both clocks."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from planner.capture.timeline import Issue, timeline

SECONDS = st.floats(0, 1e-3)
ISSUES = st.builds(Issue, SECONDS, SECONDS, st.just(0.0))
RUNS = st.lists(
    st.tuples(st.lists(ISSUES, min_size=1, max_size=5).map(tuple), st.integers(1, 6)),
    min_size=1,
    max_size=4,
)


def by_hand(runs, start_s):
    """Every kernel in turn: it starts when the one before has ended and its launch was issued."""
    host, device = start_s, 0.0
    for kernels, times in runs:
        for _ in range(times):
            for kernel in kernels:
                host += kernel.launch_s
                device = max(device, host) + kernel.device_s
    return host, device


@given(RUNS, SECONDS)
def test_closed_form_of_repeats_equals_running_both_clocks(runs, start_s):
    host, device = by_hand(runs, start_s)
    line = timeline(runs, start_s)
    assert math.isclose(line.host_s, host, rel_tol=1e-9, abs_tol=1e-15)
    assert math.isclose(line.device_s, device, rel_tol=1e-9, abs_tol=1e-15)
    assert line.time_s == max(line.host_s, line.device_s)


def test_a_slow_host_gives_the_sum_of_launches():
    """T_loop -> N·t_launch + the last kernel where launching takes longer than running."""
    kernels = tuple(Issue(10e-6, 2e-6, 2e-6) for _ in range(100))
    assert math.isclose(timeline([(kernels, 1)]).time_s, 100 * 10e-6 + 2e-6)
    # the device runs 200 us of them
    assert math.isclose(timeline([(kernels, 1)]).starved_s, 802e-6)


def test_one_replay_gives_the_kernels_plus_one_launch():
    """T_graph = T_compute + t_launch_once."""
    kernels = tuple(Issue(0.0, 2e-6, 2e-6) for _ in range(100))
    assert math.isclose(timeline([(kernels, 1)], 10e-6).time_s, 10e-6 + 100 * 2e-6)


def test_a_fast_host_hides_every_launch_but_the_first():
    kernels = tuple(Issue(1e-6, 5e-6, 5e-6) for _ in range(100))
    assert math.isclose(timeline([(kernels, 1)]).time_s, 1e-6 + 100 * 5e-6)


def test_launch_share_is_what_is_not_work():
    """Ten kernels of 3 us work and 1 us start, launched for nothing: a quarter is not work."""
    kernels = tuple(Issue(0.0, 4e-6, 3e-6) for _ in range(10))
    assert math.isclose(timeline([(kernels, 1)]).launch_share, 0.25)


def test_an_empty_step_takes_no_time():
    assert timeline([]).time_s == 0.0
    assert timeline([]).launch_share == 0.0
