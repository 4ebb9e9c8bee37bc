"""Advice on how many sequences run at once."""

import pytest

from planner.plan.advice import advise
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()


def changes(limit: int, batch: int) -> dict[str, float]:
    """What is advised to vLLM 0.19 with a limit of sequences, and what each buys."""
    backend = f'{{name: vllm, version: "0.19", flags: {{max_num_seqs: {limit}}}}}'
    step = f"{{decode: {{batch: {batch}, context: 1024}}}}"
    text = f"model: llama-3.1-8b-instruct\ngpu: b200-sxm\nbackend: {backend}\nstep: {step}\n"
    found = advise(ask(load_text(text, "deploy.yaml"), CATALOG))
    return {each.change: each.gain for each in found}


def test_a_limit_between_two_captured_sizes_goes_up_to_the_larger():
    """Sizes are multiples of 8: with 100 whole graphs end at 96, and with 104 they hold 100."""
    found = changes(100, 100)
    assert found["backend.flags.max_num_seqs=104"] > 0.01


@pytest.mark.parametrize(("limit", "batch"), [(104, 100), (100, 96)])
def test_a_limit_that_costs_nothing_stays(limit, batch):
    """104 is captured; 96 runs in a graph of 96."""
    assert not [name for name in changes(limit, batch) if name.startswith("backend.flags.max_num")]


def test_more_sequences_than_may_run_raise_the_limit_too():
    """Else the engine would queue them. 303 is where the widest GEMM, k_proj aside, turns."""
    assert "step.decode.batch=303 backend.flags.max_num_seqs=303" in changes(100, 96)
    assert "step.decode.batch=303" in changes(512, 96)
