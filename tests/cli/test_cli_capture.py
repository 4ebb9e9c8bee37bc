"""``planner capture``."""

import json


def test_the_flag_to_paste_and_every_list(run, deployment):
    found = run("capture", deployment, "--batches", "1:10,3:40,17:20")
    assert found.code == 0
    assert '\nTo paste\n--compilation-config \'{"cudagraph_capture_sizes": [' in found.out
    assert "\nbest 1" in found.out
    assert ", chosen" in found.out


def test_json_holds_the_lists(run, deployment):
    found = json.loads(run("capture", deployment, "--batches", "1:1,8:1", "--json").out)
    assert found["kind"] == "capture"
    assert found["chosen"]["sizes"] == [1, 8]
    assert found["default"]["step_s"] >= found["exact_s"]


def test_batches_of_a_run(run, deployment):
    """Four users: no step holds more than four sequences."""
    users = "workload={concurrency: 4, requests: 40, input: 64, output: 16}"
    found = run("capture", deployment, "--set", "step=null", "--set", users, "--simulate", "--json")
    assert json.loads(found.out)["largest"] <= 4


def test_batches_of_a_trace(run, deployment, tmp_path):
    """Two requests at once, then nothing: steps of one and of two sequences at most."""
    rows = "arrival_s,input,output\n0,64,8\n0,64,16\n"
    (tmp_path / "trace.csv").write_text(rows, encoding="utf-8")
    found = json.loads(run("capture", deployment, "--trace", "trace.csv", "--json").out)
    assert (found["smallest"], found["largest"]) == (1, 2)


def test_where_batches_come_from_must_be_said(run, deployment):
    for words in ((), ("--batches", "1", "--simulate")):
        found = run("capture", deployment, *words)
        assert found.code == 2
        assert "one of --batches, --trace and --simulate" in found.err
    assert run("capture", deployment, "--batches", "nothing").code == 2
