"""`planner plan`, `list` and `show`: answers, exit codes, the store."""

import json

import pytest

from planner.plan.types import Plan
from planner.plan.values import restore


def planned(run, *words: str) -> dict:
    """The plan that `plan --json` prints."""
    return json.loads(run("plan", *words, "--json").out)


def test_a_plan_that_fits_ends_with_0_and_says_where_it_is_kept(run, deployment, tmp_path):
    outcome = run("plan", deployment)
    assert outcome.code == 0
    assert outcome.err == ""
    plan_id = planned(run, deployment)["plan_id"]
    assert outcome.out.endswith(f"\nplan {plan_id}: saved in {tmp_path / 'plans.db'}\n")


def test_planning_twice_keeps_one_plan(run, deployment):
    run("plan", deployment)
    assert "already known in" in run("plan", deployment).out
    assert len(json.loads(run("list", "--json").out)["plans"]) == 1


def test_a_plan_that_does_not_fit_ends_with_1_and_is_kept(run, deployment):
    outcome = run("plan", deployment, "--set", "step.decode={batch: 512, context: 32768}")
    assert outcome.code == 1
    assert outcome.out.startswith("DOES NOT FIT: ")
    assert "--set parallel.tensor=2" in outcome.out or "--set step.decode.batch=" in outcome.out
    (kept,) = json.loads(run("list", "--json").out)["plans"]
    assert kept["fits"] is False


def test_a_plan_is_not_kept_where_asked_not_to(run, deployment):
    assert run("plan", deployment, "--no-save").out.endswith(": not saved\n")
    assert json.loads(run("list", "--json").out)["plans"] == []


def test_json_is_one_object_that_restores_the_plan(run, deployment):
    document = planned(run, deployment)
    assert (document["format"], document["kind"]) == (1, "plan")
    plan = restore(Plan, document)
    assert plan.step.time_s == document["step"]["time_s"]
    assert plan.kernels[0].nodes == tuple(document["kernels"][0]["nodes"])


def test_set_changes_the_plan(run, deployment):
    document = planned(run, deployment, "--set", "step.decode.batch=8", "--set", "name=other")
    assert (document["step"]["tokens"], document["name"]) == (8, "other")


def test_advice_is_left_out_where_asked(run, deployment):
    assert planned(run, deployment, "--no-advice")["advice"] is None
    assert "What to change" not in run("plan", deployment, "--no-advice").out


def test_explain_prints_more(run, deployment):
    assert "Why other fused kernels do not run" in run("plan", deployment, "--explain").out


def test_a_catalogue_of_ones_own_comes_first(run, deployment, tmp_path):
    mine = tmp_path / "mine"
    (mine / "gpus").mkdir(parents=True)
    (mine / "gpus" / "slow.yaml").write_text(
        "{kind: gpu, name: slow, title: Slow, vendor: other, architecture: none,"
        " memory: {type: DDR, capacity: 64 GiB, bandwidth: 10 GB/s},"
        " matrix: {bf16: 1 TFLOP/s}, vector: 1 TFLOP/s}"
    )
    document = planned(run, deployment, "--set", "gpu=slow", "--catalog", str(mine))
    assert document["gpu"] == "slow"
    # 0.49 B parameters in 16 bit take a tenth of a second at 10 GB/s
    assert document["step"]["time_s"] > 2 * 494_032_768 / 10e9


def test_list_shows_both_plans_newest_first_and_filters(run, deployment):
    first = planned(run, deployment)["plan_id"]
    second = planned(run, deployment, "--set", "gpu=l40s")["plan_id"]
    document = json.loads(run("list", "--json").out)
    assert (document["format"], document["kind"]) == (1, "plans")
    assert [row["plan_id"] for row in document["plans"]] == [second, first]
    only = json.loads(run("list", "--gpu", "rtx-4090", "--json").out)["plans"]
    assert [row["plan_id"] for row in only] == [first]
    shown = run("list").out
    assert first in shown
    assert second in shown


def test_list_of_an_empty_store_is_no_error(run):
    outcome = run("list")
    assert outcome.code == 0
    assert "`planner plan FILE` makes one" in outcome.out


def test_show_prints_what_plan_printed(run, deployment):
    first = run("plan", deployment)
    plan_id = planned(run, deployment)["plan_id"]
    report, _, _ = first.out.rpartition("\nplan ")
    shown, _, answer = run("show", plan_id[:5]).out.rpartition("\nplan ")
    assert shown == report
    assert answer.startswith(f"{plan_id}: saved ")


def test_show_in_json_is_the_object_of_plan(run, deployment):
    document = planned(run, deployment)
    assert json.loads(run("show", document["plan_id"], "--json").out) == document


def test_show_of_an_unknown_id_ends_with_2(run, deployment):
    run("plan", deployment)
    outcome = run("show", "zzz")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("no stored plan begins with 'zzz'")


def test_another_store_can_be_named(run, deployment, tmp_path):
    run("plan", deployment, "--db", str(tmp_path / "other.db"))
    assert json.loads(run("list", "--json").out)["plans"] == []
    there = json.loads(run("list", "--db", str(tmp_path / "other.db"), "--json").out)
    assert len(there["plans"]) == 1


def test_a_plan_is_printed_even_where_it_cannot_be_kept(run, deployment, tmp_path):
    outcome = run("plan", deployment, "--db", str(tmp_path / "no" / "plans.db"))
    assert outcome.code == 2
    assert " a step  ·  " in outcome.out
    assert outcome.err.startswith(f"the database {tmp_path / 'no' / 'plans.db'} cannot be opened")


@pytest.mark.parametrize("command", ["list", "show abc", "diff abc abd"])
def test_a_store_that_is_no_database_ends_with_2(run, command, tmp_path):
    (tmp_path / "plans.db").write_text("this is a letter, not a database\n" * 40)
    outcome = run(*command.split())
    assert outcome.code == 2
    assert "is no SQLite database" in outcome.err


def test_parts_of_the_report_alone(run, deployment):
    shown = run("plan", deployment, "--no-save", "--only", "launch, memory").out
    assert "Launch ledger" in shown
    assert "Memory ledger" in shown
    for title in ("Kernels of one step", "Arithmetic intensity", "Fusion ledger", "What to change"):
        assert title not in shown
    plan_id = planned(run, deployment)["plan_id"]
    assert "Fusion ledger" in run("show", plan_id, "--only", "fusion").out
    assert "Launch ledger" not in run("show", plan_id, "--only", "fusion").out


def test_advice_is_kept_with_the_plan_though_another_part_is_shown(run, deployment):
    run("plan", deployment, "--only", "notes")
    (kept,) = json.loads(run("list", "--json").out)["plans"]
    assert json.loads(run("show", kept["plan_id"], "--json").out)["advice"]


def test_a_part_that_no_report_has_is_refused(run, deployment):
    outcome = run("plan", deployment, "--only", "memry")
    assert outcome.code == 2
    assert "did you mean 'memory'?" in outcome.err
