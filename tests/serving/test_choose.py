"""The search of hardware: against every deployment planned by itself, and what must always hold."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
from choice_samples import CATALOG, question
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import PlannerError
from planner.importers.engine import sayable
from planner.plan.memory import changed
from planner.serving.bench import Bench, placed
from planner.serving.candidates import Candidate, candidates, started, variants
from planner.serving.capacity import most_users
from planner.serving.choose import choose
from planner.serving.choose_types import Wish
from planner.serving.closed import serve
from planner.serving.offers import Offer
from planner.serving.placements import INFINIBAND, Placement, across, between, inside
from planner.serving.targets import Targets, margins
from planner.spec.question import ask
from planner.spec.types import NetworkSpec

USERS = 256
ASKED = question("l4", USERS)
ELSEWHERE = {"l4": ASKED, "h100-sxm": question("h100-sxm", USERS)}
OFFERS = (Offer("l4", "l4", 1, 0.8), Offer("h100-sxm", "h100-sxm", 1, 3.0))
FORMATS = (
    {},
    {"weights": "fp8", "activations": "fp8"},
    {"weights": "fp8", "activations": "fp8", "kv_cache": "fp8"},
)


def chosen(targets: Targets, **wish):
    """What the search finds among the two GPUs, up to four of them."""
    return choose(
        ASKED, ELSEWHERE, OFFERS, Wish(targets, USERS, **{"most_gpus": 4, **wish}), lambda _: None
    )


def brute_force(targets: Targets) -> float:
    """The least cost of any split, format and number of replicas, each planned by itself."""
    best = math.inf
    sizes = (1, 2, 4)
    for offer, tensor, pipeline, data, formats in product(
        OFFERS, sizes, sizes, (1, 2, 3, 4), FORMATS
    ):
        gpus = tensor * pipeline * data
        cost = offer.price_per_hour * gpus
        if gpus > 4 or cost >= best:
            continue
        ranks = {"tensor": tensor, "pipeline": pipeline, "data": data}
        asked = changed(ELSEWHERE[offer.gpu], parallel=ranks, precision=formats)
        try:
            served = serve(asked)
        except PlannerError:  # 14 heads do not divide over 4 ranks
            continue
        if all(each.inside for each in margins(targets, served)):
            best = cost
    return best


@pytest.mark.parametrize(
    "targets",
    [
        Targets(tpot_s=0.020),
        Targets(tpot_s=0.012, ttft_s=0.2),
        Targets(output_tokens_per_s=20_000.0),
        Targets(latency_s=0.6),
    ],
)
def test_the_cheapest_is_that_of_all_deployments_planned_one_by_one(targets):
    found = chosen(targets)
    assert (found.choices[0].cost if found.choices else math.inf) == brute_force(targets)


def test_what_is_listed_meets_its_limits_when_it_is_planned_by_itself():
    targets = Targets(tpot_s=0.020, ttft_s=0.3)
    found = chosen(targets, flags=sayable(ASKED.backend))
    assert found.choices
    for choice in (*found.choices, *found.front):
        alone = serve(choice.question)
        assert alone == choice.serving
        assert all(each.inside for each in margins(targets, alone))
        parallel = choice.question.deployment.parallel
        assert parallel.gpus == choice.gpus <= 4
        assert choice.cost == pytest.approx(choice.offer.price_per_hour * choice.gpus)
    costs = [choice.cost for choice in found.choices]
    assert costs == sorted(costs)


def test_nothing_on_the_front_is_dominated():
    found = chosen(Targets(tpot_s=0.050))
    points = [(choice.cost, choice.serving.tpot_s.value) for choice in found.front]
    assert len(points) > 1
    for one, other in product(points, points):
        assert one == other or not (one[0] <= other[0] and one[1] <= other[1])


@settings(max_examples=5, deadline=None)
@given(st.floats(0.004, 0.040), st.floats(1.0, 3.0))
def test_a_looser_limit_never_makes_it_dearer(tight, looser):
    flags = sayable(ASKED.backend)
    found = [chosen(Targets(tpot_s=t), flags=flags, listed=1) for t in (tight, tight * looser)]
    costs = [each.choices[0].cost if each.choices else math.inf for each in found]
    assert costs[1] <= costs[0]


def test_where_nothing_meets_the_nearest_are_told():
    found = chosen(Targets(tpot_s=1e-5))
    assert not found.choices
    assert not found.front
    assert [choice.offer.name for choice in found.nearest] == ["h100-sxm", "l4"]
    assert not any(choice.meets for choice in found.nearest)


def test_lossless_keeps_the_formats():
    found = chosen(Targets(tpot_s=0.050), narrow=False)
    assert found.choices
    assert all(choice.candidate.lossless for choice in found.choices)
    for choice in found.choices:
        assert not choice.question.deployment.precision.model_dump(exclude_none=True)


def test_an_instance_is_paid_whole_and_used_whole():
    box = Offer("box", "l4", 4, 2.0, whole=True)
    wish = Wish(Targets(tpot_s=0.050), USERS, 4, narrow=False)
    found = choose(ASKED, ELSEWHERE, [box], wish, lambda _: None)
    (best,) = found.choices
    assert (best.units, best.gpus, best.cost) == (1, 4, 2.0)
    assert best.question.deployment.parallel.gpus == 4


def test_the_most_users_keep_the_limits_and_more_would_not():
    targets = Targets(tpot_s=0.012)
    bench = Bench(USERS)
    alone = Candidate(ASKED, (), lossless=True)
    users = most_users(bench, alone, 1, targets)

    def tpot(count: int) -> float:
        return serve(changed(ASKED, workload={"concurrency": count})).tpot_s.value

    assert tpot(users) <= 0.012
    # found to within a 64th
    assert tpot(users + max(1, users // 64) + 1) > 0.012


def test_nobody_waits_for_room_among_the_most_users():
    # without a limit that users feel, places are the limit
    bench = Bench(USERS)
    alone = Candidate(ASKED, (), lossless=True)
    users = most_users(bench, alone, 1, Targets(output_tokens_per_s=1.0))
    assert users == serve(ASKED).most_running


def test_the_deployment_as_it_stands_is_told_too():
    found = chosen(Targets(tpot_s=0.012))
    assert found.given
    assert found.given.serving == serve(ASKED)
    assert found.given.cost == 0.8  # the offer's price of its GPU


def test_experts_may_lie_over_replicas_of_a_mixture_alone():
    joined = ELSEWHERE["h100-sxm"]
    assert list(inside(joined, 4)) == [Placement(1), Placement(2), Placement(4)]
    deployment = joined.deployment.model_copy(update={"model": "qwen3-30b-a3b"})
    mixture = list(inside(ask(deployment, CATALOG), 4))
    assert Placement(2, expert=2) in mixture
    assert Placement(2, data=2, expert=4) in mixture
    assert Placement(1, data=4, expert=4) in mixture
    assert all(each.gpus <= 4 for each in mixture)


def test_stages_are_tried_where_gpus_have_no_fast_link():
    assert Placement(2, 2) in list(inside(ASKED, 4))  # L4: PCIe
    assert Placement(2, 2) not in list(inside(ELSEWHERE["h100-sxm"], 4))


def test_over_nodes_each_layer_stays_in_one():
    found = list(across(ELSEWHERE["h100-sxm"], 8, 40))
    # two nodes and four; five are no power of two, and 40 GPUs hold no eight
    assert found == [Placement(8, 2, nodes=2), Placement(8, 4, nodes=4)]
    deployment = ELSEWHERE["h100-sxm"].deployment.model_copy(update={"model": "deepseek-v3"})
    wide = list(across(ask(deployment, CATALOG), 8, 16))
    assert Placement(8, 2, 1, 8, 2) in wide
    assert Placement(1, 1, 16, 16, 2) in wide
    assert Placement(8, 1, 2, 16, 2) in wide
    assert all(each.gpus == 16 and each.nodes == 2 for each in wide)


def test_what_no_node_holds_is_spread_over_some():
    # 405.9 billion parameters in 16 bit are 756 GiB, a node of H100s has eight times 80 GB
    deployment = ELSEWHERE["h100-sxm"].deployment.model_copy(
        update={"model": "llama-3.1-405b-instruct"}
    )
    asked = ask(deployment, CATALOG)
    wish = Wish(Targets(tpot_s=1.0), USERS, 16, narrow=False, listed=1)
    offer = Offer("h100-sxm", "h100-sxm", 1, 3.0)
    best = choose(asked, {"h100-sxm": asked}, [offer], wish, lambda _: None).choices[0]
    found = best.question.deployment
    assert (found.parallel.tensor, found.parallel.pipeline, found.nodes) == (8, 2, 2)
    assert found.network == INFINIBAND
    assert best.gpus == 16
    changes = dict(best.changes(asked.deployment))
    assert changes["nodes"] == 2
    assert changes["network.bandwidth"] == "50 GB/s"
    assert changes["network.latency"] == "10 us"


def test_a_network_is_assumed_around_boards_alone():
    board, cards = ELSEWHERE["h100-sxm"], ASKED
    said = NetworkSpec.model_validate({"bandwidth": "3 GB/s", "latency": "20 us"})
    assert between(board, 8, None) == INFINIBAND
    assert between(board, 4, None) is None
    assert between(cards, 8, None) is None
    assert between(cards, 1, said) == said


def test_copies_of_what_takes_nodes_take_as_many_each():
    asked = ELSEWHERE["h100-sxm"]
    (two,) = candidates(asked, [Placement(8, 2, nodes=2)], narrow=False)
    found = placed(two, 3, USERS).deployment
    assert (found.nodes, found.parallel.gpus) == (6, 48)


def test_fp8_is_tried_where_the_gpu_multiplies_it():
    def formats(gpu: str) -> list[dict]:
        found = candidates(question(gpu), [Placement(1)], narrow=True)
        return [c.question.deployment.precision.model_dump(exclude_none=True) for c in found]

    assert formats("l4") == list(FORMATS)
    assert formats("a100-80gb-sxm") == [{}, {"kv_cache": "fp8"}]


def test_the_longest_sequence_is_cut_to_the_workload_where_it_does_not_start():
    small = question("l4", 4)
    model = small.model.model_copy(update={"max_context": 4_000_000})
    wide = replace(small, model=model)
    found = started(Candidate(wide, (), lossless=True))
    assert found
    # 512 + 64 tokens, in thousands of 1,024
    assert found.changes == (("backend.flags.max_model_len", 1024),)
    assert started(Candidate(small, (), lossless=True)).changes == ()


def test_only_flags_that_change_something_are_turned():
    alone = Candidate(ASKED, (), lossless=True)
    found = list(variants(alone, sayable(ASKED.backend)))
    names = {path for variant in found for path, _ in variant.changes}
    assert "backend.flags.max_num_batched_tokens" in names
    assert "backend.flags.enforce_eager" not in names  # it makes a step no faster
    assert not list(variants(alone, frozenset()))
