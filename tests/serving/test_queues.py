"""Event runs of servers that queueing theory knows."""

import pytest
from serving_samples import Steps, served, server

from planner.serving.percentiles import spread
from planner.serving.tally import pool_state, tokens_per_s
from planner.serving.types import Demand, Lengths

SERVICE_S = 0.5


def single():
    """One request at a time, each a prompt that takes half a second and gives one token."""
    return server(Steps(lambda decoding, prompts: SERVICE_S), sequences=1)


@pytest.mark.parametrize(("load", "near"), [(0.3, 0.04), (0.5, 0.04), (0.8, 0.08)])
def test_a_server_of_one_sequence_is_the_queue_m_d_1(load, near):
    # Pollaczek-Khinchine with constant service s: the mean wait is ρ / (2 (1 - ρ)) · s
    demand = Demand(Lengths(100, 1), per_s=load / SERVICE_S, requests=40_000)
    found = served(demand, single(), seed=3)
    wait_s = spread([each.ttft_s - SERVICE_S for each in found.counted]).mean_s
    assert wait_s == pytest.approx(load / (2 * (1 - load)) * SERVICE_S, rel=near)


def test_the_server_is_busy_for_as_much_of_the_time_as_is_asked_of_it():
    # utilisation ρ = rate · s, whatever the queue
    demand = Demand(Lengths(100, 1), per_s=0.6 / SERVICE_S, requests=20_000)
    found = served(demand, single(), seed=5)
    assert pool_state(found, range(1), "all", 1).device_share == pytest.approx(0.6, rel=0.02)
    assert tokens_per_s(found) == pytest.approx(0.6 / SERVICE_S, rel=0.02)


def test_requests_that_come_evenly_and_fit_never_wait():
    # burstiness 1000: gaps of 1 / 0.5 s with a deviation of 1/√1000, and services of 0.5 s
    demand = Demand(Lengths(100, 1), per_s=0.5, burstiness=1000.0, requests=2_000)
    found = served(demand, single())
    assert {round(each.ttft_s, 9) for each in found.counted} == {SERVICE_S}


def test_bursts_wait_longer_than_a_poisson_process_does():
    waits = []
    for burstiness in (1.0, 0.25):
        demand = Demand(Lengths(100, 1), per_s=1.0, burstiness=burstiness, requests=10_000)
        waits.append(spread([each.ttft_s for each in served(demand, single()).counted]).mean_s)
    assert waits[1] > 1.5 * waits[0]


@pytest.mark.parametrize("users", [1, 2, 7])
def test_users_in_a_closed_loop_take_turns(users):
    # each waits for the services of all others, then for its own
    demand = Demand(Lengths(100, 1), users=users, requests=200)
    found = served(demand, single())
    assert {round(each.ttft_s, 9) for each in found.counted} == {users * SERVICE_S}
    assert tokens_per_s(found) == pytest.approx(1 / SERVICE_S, rel=0.02)


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    demand = Demand(Lengths(100, 1, spread=0.5), per_s=1.0, requests=200)
    first, again, other = (
        [each.done_s for each in served(demand, single(), seed).counted] for seed in (1, 1, 2)
    )
    assert first == again != other
