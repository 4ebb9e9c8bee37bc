"""`planner choose`: what to rent, and the command that runs it."""

import json
from pathlib import Path

import pytest

from planner.plan.values import plain
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.load import load_deployment, load_file
from planner.spec.question import ask

PRICES = """\
kind: prices
name: two
title: Two GPUs
date: "2026-11-30"
gpus: {rtx-4090: 0.40 USD/h, h100-sxm: {value: 3 USD/h}}
instances: {box: {gpu: h100-sxm, count: 2, price: 5 USD/h}}
"""
USERS = ("--concurrency", "64", "--input", "512", "--output", "64")
LIMITS = ("--slo", "tpot=20ms,ttft=1s")


@pytest.fixture
def choose(run, deployment, tmp_path):
    """Chooses for the small deployment among two GPUs."""
    (tmp_path / "two.yaml").write_text(PRICES, encoding="utf-8")

    def _choose(*words: str, users=USERS, limits=LIMITS, price=("--price", "two.yaml")):
        return run("choose", deployment, *users, *limits, *price, "--max-gpus", "2", *words)

    return _choose


def test_the_cheapest_comes_first_with_its_command(choose):
    done = choose()
    assert done.code == 0
    assert "64, 512 tokens in, 64 out" in done.out
    assert "1 × rtx-4090" in done.out
    assert "vllm serve Qwen/Qwen2.5-0.5B-Instruct" in done.out
    assert "Pareto front" in done.out
    assert "planner plan chat.yaml" in done.out


def test_json_has_what_is_shown_and_its_sets_plan_the_same(choose, deployment):
    found = json.loads(choose("--json").out)
    assert (found["format"], found["kind"]) == (1, "choose")
    assert found["targets"] == {
        "tpot_s": 0.020, "ttft_s": 1.0, "latency_s": None, "output_tokens_per_s": None
    }  # fmt: skip
    assert found["choices"]
    for choice in found["choices"][:2]:
        asked = load_deployment(Path(deployment), choice["sets"])
        alone = plan_question(ask(asked, Catalog.standard()))
        assert plain(alone.serving) == choice["serving"]
        assert choice["serving"]["tpot_s"]["value"] <= 0.020
        assert choice["command"]["line"].startswith("vllm serve ")
        assert {margin["name"] for margin in choice["margins"]} == {"tpot", "ttft"}
    costs = [choice["spending"]["price_per_hour"] for choice in found["choices"]]
    assert costs == sorted(costs)
    assert {"rtx-4090", "h100-sxm", "box"} == {choice["offer"] for choice in found["choices"]}


def test_what_nothing_keeps_exits_with_one_and_names_the_nearest(choose):
    done = choose(limits=("--slo", "tpot=1us"))
    assert done.code == 1
    assert "nothing that was planned keeps them" in done.out
    assert "What misses them by least" in done.out


def test_an_interval_that_crosses_a_limit_is_told(choose):
    found = json.loads(choose("--json", "--gpus", "rtx-4090", "--lossless").out)
    given = found["given"]["serving"]["tpot_s"]
    told = 0
    for share in (0.8, 0.9, 1.0, 1.1):
        limit = share * given["value"]
        words = ("--gpus", "rtx-4090", "--lossless", "--top", "1")
        limits = ("--slo", f"tpot={limit * 1e3}ms")
        choices = json.loads(choose("--json", *words, limits=limits).out)["choices"]
        for choice in choices[:1]:
            tpot = choice["serving"]["tpot_s"]
            assert choice["unsure"] == (["tpot"] if tpot["high"] > limit else [])
            text = choose(*words, limits=limits).out.replace("\n  ", " ")
            said = "is kept, but the interval crosses it" in text
            assert said == bool(choice["unsure"])
            told += said
    assert told


def test_without_prices_the_deployments_own_gpu_is_searched(choose):
    found = json.loads(choose("--json", price=()).out)
    assert {choice["gpu"] for choice in found["choices"]} == {"rtx-4090"}
    assert found["choices"][0]["spending"]["price_per_hour"] is None
    assert "1 × rtx-4090" in choose(price=()).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--slo", "tpot=1ms,tpot=2ms"), "--slo names tpot twice"),
        (("--slo", "tpt=1ms"), "did you mean 'tpot'?"),
        (("--slo", "tpot"), "--slo tpot has no time"),
        (("--slo", "tpot=30"), "--slo tpot: a time needs its unit"),
        (("--slo", "tpot=0s"), "--slo tpot: must be greater than 0"),
        ((), "there is nothing to keep"),
        (("--min-throughput", "-1"), "--min-throughput"),
        ((*LIMITS, "--network", "50 GB/s"), "--network takes bandwidth and latency"),
        ((*LIMITS, "--network", "bandwidth=50,latency=1us"), "a bandwidth needs its unit"),
        ((*LIMITS, "--network", "bandwidth=0 GB/s,latency=1us"), "must be greater than 0"),
        ((*LIMITS, "--gpus", "h100"), "two has no price of 'h100' (did you mean 'h100-sxm'?)"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(choose, words, message):
    done = choose(*words, limits=())
    assert done.code == 2
    assert message in done.err


def test_it_asks_for_users(choose):
    done = choose(users=())
    assert done.code == 2
    assert "--concurrency 32 --input 1024 --output 256" in done.err


def test_pools_are_not_left_out_in_silence(choose, deployment):
    text = Path(deployment).read_text("utf-8")
    pools = "pools: {decode: {parallel: {tensor: 2}}, link: {bandwidth: 50 GB/s, latency: 10 us}}"
    Path(deployment).write_text(f"{text}{pools}\n", encoding="utf-8")
    done = choose()
    assert done.code == 2
    assert "chat.yaml:5:1: pools are not chosen for" in done.err


def test_a_deployment_on_several_nodes_is_chosen_for_too(choose):
    network = "network={bandwidth: 50 GB/s, latency: 10 us}"
    sets = ("--set", "nodes=2", "--set", network, "--set", "parallel.tensor=2")
    done = choose("--json", "--lossless", "--top", "1", *sets)
    best = json.loads(done.out)["choices"][0]
    # half a billion parameters need no second node
    assert {"nodes=null", "network=null"} <= set(best["sets"])


def test_a_gpu_that_no_catalogue_has_is_refused_in_the_file_of_prices(choose, tmp_path):
    text = PRICES.replace("rtx-4090", "rtx-4091").replace("gpu: h100-sxm", "gpu: h1oo-sxm")
    (tmp_path / "two.yaml").write_text(text, encoding="utf-8")
    done = choose()
    assert done.code == 2
    assert "two.yaml:5:8: unknown gpu 'rtx-4091' (did you mean 'rtx-4090'?)" in done.err
    assert "two.yaml:6:24: unknown gpu 'h1oo-sxm' (did you mean 'h100-sxm'?)" in done.err
    (tmp_path / "two.yaml").write_text(PRICES.replace("0.40 USD/h", "0.40"), encoding="utf-8")
    assert "two.yaml:5:18: gpus.rtx-4090" in choose().err


def test_the_shipped_prices_name_gpus_of_the_catalogue():
    file = Path(__file__).parents[2] / "specs/prices-example.yaml"
    found = load_file(file, "prices")
    known = set(Catalog.standard().names("gpu"))
    assert found.gpus.keys() | {each.gpu for each in found.instances.values()} <= known
    figures = [*found.gpus.values(), *(each.price for each in found.instances.values())]
    assert {figure.source for figure in figures} == found.sources.keys()
