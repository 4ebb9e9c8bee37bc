"""Helix: TensorRT-LLM's ranks that share contexts compute all their heads' queries, and decode."""

import pytest

import planner
from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.plan.types import NodeRow, Plan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text

CATALOG = Catalog.standard()
STEP = "step: {decode: {batch: 16, context: 65536}}"


def planned(
    context: int, tensor: int = 8, step: str = STEP, model: str = "deepseek-v2-lite"
) -> Plan:
    """DeepSeek-V2-Lite, 16 heads, on B200s."""
    text = f"""\
model: {model}
gpu: b200-sxm
parallel: {{tensor: {tensor}, context: {context}}}
backend: {{name: tensorrt-llm}}
{step}
"""
    return assemble(planner.ask(load_text(text.encode(), "d.yaml", "deployment"), CATALOG))


def row(plan: Plan, name: str) -> NodeRow:
    """The first node of a name."""
    return next(each for each in plan.nodes if each.id == name)


@pytest.mark.parametrize(("tensor", "context"), [(8, 2), (8, 4), (8, 8), (4, 4)])
def test_a_rank_computes_the_queries_of_its_group_and_the_outputs_of_its_own(tensor, context):
    """16 rows, hidden 2048, 16 heads of 128 + 64, latents of 512 and rotated keys of 64."""
    plan, own = planned(context, tensor), 16 // tensor
    group = own * context
    assert row(plan, "q_proj").matmul_flops == 2 * 16 * 2048 * group * 192
    assert row(plan, "q_absorb").matmul_flops == 2 * 16 * group * 128 * 512
    assert row(plan, "v_absorb").matmul_flops == 2 * 16 * own * 512 * 128
    assert row(plan, "o_proj").matmul_flops == 2 * 16 * own * 128 * 2048
    scores = row(plan, "decode_attention.past.scores")
    assert scores.matmul_flops == 2 * 16 * group * 576 * 65_536 / context


def test_outputs_and_their_sums_are_exchanged_once():
    """Four ranks, 8 heads of the group: latents of 512 in 16 bit and two numbers in FP32 a head."""
    plan = planned(4)
    message = 16 * 8 * (512 * 2 + 2 * 4)
    assert row(plan, "decode_attention.exchange").link_bytes == 3 / 4 * message
    assert not any("queries" in each.id for each in plan.nodes)


def test_each_rank_keeps_a_part_of_every_context():
    """27 layers · 576 · 2 B, over four."""
    memory = planned(4).memory
    assert memory.kv_bytes == 16 * 65_536 * 27 * 576 * 2 / 4


def test_sharing_takes_less_where_contexts_are_long_and_more_where_they_are_short():
    """Queries of more heads and an exchange, against a quarter of the keys."""
    long, short = (
        [
            planned(r, step=f"step: {{decode: {{batch: 16, context: {n}}}}}").step.time_s
            for r in (1, 4)
        ]
        for n in (262_144, 256)
    )
    assert long[1] < long[0]
    assert short[1] > short[0]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("step: {prefill: {tokens: 512}}", "needs step = decode, have prefill"),
        ("workload: {batch: 4, input: 512, output: 9}", "these ranks decode alone"),
        (f"{STEP}\nspeculation: {{tokens: 2, length: 2}}", "needs speculates = false"),
    ],
)
def test_prompts_and_drafts_are_refused(step, said):
    with pytest.raises(SpecError, match=said):
        planned(4, step=step)


def test_grouped_attention_waits_for_a_version_that_is_described():
    with pytest.raises(SpecError, match="no described version of TensorRT-LLM can spread"):
        planned(2, tensor=8, model="qwen3-235b-a22b")
