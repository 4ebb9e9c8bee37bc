"""``planner attention``."""

import json


def test_the_ledger_and_where_gpus_end(run):
    found = run("attention", "qwen2.5-0.5b-instruct", "--gpu", "h100-sxm", "--tokens", "128")
    assert found.code == 0
    assert "14 query and 2 key-value heads of 64" in found.out
    assert "\nNVIDIA H100 SXM5 80GB " in found.out


def test_json_and_an_unknown_gpu(run):
    found = json.loads(run("attention", "qwen2.5-0.5b-instruct", "--json").out)
    assert (found["kind"], found["gpus"], len(found["rows"])) == ("attention", [], 9)
    assert run("attention", "qwen2.5-0.5b-instruct", "--gpu", "h1000").code == 2
