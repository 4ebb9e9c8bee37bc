"""What a plan's text says, and that it fits a terminal."""

from dataclasses import replace

import pytest
from report_plans import CHAT, SPECS, assert_fits, lines, plan, question, text

from planner.plan.advice import Advice, advise
from planner.plan.assemble import assemble
from planner.plan.types import Plan
from planner.report.headline import tokens_per_s
from planner.report.kernels import kernel_table, node_table
from planner.report.ledgers import fusion_ledger, launch_ledger, memory_ledger, rule_sets
from planner.report.plan import advice_view, plan_view
from planner.units import show_bytes, show_seconds

TIGHT = (CHAT, "step.decode.batch=64")
"""64 x 4096 tokens x 56 KiB = 14 GiB of KV beside 14.2 GiB of weights on a card of 24 GiB."""


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("spec", SPECS)
def test_a_plan_fits_100_columns_and_loses_nothing_in_them(spec, explain):
    assert_fits(plan_view(plan(spec), advise(question(spec)), explain=explain))


def test_a_plan_that_does_not_fit_memory_fits_100_columns():
    assert_fits(plan_view(plan(*TIGHT), advise(question(*TIGHT)), explain=True))


def test_a_static_batch_fits_100_columns():
    sets = ("workload={batch: 17, input: 1024, output: 128}",)
    assert_fits(plan_view(plan(CHAT, *sets), (), explain=True))


def renamed(letter: str) -> Plan:
    """A plan whose every name is as long as a spec may make it."""
    before = plan()
    name = letter * 80
    return replace(
        before,
        name=letter * 200,
        model=replace(before.model, title=name),
        described=dict.fromkeys(before.described, letter * 200),
        nodes=tuple(replace(row, id=name, block=name) for row in before.nodes),
        kernels=tuple(
            replace(row, name=name, engine_name=name, block=name, nodes=(name, name))
            for row in before.kernels
        ),
    )


@pytest.mark.parametrize("letter", ["x", "宽", "["])
def test_names_of_any_length_break_instead_of_pushing_figures_out(letter):
    assert_fits(plan_view(renamed(letter), explain=True))


def test_names_are_no_markup():
    strange = replace(plan(), name="[red]hot[/red] :fire: [link=x]y[/link]")
    assert "[red]hot[/red] :fire: [link=x]y[/link]" in text(plan_view(strange))


def test_names_cannot_steer_the_terminal():
    strange = replace(plan(), name="a\x1b[2Jb\rc")
    assert "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c" in text(plan_view(strange))


def test_the_first_line_has_step_time_throughput_and_mode():
    step = plan().step
    first = lines(plan_view(plan()))[0]
    assert first.startswith(f"{show_seconds(step.time_s)} a step  ·  ")
    assert f"{16 / step.time_s:,.0f} tokens/s" in first
    assert "CUDA Graph: full (batch 16 captured as 16)" in first


def test_the_second_line_has_the_verdict_and_its_amounts():
    memory = plan().memory
    assert lines(plan_view(plan()))[1].rstrip() == (
        f"fits: {show_bytes(memory.weights_bytes)} weights + {show_bytes(memory.kv_bytes)} KV"
        f" of {show_bytes(memory.budget_bytes)} a GPU"
    )


def test_a_plan_that_does_not_fit_says_so_first_and_what_would():
    shown = lines(plan_view(plan(*TIGHT)))
    assert shown[0].startswith("DOES NOT FIT: ")
    assert show_bytes(plan(*TIGHT).memory.missing_bytes) in shown[0]
    for change in plan(*TIGHT).memory.nearest_fit:
        assert f"--set {change}" in text(plan_view(plan(*TIGHT)))


def test_throughput_counts_every_replica():
    two = plan(CHAT, "parallel.data=2")
    # 16 sequences over 2 replicas: 8 each, 16 new tokens a step
    assert tokens_per_s(two) == pytest.approx(2 * 8 / two.step.time_s)


def test_a_plan_without_residuals_calls_itself_a_lower_bound():
    bare = assemble(replace(question(CHAT), cost_model="roofline", calibrations=()))
    assert "lower bound: bare roofline + documented fixed costs" in text(plan_view(bare))


def test_a_plan_with_residuals_prints_its_interval():
    step = replace(plan().step, low_s=0.017, high_s=0.0195)
    shown = text(plan_view(replace(plan(), step=step)))
    assert "80 % interval: 17.0 ms to 19.5 ms" in shown
    assert "lower bound" not in shown


def test_a_price_becomes_cost_per_million_tokens():
    cost = replace(plan().cost, per_million_tokens=0.218)
    assert "0.69 USD/h · 0.22 USD per million tokens" in text(plan_view(replace(plan(), cost=cost)))


def test_a_deployment_without_price_says_nothing_of_money():
    assert "USD" not in text(plan_view(plan(CHAT, "price=null")))


def test_kernels_are_sorted_by_share_and_small_ones_told_in_one_line():
    shown = lines(kernel_table(plan(), explain=False))
    shares = [float(line.split()[-2]) for line in shown if line.rstrip().endswith(" %")]
    assert shares == sorted(shares, reverse=True)
    assert min(shares) >= 0.5
    small = [kernel for kernel in plan().kernels if kernel.share < 0.005]
    assert f"and {len(small)} more below 0.5 % each" in text(kernel_table(plan(), explain=False))


def test_explain_lists_every_kernel():
    shown = text(kernel_table(plan(), explain=True))
    assert "more below" not in shown
    assert all(kernel.engine_name.split()[0] in shown for kernel in plan().kernels)


def test_parts_of_attention_stand_below_it_and_its_share_in_brackets():
    shown = [line.rstrip() for line in lines(node_table(plan(), explain=True))]
    row = next(i for i, line in enumerate(shown) if line.startswith("attention "))
    assert shown[row].endswith(" %)")
    assert shown[row + 1].startswith("  attention.scores")


def test_the_whole_models_intensity_is_the_byte_weighted_mean_of_attention_and_the_rest():
    totals = plan().totals
    attention = [k for k in plan().kernels if "attention.scores" in k.nodes]
    part = sum(k.repeat * k.hbm_bytes for k in attention) / totals.hbm_bytes
    inner = attention[0].matmul_flops / attention[0].hbm_bytes
    rest = (totals.flops_per_byte - part * inner) / (1 - part)
    assert (
        f"= {totals.flops_per_byte:.1f} FLOP/byte, the byte-weighted mean of its kernels: "
        f"attention {inner:.2f} on {100 * part:.1f} % of the bytes, everything else {rest:.1f}."
    ) in text(node_table(plan(), explain=False))


def test_the_fusion_ledger_adds_up_to_the_steps_bytes():
    saved = sum(k.repeat * k.saved_bytes for k in plan().kernels if len(k.nodes) > 1)
    apart = plan().totals.hbm_bytes + saved
    assert f"{show_bytes(apart)} → {show_bytes(plan().totals.hbm_bytes)}" in text(
        fusion_ledger(plan())
    )


def test_a_plan_without_fused_kernels_says_so():
    alone = replace(plan(), kernels=tuple(k for k in plan().kernels if len(k.nodes) == 1))
    assert "no group of nodes runs as one kernel" in text(fusion_ledger(alone))


def test_the_launch_ledger_prints_both_limits_with_their_arithmetic():
    fixed, work_s = plan().step.fixed_s, plan().totals.roofline_s
    kernels = plan().step.modes["full"].kernels
    shown = text(launch_ledger(plan()))
    loop = show_seconds(work_s + kernels * fixed["launch_s"])
    graph = show_seconds(work_s + fixed["replay_s"])
    assert f"+ {kernels:,} × {show_seconds(fixed['launch_s'])} = {loop}" in shown
    assert f"+ {show_seconds(fixed['replay_s'])} = {graph}" in shown


def test_a_mode_that_cannot_run_shows_its_reason_instead_of_a_time():
    mixed = plan("qwen2.5-7b-chunked-prefill")
    reason = mixed.step.modes["piecewise"].reason
    assert not mixed.step.modes["piecewise"].available
    assert reason in text(launch_ledger(mixed))


def test_rule_sets_name_the_flags_to_turn():
    flags = replace(plan().step.rule_sets["flags"], flags={"fuse_norm_quant": True})
    sets = {**plan().step.rule_sets, "flags": flags}
    shown = text(rule_sets(replace(plan(), step=replace(plan().step, rule_sets=sets))))
    assert "fuse_norm_quant=true" in shown


def test_the_limit_says_what_it_is_made_of_and_what_messages_add():
    assert "megakernel: a limit, not a promise, made of memory traffic." in text(rule_sets(plan()))
    row = plan().step.rule_sets["megakernel"]
    hops = replace(row, bound="latency", messages=162, exposed_s=5e-4, parts_s={"latency": 3e-3})
    sets = {**plan().step.rule_sets, "megakernel": hops}
    shown = text(rule_sets(replace(plan(), step=replace(plan().step, rule_sets=sets))))
    assert "made of hops between GPUs" in shown
    assert "Hops of 162 messages that wait for each" in shown
    assert "take 3.00 ms, of which 500 us exposed" in shown


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "pytorch-eager"])
def test_the_memory_ledger_says_how_its_kv_space_follows(engine):
    memory = plan(CHAT, f"backend={{name: {engine}}}", "memory.utilization=null").memory
    taken = memory.weights_bytes + memory.activations_bytes + memory.runtime_bytes
    graphs = memory.graphs_bytes if memory.graphs_inside else 0
    by_rule = {
        "budget less all": memory.budget_bytes - taken - graphs,
        "budget less weights": memory.budget_bytes - memory.weights_bytes,
        "of what the others leave free": memory.utilization
        * (memory.visible_bytes - taken - graphs),
    }
    shown = text(
        memory_ledger(plan(CHAT, f"backend={{name: {engine}}}", "memory.utilization=null"))
    )
    rule = next(words for words in by_rule if words in shown)
    assert by_rule[rule] == pytest.approx(memory.kv_available_bytes, abs=1)


def test_the_memory_ledger_lists_places_set_aside_for_states():
    """Places times the states of a sequence, taken before the KV cache."""
    found = plan(CHAT, "model=qwen3.5-4b", "backend={name: sglang, version: '0.5.9'}")
    states = found.memory.states
    assert states.sequences == states.slots // 3
    shown = text(memory_ledger(found))
    assert f"{states.slots:,} places, 3 a running sequence: at most {states.sequences:,}" in shown
    assert "what states leave of the budget less weights" in shown
    rest = found.memory.budget_bytes - found.memory.weights_bytes
    assert found.memory.kv_available_bytes + states.held_bytes == pytest.approx(rest, abs=1)


def test_advice_says_what_it_costs_beside_what_it_buys():
    row = Advice("precision.kv_cache=fp8", "half the bytes", 0.0164, 0.11, False, False)
    shown = text(advice_view([row]))
    assert "+11 % 16.4 ms precision.kv_cache=fp8" in shown
    assert "does not fit" in shown
    assert "lowers precision" in shown


def test_no_advice_is_said():
    assert "nothing that was tried buys one percent" in text(advice_view([]))


def test_advice_that_was_not_asked_for_has_no_section():
    assert "What to change" not in text(plan_view(plan(), None))


def test_explain_gives_refusals_sources_and_parts():
    shown = text(plan_view(plan(), explain=True))
    assert all(" ".join(refusal.split()) in shown for refusal in plan().refusals)
    assert all(source in shown for source in plan().step.fixed_sources.values())
    assert all(digest[:12] in shown for digest in plan().parts.values())


def test_notes_are_printed():
    assert "mind the gap" in text(plan_view(replace(plan(), notes=("mind the gap",))))


def test_several_gpus_are_said_where_amounts_are_one_gpus():
    assert "on one of 4 GPUs" in text(plan_view(plan("llama-3.3-70b-4xh100")))
