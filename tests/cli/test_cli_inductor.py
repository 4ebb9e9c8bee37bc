"""`planner validate --source inductor` where it cannot run; that it runs is tests/lab's."""

import importlib.util

import pytest

SOURCE = ("validate", "--source", "inductor")


def test_without_torch_it_says_what_to_install(run, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else find(name)
    )
    result = run(*SOURCE)
    assert result.code == 2
    assert "needs torch" in result.err
    assert "make inductor" in result.err


@pytest.mark.parametrize("option", [("--by", "model"), ("--rows", "odd"), ("--transfer",)])
def test_options_of_other_sources_are_refused(run, option):
    result = run(*SOURCE, *option)
    assert result.code == 2
    assert option[0] in result.err
