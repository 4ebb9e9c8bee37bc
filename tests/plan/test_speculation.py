"""Speculative decoding: what a step verifies and yields, and what drafting takes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.plan.expected import expected
from planner.plan.speculation import yielded
from planner.plan.types import Plan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask
from planner.spec.types import Speculation

CATALOG = Catalog.standard()
STEP = "step: {decode: {batch: 8, context: 1000}}"


def planned(*lines: str, model: str = "llama-3.1-8b-instruct") -> Plan:
    """The plan of a model on an H100 with further lines."""
    text = "\n".join((f"model: {model}", "gpu: h100-sxm", *lines, ""))
    return assemble(ask(load_text(text, "deploy.yaml"), CATALOG))


def row(plan: Plan, name: str):
    """The first node of a name."""
    return next(row for row in plan.nodes if row.id == name)


@given(st.integers(1, 12), st.floats(0.01, 0.999))
def test_a_step_yields_the_run_of_accepted_drafts_and_one_more(tokens, chance):
    """The mean of a run that ends at the first refusal: Σ P(at least n accepted)."""
    ends = [(n + 1) * chance**n * (1 - chance) for n in range(tokens)]
    brute = sum(ends) + (tokens + 1) * chance**tokens
    assert yielded(Speculation(tokens=tokens, acceptance=chance)) == pytest.approx(brute)


def test_a_measured_length_is_taken_as_it_is():
    """Engines print it: tokens a step."""
    assert yielded(Speculation(tokens=3, length=2.4)) == 2.4


def test_a_step_verifies_all_drafts_and_the_token_before_them():
    """8 sequences of 3 drafts: 32 rows in every GEMM, the LM head included."""
    plan = planned(STEP, "speculation: {tokens: 3, length: 2}")
    assert (plan.step.tokens, plan.step.sequences, plan.step.kind) == (32, 8, "decode")
    assert row(plan, "up_proj").matmul_flops == 2 * 32 * 4096 * 14_336
    assert row(plan, "lm_head").matmul_flops == 2 * 32 * 4096 * 128_256
    # the queries see 1000, 1001, 1002 and 1003 keys; 32 heads of 128
    pairs = 8 * (1000 + 1001 + 1002 + 1003)
    assert row(plan, "attention.scores").matmul_flops == 2 * 32 * 128 * pairs
    # K and V of each sequence are read once, whatever is verified: 1003 × 8 heads × 128 × 2 B
    alone = planned("step: {decode: {batch: 8, context: 1003}}")
    more = row(plan, "attention").hbm_bytes - row(alone, "attention").hbm_bytes
    assert more == 8 * 3 * 2 * 4096 * 2  # Q and the output of three more tokens


def test_n_grams_draft_for_nothing():
    """Without a draft model a step is its verification."""
    found = planned(STEP, "speculation: {tokens: 3, length: 2}").speculation
    assert found is not None
    assert (found.draft, found.draft_s, found.yielded) == (None, 0.0, 2.0)
    assert found.tpot_s == found.verify_s / 2
    assert found.output_tokens_per_s == 8 / found.tpot_s


def test_a_draft_model_runs_a_step_for_each_of_its_tokens():
    """Three decode steps of the draft at the same batch, and its memory beside the model's."""
    plan = planned(STEP, "speculation: {draft: llama-3.2-1b-instruct, tokens: 3, acceptance: 0.5}")
    # vLLM captures drafting models in pieces
    pieces = "backend: {name: vllm, flags: {cudagraph_mode: PIECEWISE}}"
    step = "step: {decode: {batch: 8, context: 1001}}"
    draft = planned(pieces, step, model="llama-3.2-1b-instruct")
    found, alone = plan.speculation, planned(STEP)
    assert found is not None
    assert found.draft_s == pytest.approx(3 * draft.step.time_s)
    assert found.yielded == 1 + 0.5 + 0.25 + 0.125
    assert found.tpot_s == pytest.approx((plan.step.time_s + found.draft_s) / 1.875)
    assert plan.memory.weights_bytes == alone.memory.weights_bytes + draft.memory.weights_bytes
    each = (alone.memory.kv_bytes_per_token, draft.memory.kv_bytes_per_token)
    assert plan.memory.kv_bytes_per_token == sum(each)


def test_a_workload_takes_as_many_fewer_steps_as_each_yields_more():
    """TPOT is the step, and the 0.16 ms that vLLM's scheduling leaves open, over its 2 tokens."""
    plan = planned(
        "workload: {batch: 8, input: 1000, output: 2}", "speculation: {tokens: 3, length: 2}"
    )
    step = planned(
        "step: {decode: {batch: 8, context: 1001}}", "speculation: {tokens: 3, length: 2}"
    )
    assert plan.workload is not None
    assert step.speculation is not None
    assert plan.workload.tpot_s == pytest.approx(step.speculation.tpot_s + 0.16e-3 / 2)


def test_speculation_is_part_of_a_plans_identity():
    """Another number of drafts, or another draft model, is another question."""
    ids = {
        planned(STEP, *lines).plan_id
        for lines in (
            (),
            ("speculation: {tokens: 3, length: 2}",),
            ("speculation: {tokens: 2, length: 2}",),
            ("speculation: {draft: llama-3.2-1b-instruct, tokens: 3, length: 2}",),
        )
    }
    assert len(ids) == 4


def test_an_unknown_draft_is_a_fault_at_its_place():
    """As any other name."""
    with pytest.raises(SpecError, match=r"deploy.yaml:4:\d+"):
        planned(STEP, "speculation: {draft: lama, tokens: 3, length: 2}")


def test_the_bound_of_a_token_is_that_of_a_step_of_accepted_drafts():
    """No run gives more than every draft and one more, so nothing faster is called impossible."""
    plan = planned(STEP, "speculation: {tokens: 3, length: 2}")
    found = {each.metric: each for each in expected(plan)}
    assert found["step"].bare == plan.totals.roofline_s
    assert found["tpot"].bare == pytest.approx(plan.totals.roofline_s / 4)
    assert found["tpot"].value == pytest.approx(plan.step.time_s / 2)


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ("vllm", "its draft models implement no SupportsPP"),
        ("sglang", "not compatible with speculative decoding"),
        ("tensorrt-llm", "not supported by the executor loop of pipelines"),
        ("pytorch-compiled", "drafts in a pipeline are not described"),
    ],
)
def test_drafts_in_a_pipeline_are_refused_with_the_engines_reason(engine, reason):
    """No described version drafts there; the fault stands at `speculation`."""
    lines = (STEP, "parallel: {pipeline: 2}", "speculation: {tokens: 3, length: 2}")
    with pytest.raises(SpecError, match=reason) as caught:
        planned(*lines, f"backend: {{name: {engine}}}")
    assert str(caught.value.faults[0]).startswith("deploy.yaml:5:1: ")
