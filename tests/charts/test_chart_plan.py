"""Charts of one plan: their points are the plan's figures, their axes have units."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from drawn import CATALOG, MOE, plan, prefill, prefill_question, question, rows, titles
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.charts.labels import Spot, placed, text_box
from planner.charts.memory import held, memory_chart
from planner.charts.modes import LIMIT, bars, modes_chart
from planner.charts.roofline import points, roofline_chart, turned
from planner.charts.roofs import roofs
from planner.charts.sweep import sweep_chart
from planner.charts.theme import INKS, decades, hue, on
from planner.cost.types import device
from planner.errors import UsageError
from planner.plan.around import around
from planner.plan.memory_types import StatesPlan


@pytest.fixture(scope="module", params=["dense", "moe", "prefill"])
def drawn(request):
    """A dense decode step, one of experts, and a prefill."""
    return {"dense": plan, "moe": lambda: plan(*MOE), "prefill": prefill}[request.param]()


def test_roofs_that_a_plan_implies_are_those_of_its_gpu(drawn):
    gpu = device(CATALOG.find("gpu", drawn.gpu))
    found = roofs(drawn)
    assert found.bandwidth_bytes_per_s == pytest.approx(gpu.bandwidth_bytes_per_s)
    peaks = {roof.unit: roof.peak_flops_per_s for roof in found.units}
    assert peaks["vector"] == pytest.approx(gpu.vector_flops_per_s)
    assert peaks["bf16"] == pytest.approx(gpu.peak("bf16"))


def test_no_kernel_stands_above_the_roof_of_the_datasheet(drawn):
    found = roofs(drawn)
    peaks = {roof.unit: roof.peak_flops_per_s for roof in found.units}
    for point in points(drawn, found):
        roof = min(peaks[point.unit], found.bandwidth_bytes_per_s * point.flops_per_byte)
        assert point.flops_per_s <= roof * (1 + 1e-9)


def test_a_point_is_a_kernel_by_hand():
    """down_proj of Qwen2.5-7B at batch 16: 18,944 × 3,584 weights of 2 bytes."""
    found = points(plan(), roofs(plan()))
    (down,) = (point for point in found if point.kernel.nodes == ("down_proj",))
    flops = 2 * 16 * 18_944 * 3_584
    hbm_bytes = 2 * (18_944 * 3_584 + 16 * 18_944 + 16 * 3_584)
    assert down.flops_per_byte == pytest.approx(flops / hbm_bytes)
    assert down.flops_per_s == pytest.approx(flops / down.kernel.time_s)
    assert down.unfused_flops_per_byte is None


def test_every_kernel_that_does_arithmetic_is_a_point_and_the_rest_is_told(drawn):
    spec = roofline_chart(drawn).to_dict()
    shown = [row for row in rows(spec) if "kernel" in row and "area" in row]
    doing = [k for k in drawn.kernels if (k.matmul_flops or k.vector_flops) and k.hbm_bytes]
    assert sorted(row["kernel"] for row in shown) == sorted(kernel.name for kernel in doing)
    left = len(drawn.kernels) - len(doing)
    assert (f"{left} kernels that do no arithmetic" in str(spec["title"])) == (left > 1)


def test_area_is_the_share_of_the_step(drawn):
    shown = [row for row in rows(roofline_chart(drawn).to_dict()) if "area" in row]
    first, *others = sorted(shown, key=lambda row: -row["area"])
    for row in others:
        if row["area"] > 22:
            assert row["area"] / first["area"] == pytest.approx(row["share"] / first["share"])


def test_a_fused_kernel_bound_by_memory_is_faster_than_its_nodes_by_their_bytes():
    found = points(plan(), roofs(plan()))
    fused = [p for p in found if p.unfused_flops_per_s and p.kernel.bound == "memory"]
    assert fused
    for point in fused:
        bytes_ratio = point.kernel.unfused_bytes / point.kernel.hbm_bytes
        assert point.flops_per_s / point.unfused_flops_per_s == pytest.approx(bytes_ratio)


def test_a_mark_turns_clockwise_from_upright():
    """Up the page is 0 degrees, to the right 90."""
    assert turned(0, 10, 0, 0) == pytest.approx(0)
    assert turned(0, 0, 10, 0) == pytest.approx(90)


def test_bars_of_modes_are_the_plans_times(drawn):
    step = drawn.step
    found = {bar.name.removesuffix(" (this plan)"): bar for bar in bars(drawn)}
    for name, mode in step.modes.items():
        assert found[name].time_s == pytest.approx(mode.time_s if mode.available else 0.0)
        if mode.available:
            work = dict(found[name].parts)["kernels at work"]
            assert work == pytest.approx((1 - mode.launch_share) * mode.time_s)
        else:
            assert mode.reason in found[name].said
    assert found["ideal fusion"].time_s == step.rule_sets["ideal"].time_s
    assert found["bare roofline"].time_s == drawn.totals.roofline_s
    assert found["megakernel"].time_s == step.rule_sets["megakernel"].time_s
    assert (found[step.mode].low_s, found[step.mode].high_s) == (step.low_s, step.high_s)


def test_limits_are_outlines_that_promise_nothing(drawn):
    limits = [bar.name for bar in bars(drawn) if LIMIT in dict(bar.parts)]
    assert limits == ["bare roofline", "megakernel"]
    encoded = modes_chart(drawn).to_dict()["layer"][0]["encoding"]
    place = encoded["fill"]["scale"]["domain"].index(LIMIT)
    assert encoded["fill"]["scale"]["range"][place] == "#ffffff"
    assert encoded["strokeDash"]["scale"]["range"][place] == [4, 3]
    sets = {k: v for k, v in drawn.step.rule_sets.items() if k != "megakernel"}
    before = replace(drawn, step=replace(drawn.step, rule_sets=sets))
    assert bars(before)[-1].name == "bare roofline"


def test_memory_that_is_held_and_free_fills_the_budget():
    """vLLM 0.26 counts graphs inside the budget: all but the CUDA context is in it."""
    memory = plan().memory
    assert memory.graphs_inside
    parts = held(memory)
    inside = sum(size for name, size in parts.items() if name != "CUDA context")
    assert inside == pytest.approx(memory.budget_bytes, rel=0.001)
    outside = replace(memory, graphs_inside=False)
    assert list(held(outside))[-2:] == ["CUDA Graphs", "CUDA context"]
    kept = replace(memory, states=StatesPlan(100, 5, 20, 0, 3e9))
    assert held(kept)["states"] == 3e9


def test_a_plan_that_does_not_fit_says_so():
    short = plan(*MOE)
    assert not short.memory.fits
    assert "DOES NOT FIT" in str(memory_chart(short).to_dict()["title"])


def test_a_sweep_passes_through_the_plan_and_marks_its_limits():
    """25 sequences of 4,096 tokens fit into the room for 103,456."""
    found = around(question(), plan(), "batch")
    at = found.values.index(16)
    assert found.step_s[at] == pytest.approx(plan().step.time_s)
    assert found.limit == plan().memory.kv_tokens // 4096 == 25
    assert [fits for value, fits in zip(found.values, found.fits, strict=True) if value > 25] == [
        False
    ] * sum(value > 25 for value in found.values)
    assert found.tokens_per_s[at] == pytest.approx(16 / plan().step.time_s)
    first = min(n.crossing_tokens for n in plan().nodes if n.weight_bytes and n.crossing_tokens)
    assert found.crossings[0].at == first
    spec = sweep_chart(plan(), found).to_dict()
    assert any(row.get("said") == "KV cache full: 25" for row in rows(spec))
    assert any(str(row.get("said", "")).startswith(f"M* {first:,.0f}") for row in rows(spec))


def test_a_sweep_of_contexts_ends_at_the_model_s_longest():
    found = around(question(), plan(), "context", points=8)
    assert found.kept == 16
    assert found.values[-1] <= plan().model.max_context
    assert not found.crossings


def test_a_sweep_needs_a_decode_step():
    chunked = {**prefill().deployment, "step": {"mixed": []}}
    with pytest.raises(UsageError, match="needs a deployment with a decode step or a prefill"):
        around(question(), replace(prefill(), deployment=chunked), "batch")


def test_a_sweep_of_prefills_is_in_prompt_tokens():
    """Four prompts of 2,048: M* tokens of a GEMM are in flight at a quarter of it each."""
    found = around(prefill_question(), prefill(), "context", points=8)
    at = found.values.index(2048)
    assert found.step_s[at] == pytest.approx(prefill().step.time_s)
    assert found.tokens_per_s[at] == pytest.approx(4 * 2048 / prefill().step.time_s)
    assert found.crossings[0].at == pytest.approx(found.crossings[0].tokens / 4)
    assert found.values[0] < found.crossings[0].at
    assert "Prefill steps by length of prompts" in str(sweep_chart(prefill(), found).to_dict())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_axis_has_a_title_with_its_unit(theme):
    own = plan()
    charts = {
        roofline_chart: {"arithmetic intensity, FLOP per byte of HBM", "rate, TFLOP/s"},
        modes_chart: {"time of a step, ms"},
        memory_chart: {"memory, GiB"},
    }
    for draw, expected in charts.items():
        spec = draw(own, theme=theme).to_dict()
        assert titles(spec) == expected
        assert spec["config"]["background"] == INKS[theme].ground


def test_nothing_in_a_chart_is_fetched():
    text = roofline_chart(plan()).to_json()
    assert '"url"' not in text
    assert text.count("http") == 1, "the name of the schema alone"


def test_a_graph_without_arithmetic_has_no_roofline():
    bare = replace(plan(), kernels=())
    with pytest.raises(UsageError, match="does arithmetic"):
        roofline_chart(bare)


def test_ticks_of_a_logarithmic_axis():
    assert decades(0.2, 1500) == pytest.approx([1, 10, 100, 1000])
    assert decades(15, 160) == pytest.approx([20, 50, 100])
    assert decades(35, 62) == pytest.approx([35, 40, 45, 50, 55, 60])


def test_words_on_a_colour_are_read_better_than_the_other_way():
    """Contrast of WCAG 2: (lighter + 0.05) / (darker + 0.05), at least 4.5 by the better of two."""
    assert on("light", "blue") == "white"
    assert on("light", "yellow") == "black"
    assert hue("light", "blue") != hue("dark", "blue")


spot = st.builds(
    Spot,
    st.floats(20, 380),
    st.floats(20, 280),
    st.floats(1, 20),
    st.text("abcdef", min_size=1, max_size=12),
)


@settings(max_examples=30)
@given(st.lists(spot, max_size=8))
def test_no_label_covers_another_or_a_point(spots):
    labels = placed(spots, (400, 300))
    boxes = [text_box(label.x, label.y, label.text) for label in labels]
    for a, b in itertools.combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    for box, one in itertools.product(boxes, spots):
        inside = box[0] < one.x < box[2] and box[1] < one.y < box[3]
        assert not inside
    assert all(math.isfinite(label.x + label.y) for label in labels)
