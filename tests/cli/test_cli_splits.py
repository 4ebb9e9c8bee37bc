"""`planner plan --tp`."""

import json


def test_tp_auto_plans_the_best_split_and_lists_the_others(run, deployment):
    done = run("plan", deployment, "--tp", "auto", "--json", "--no-save")
    assert done.code == 0
    plan = json.loads(done.out)
    first = plan["splits"][0]
    assert plan["deployment"]["parallel"]["tensor"] == first["tensor"]
    assert plan["step"]["time_s"] == first["step_s"]
    shown = run("plan", deployment, "--tp", "auto", "--no-save", "--no-advice").out
    assert "Splits that were planned" in shown


def test_tp_takes_a_number_and_refuses_the_rest(run, deployment):
    done = run("plan", deployment, "--tp", "2", "--json", "--no-save")
    assert json.loads(done.out)["deployment"]["parallel"]["tensor"] == 2
    wrong = run("plan", deployment, "--tp", "many")
    assert wrong.code == 2
    assert "number or auto" in wrong.err
    assert run("plan", deployment, "--tp", "0").code == 2


def test_nothing_that_fits_is_said(run, deployment):
    done = run("plan", deployment, "--tp", "auto", "--set", "step.decode.batch=1000000")
    assert done.code == 2
    assert "no split over up to 8 GPUs fits" in done.err
