"""Charts of several plans and of choices, of a block and its launches: what is drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn import CATALOG, MOE, plan, question, rows, titles

from planner.charts.block import block_chart, kernels_of, laid_out, route
from planner.charts.draw import PLAN_CHARTS, draw, drawable
from planner.charts.files import inline_svg
from planner.charts.front import Offered, front_chart, offered_in
from planner.charts.gpus import diff_chart, factors, gpus_chart, split
from planner.charts.kernels import kernel_labels
from planner.charts.launches import MOST, slots, timeline_chart
from planner.errors import UsageError
from planner.plan.diff import diff, side_by_side
from planner.plan.serving_types import Range
from planner.plan.wiring import Wire, wires

EAGER = ("backend.flags.enforce_eager=true", "model=qwen2.5-0.5b-instruct")


@pytest.fixture(scope="module")
def columns():
    """The chat on its own GPU and on an H100."""
    plans = {"rtx-4090": plan(), "h100-sxm": plan("gpu=h100-sxm", "price=null")}
    return side_by_side(plans, {name: CATALOG.find("gpu", name) for name in plans})


def test_a_bar_is_a_step_split_by_what_bounds_its_kernels(columns):
    for column in columns:
        parts = split(column)
        assert sum(parts.values()) == pytest.approx(column.plan.step.time_s)
        memory = sum(k.repeat * k.time_s for k in column.plan.kernels if k.bound == "memory")
        assert parts["memory"] == pytest.approx(memory)


def test_marks_are_the_first_step_over_the_ratio_of_rates(columns):
    """The RTX 4090 has 1,008 GB/s and 165.2 TFLOP/s, the H100 3,350 and 989.4."""
    spec = gpus_chart(columns).to_dict()
    marks = {row["kind"]: row["at"] for row in rows(spec) if "kind" in row}
    step_ms = plan().step.time_s * 1e3
    assert marks["by bandwidth"] == pytest.approx(step_ms * 1008 / 3350, rel=0.001)
    assert marks["by peak"] == pytest.approx(step_ms * 165.2 / 989.4, rel=0.001)
    assert titles(spec) == {"time of a step, ms"}


def test_words_follow_their_own_bar(columns):
    """Not the marks above it, however far those lie: the interval's end, or the bar's."""
    said = [row for row in rows(gpus_chart(columns).to_dict()) if "said" in row]
    for row, column in zip(said, columns, strict=True):
        assert row["at"] == pytest.approx(column.plan.step.high_s * 1e3)


def test_a_change_is_drawn_as_factors_of_one():
    change = diff(plan(), plan("gpu=h100-sxm", "price=null"))
    found = {row["what"]: row["factor"] for row in factors(change)}
    assert found["time of a step"] == pytest.approx(1 / change.speed_up)
    assert found["kernels"] == 1.0
    assert titles(diff_chart(change).to_dict()) == {"after ÷ before, a ratio"}


def offer(name, usd, tpot_s, kind="on the front"):
    """A choice as a point, with an interval of a tenth."""
    return Offered(name, kind, usd, Range(tpot_s, tpot_s * 0.9, tpot_s * 1.1))


def test_the_front_is_joined_and_the_limit_stands_at_its_height():
    found = [offer("a", 1, 0.020), offer("b", 4, 0.010), offer("c", 5, 0.015, "misses a limit")]
    spec = front_chart(found, 0.030, "users").to_dict()
    points = {row["name"]: (row["x"], row["y"]) for row in rows(spec) if "name" in row}
    assert points == {"a": (1, 20), "b": (4, 10), "c": (5, 15)}
    line = next(layer for layer in spec["layer"] if layer["mark"].get("type") == "line")
    joined = spec["datasets"][line["data"]["name"]]
    assert [row["name"] for row in joined] == ["a", "b"]
    assert any(row.get("said") == "limit 30 ms" for row in rows(spec))
    assert titles(spec) == {"price, USD/h", "time per output token, ms"}


def test_a_choice_without_prices_has_no_front():
    row = {"units": 1, "offer": "x", "spending": {"price_per_hour": None}}
    document = {"front": [row], "choices": [], "nearest": [], "given": None}
    assert offered_in(document) == ()
    with pytest.raises(UsageError, match="no choice has a price"):
        front_chart((), None, "")


def test_a_choice_on_the_front_is_one_point():
    row = {
        "units": 2,
        "offer": "x",
        "spending": {"price_per_hour": 3.0},
        "serving": {"tpot_s": {"value": 0.02, "low": None, "high": None}},
    }
    document = {"front": [row], "choices": [row], "nearest": [], "given": None}
    (point,) = offered_in(document)
    assert (point.name, point.kind) == ("2 × x", "on the front")


def wire(source, target):
    return Wire("b", source, target, f"{source}→{target}")


def test_a_node_stands_below_all_that_it_reads():
    """a feeds b and c, both feed d: three rows, the middle one with two nodes."""
    found = {
        box.node: box
        for box in laid_out("abcd", [wire(*pair) for pair in ("ab", "ac", "bd", "cd")])
    }
    assert found["a"].y < found["b"].y == found["c"].y < found["d"].y
    assert found["b"].x != found["c"].x
    assert found["a"].x == pytest.approx((found["b"].x + found["c"].x) / 2) == found["d"].x


def test_a_line_goes_past_what_lies_between():
    """a → c with b between: the line has four corners, to the right of b."""
    boxes = laid_out("abc", [wire("a", "b"), wire("b", "c"), wire("a", "c")])
    a, b, c = boxes
    assert len(route(a, b, boxes)) == 2
    way = route(a, c, boxes)
    assert len(way) == 4
    assert way[1][0] == way[2][0] > b.x


def test_every_node_of_the_block_is_drawn_with_the_number_of_its_kernel():
    own = plan()
    spec = block_chart(own, wires(question())).to_dict()
    nodes = [row.id for row in own.nodes if row.block == "layer" and not row.composite]
    said = [row["said"] for row in rows(spec) if "middle" in row]
    short = [name if len(name) <= 18 else f"{name[:17]}…" for name in nodes]
    assert sorted(text.split()[1] for text in said) == sorted(short)
    kernels, seldom = kernels_of(own, "layer", nodes)
    qkv = next(n for n, k in enumerate(kernels, 1) if k.nodes == ("q_proj", "k_proj", "v_proj"))
    assert {f"{qkv}  {name}_proj" for name in "qkv"} <= set(said)
    assert {kernel.repeat for kernel in seldom} == {1}, "the first and the last layer"


def test_kernels_of_one_name_are_told_apart():
    """By their nodes, and where these are the same by their block."""
    first, *_ = plan().kernels
    rows_of = [
        replace(first, name="inductor", nodes=("act", "mul"), block="a"),
        replace(first, name="inductor", nodes=("norm",), block="a"),
        replace(first, name="flash", nodes=("x.scores", "x.values"), block="a"),
        replace(first, name="flash", nodes=("x.scores", "x.values"), block="b"),
        replace(first, name="router", nodes=("router",), block="b"),
    ]
    assert list(kernel_labels(rows_of).values()) == [
        "act + mul",
        "norm",
        "x (a)",
        "x (b)",
        "router",
    ]


def test_wires_are_the_edges_of_the_graph():
    found = {(each.source, each.target) for each in wires(question()) if each.block == "layer"}
    assert {("act", "act_mul"), ("up_proj", "act_mul"), ("act_mul", "down_proj")} <= found


def test_an_unknown_block_is_refused_with_the_nearest_name():
    with pytest.raises(UsageError, match="did you mean 'layer'"):
        block_chart(plan(), (), "layr")


@pytest.mark.parametrize("sets", [(), EAGER, MOE], ids=["full", "eager", "experts"])
def test_the_timeline_ends_when_the_step_does(sets):
    """Nothing is unhidden in these plans: no calibration says so of their engines."""
    own = plan(*sets)
    *_, last = slots(own)
    assert last.end_s == pytest.approx(own.step.time_s)


def test_no_kernel_starts_before_the_one_before_it_ends_or_before_its_launch():
    before = 0.0
    for slot in slots(plan(*EAGER)):
        assert slot.start_s >= max(before, slot.issue_end_s)
        before = slot.end_s


def test_the_beginning_of_a_timeline_is_drawn():
    spec = timeline_chart(plan(*EAGER)).to_dict()
    assert sum("kernel" in row and "time" in row for row in rows(spec)) >= MOST
    assert titles(spec) == {"time since the first launch, us"}


def test_a_plan_stored_without_its_order_has_no_timeline():
    with pytest.raises(UsageError, match="before the order of kernels was kept"):
        timeline_chart(replace(plan(), order=()))


def test_a_plan_has_all_charts_and_a_mixed_step_those_that_need_no_sweep():
    """Altair checks a chart against its schema as it becomes a picture: the report of a file does
    that for each (tests/cli/test_cli_chart.py).
    """
    assert list(drawable(plan(), question())) == list(PLAN_CHARTS)
    chunked = {**plan().deployment, "step": {"mixed": []}}
    other = replace(plan(), deployment=chunked, order=())
    found = set(drawable(other, question()))
    assert set(PLAN_CHARTS) - found == {"batch", "context", "timeline"}


def test_a_picture_in_a_page_has_its_ink_and_its_title():
    text = inline_svg(draw("memory", plan(), question()))
    assert text.startswith('<svg role="img" aria-label="Memory of one GPU" viewBox=')
    assert 'fill="var(--chart-text, #1b1f24)"' in text
    assert "<script" not in text
