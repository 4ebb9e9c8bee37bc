"""`planner diff`: stored plans, files, GPUs."""

import json

import pytest


@pytest.fixture
def two(run, deployment):
    """Ids of two stored plans."""
    documents = [
        json.loads(run("plan", deployment, "--json", *words).out)
        for words in ((), ("--set", "step.decode.batch=8"))
    ]
    return [document["plan_id"] for document in documents]


def test_stored_plans_are_named_by_the_beginning_of_their_ids(run, two):
    outcome = run("diff", two[0][:6], two[1][:6], "--json")
    document = json.loads(outcome.out)
    assert outcome.code == 0
    assert (document["kind"], document["a"], document["b"]) == ("diff", *two)
    assert [part["part"] for part in document["parts"]] == ["workload"]


def test_a_file_is_planned_and_held_against_a_stored_plan(run, two, deployment):
    shown = run("diff", two[1], deployment).out
    assert "decode, batch 8, context 1,024" in shown
    assert "decode, batch 4, context 1,024" in shown


def test_settings_change_the_files_that_are_planned(run, two, deployment):
    document = json.loads(
        run("diff", two[0], deployment, "--set", "step.decode.batch=8", "--json").out
    )
    assert document["b"] == two[1]


def test_a_diff_keeps_no_plan(run, deployment):
    run("diff", deployment, deployment)
    assert json.loads(run("list", "--json").out)["plans"] == []


def test_one_deployment_on_several_gpus(run, deployment):
    document = json.loads(run("diff", deployment, "--gpu", "rtx-4090, h100-sxm", "--json").out)
    assert [column["gpu"] for column in document["gpus"]] == ["rtx-4090", "h100-sxm"]
    first, second = (column["plan"]["step"]["time_s"] for column in document["gpus"])
    assert document["gpus"][1]["speed_up"] == pytest.approx(first / second)


def test_a_price_counts_for_the_files_own_gpu_alone(run, deployment):
    words = ("diff", deployment, "--gpu", "rtx-4090,h100-sxm", "--set", "price=0.69 USD/h")
    document = json.loads(run(*words, "--json").out)
    prices = [column["plan"]["cost"]["price_per_hour"] for column in document["gpus"]]
    assert prices == [0.69, None]


def test_an_unknown_gpu_ends_with_2(run, deployment):
    outcome = run("diff", deployment, "--gpu", "rtx-4090,h100")
    assert outcome.code == 2
    assert outcome.err.startswith("unknown gpu 'h100'")


@pytest.mark.parametrize("words", [(), ("chat.yaml", "--gpu", "l40s")])
def test_two_plans_or_gpus_but_not_both_nor_neither(run, deployment, words):
    outcome = run("diff", deployment, *words)
    assert outcome.code == 2
    assert outcome.err.startswith("diff takes two plans, or one deployment with --gpu")


def test_a_diff_says_how_much_each_holds(run, deployment):
    """Two replicas hold twice the tokens and the sequences of one."""
    one = json.loads(run("plan", deployment, "--json").out)["memory"]
    two = json.loads(run("plan", deployment, "--json", "--set", "parallel.data=2").out)
    first = json.loads(run("list", "--json").out)["plans"][-1]["plan_id"]
    document = json.loads(run("diff", first, two["plan_id"], "--json").out)
    assert document["kv_tokens"] == [one["kv_tokens"], 2 * two["memory"]["kv_tokens"]]
    assert document["sequences"][1] == 2 * two["memory"]["max_batch"]
    assert "room for KV, tokens" in run("diff", first, two["plan_id"]).out


def test_markdown_is_of_two_plans(run, deployment, two):
    shown = run("diff", two[0], two[1], "--markdown")
    assert shown.code == 0
    assert shown.out.startswith("**")
    for words in (("--gpu", "l40s"), (two[1], "--json")):
        outcome = run("diff", deployment, *words, "--markdown")
        assert outcome.code == 2
        assert "--markdown is of two plans" in outcome.err
