"""Spans of host and device against the recurrence by hand, and against the timeline."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.capture.spans import Call, Span, spans, step_calls, step_spans
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.solve import solve_step
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

SECONDS = st.floats(0, 1e-3)
STREAMS = ("compute", "network", "copy")


def test_a_kernel_waits_for_another_stream():
    """Launches take 1: a from 1 to 6, b, which waits for it, from 6 to 8 on its own stream, c from
    6 to 7 beside it, as only a is before it on the first stream."""
    calls = [
        Call("a", 1.0, 5.0),
        Call("b", 1.0, 2.0, "network", waits=(0,)),
        Call("c", 1.0, 1.0),
    ]
    assert list(spans(calls)) == [
        Span("host", "a", 0, 1),
        Span("compute", "a", 1, 6),
        Span("host", "b", 1, 2),
        Span("network", "b", 6, 8),
        Span("host", "c", 2, 3),
        Span("compute", "c", 6, 7),
    ]


def test_delays_and_calls_that_block_hold_the_host():
    """The first kernel ends at 4, the host goes on then, rests 2, and launches by 7."""
    calls = [Call("a", 1.0, 3.0, blocks=True), Call("b", 1.0, 1.0, delay_s=2.0)]
    assert list(spans(calls))[2:] == [Span("host", "b", 6, 7), Span("compute", "b", 7, 8)]


@st.composite
def call_lists(draw):
    count = draw(st.integers(1, 8))
    return [
        Call(
            f"k{number}",
            draw(SECONDS),
            draw(SECONDS),
            draw(st.sampled_from(STREAMS)),
            tuple(draw(st.sets(st.integers(0, number - 1), max_size=2))) if number else (),
            draw(SECONDS),
            draw(st.booleans()),
        )
        for number in range(count)
    ]


def end_s(calls):
    return max((span.end_s for span in spans(calls)), default=0.0)


@given(call_lists())
@settings(max_examples=40)
def test_nothing_overlaps_on_a_stream_and_the_end_lies_within_its_bounds(calls):
    found = list(spans(calls))
    for stream in ("host", *STREAMS):
        own = [span for span in found if span.stream == stream]
        assert all(a.end_s <= b.start_s + 1e-12 for a, b in pairwise(own))
    host_s = sum(call.launch_s + call.delay_s for call in calls)
    loads = [sum(c.device_s for c in calls if c.stream == stream) for stream in STREAMS]
    end = max([span.end_s for span in found], default=0.0)
    # a delay alone leaves no span
    issued_s = max([span.end_s for span in found if span.stream == "host"], default=0.0)
    assert max(issued_s, *loads) <= end + 1e-12
    assert end <= host_s + sum(loads) + 1e-12


@given(call_lists())
@settings(max_examples=40)
def test_waiting_less_never_ends_later(calls):
    free = [Call(c.name, c.launch_s, c.device_s, c.stream, (), c.delay_s, False) for c in calls]
    assert end_s(free) <= end_s(calls) + 1e-12


TEXT = """\
model: qwen2.5-0.5b-instruct
gpu: h100-sxm
parallel: {tensor: 2}
backend: {name: vllm, version: "0.10", flags: {cudagraph_mode: %s}}
step: {decode: {batch: 3, context: 500}}
"""


@pytest.fixture(scope="module", params=["NONE", "PIECEWISE", "FULL"])
def solved(request):
    """A step of two ranks in each capture mode."""
    text = TEXT % request.param
    question = ask(load_text(text, "test", "deployment"), Catalog.standard())
    return solve_step(prepare(question), step_load(question.deployment))


def test_a_steps_spans_end_where_its_timeline_does(solved):
    line = solved.chosen.timeline
    found = step_spans(solved.chosen, solved.fixed)
    device_s = max(span.end_s for span in found if span.stream != "host")
    assert device_s == pytest.approx(line.beyond_s + line.device_s, rel=1e-9)
    kernels = [span for span in found if span.stream != "host"]
    assert sum(s.end_s - s.start_s for s in kernels) == pytest.approx(line.busy_s)


def test_collectives_have_a_stream_of_their_own(solved):
    """24 layers of two all-reduces, and one behind the embedding; the LM head is gathered."""
    calls = list(step_calls(solved.chosen, solved.fixed))
    assert sum(call.stream == "network" for call in calls) == 24 * 2 + 2
