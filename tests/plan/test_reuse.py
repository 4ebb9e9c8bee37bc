"""What plans keep between them changes none of them."""

from __future__ import annotations

import pytest

from planner.fusion import explore
from planner.plan import memo
from planner.plan.assemble import assemble
from planner.plan.engines import engine_of
from planner.plan.load import decode
from planner.plan.prepare import prepare
from planner.plan.solve import solve_step
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
DEPLOYMENTS = (
    "model: qwen2.5-7b-instruct\ngpu: rtx-4090\n",
    "model: qwen2.5-7b-instruct\ngpu: h100-sxm\n",
    "model: qwen2.5-0.5b-instruct\ngpu: h100-sxm\n",
    "model: qwen2.5-7b-instruct\ngpu: h100-sxm\nbackend: {name: sglang}\n",
    "model: qwen2.5-7b-instruct\ngpu: h100-sxm\nprecision: {weights: fp8}\n",
    "model: qwen2.5-7b-instruct\ngpu: h100-sxm\nbackend: {name: vllm, flags: {enforce_eager: true}}\n",
)


def question(text: str, step: str = "decode: {batch: 8, context: 1024}"):
    return ask(load_text(f"{text}step: {{{step}}}\n", "deploy.yaml"), CATALOG)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has planned nothing yet."""
    monkeypatch.setattr(memo, "_kept", {})
    monkeypatch.setattr(explore, "_found", {})


def test_a_plan_is_the_same_whatever_was_planned_before(monkeypatch):
    """Each deployment planned after all others, and again by a program that knows none of them."""
    asked = [question(text) for text in DEPLOYMENTS]
    for each in asked:
        assemble(each)
    after_others = [assemble(each) for each in asked]
    for each, plan in zip(asked, after_others, strict=True):
        forget(monkeypatch)
        assert assemble(each) == plan


def test_one_engine_serves_all_steps_of_a_kind():
    """Neither batch nor context is a fact; the kind of step, a flag and the GPU are."""
    text = DEPLOYMENTS[1]
    first, longer = (question(text, f"decode: {{batch: {n}, context: 64}}") for n in (1, 64))
    formats = prepare(first).formats
    found = engine_of(first, formats, "decode")
    assert engine_of(longer, formats, "decode") is found
    assert engine_of(first, formats, "prefill").facts["step"] == "prefill"
    eager = engine_of(question(DEPLOYMENTS[5]), formats, "decode")
    assert (found.flag("enforce_eager"), eager.flag("enforce_eager")) == (False, True)
    other = engine_of(question(DEPLOYMENTS[0]), formats, "decode")
    assert (found.facts["gpu"], other.facts["gpu"]) == ("h100-sxm", "rtx-4090")


def test_gpus_of_like_rules_share_a_layout():
    """H100 and H200 run the same kernels, so the groups of a model are found once."""
    layouts = []
    for gpu in ("h100-sxm", "h200-sxm"):
        solved = solve_step(
            prepare(question(f"model: qwen2.5-7b-instruct\ngpu: {gpu}\n")), decode(8, 64)
        )
        layouts.append([solved.solver.structure(rules) for rules in ("engine", "flags", "ideal")])
    assert all(one is other for one, other in zip(*layouts, strict=True))
