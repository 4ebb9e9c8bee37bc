"""Steps of a trace: where they are cut, what kind is the commonest, what its kernels take."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from importer_files import FOLDER

from planner.errors import PlannerError
from planner.importers import read
from planner.importers.sequence import covered_s, of_kernels, of_ranges
from planner.importers.trace import Span

US = 1e-6
DECODE = ["embedding", "gemm", "attn", "gemm", "attn", "gemm", "argmax"]
PREFILL = ["embedding", "gemm_large", "attn", "gemm_large", "argmax"]


def spans(*steps, lane="0", pause=100.0, at=0.0):
    """Kernels of 10 us, 1 us apart; steps ``pause`` us apart."""
    found = []
    for step in steps:
        for name in step:
            found.append(Span(name, at * US, 10 * US, lane))
            at += 11
        at += pause - 1
    return found


def names(traced):
    return [one.name for one in traced.sequence]


def test_a_step_begins_at_the_embedding():
    """Three whole steps: 7 kernels of 10 us and 6 pauses of 1 us, then 100 us: 176 us each."""
    traced = of_kernels(spans(DECODE, DECODE, DECODE)).traced
    assert (traced.count, traced.alike) == (3, 3)
    assert names(traced) == DECODE
    assert traced.wall_s == pytest.approx(176 * US)
    assert traced.busy_s == pytest.approx(70 * US)


def test_a_cut_first_and_last_step_do_not_count_as_the_commonest():
    traced = of_kernels(spans(DECODE[4:], DECODE, DECODE, DECODE, DECODE[:3])).traced
    assert (traced.count, traced.alike) == (5, 3)
    assert names(traced) == DECODE


def test_prefill_steps_between_are_of_another_kind():
    """Steps next to each other are 176 us apart; those beside a prefill are not timed."""
    found = of_kernels(spans(DECODE, PREFILL, DECODE, DECODE, PREFILL, DECODE, DECODE))
    assert (found.traced.count, found.traced.alike) == (7, 5)
    assert names(found.traced) == DECODE
    assert found.walls_s == pytest.approx([176 * US, 176 * US])


def test_without_an_embedding_the_sampler_ends_a_step_with_the_copies_after_it():
    """The longest pause of the next 8 comes after the copy."""
    step = ["norm", "gemm", "norm", "gemm", "argmax", "copy"]
    traced = of_kernels(spans(step, step, step)).traced
    assert traced.found_by.startswith("argmax")
    assert names(traced) == step


def test_a_rotary_embedding_is_no_embedding():
    step = ["norm", "rotary_embedding_kernel", "gemm", "rotary_embedding_kernel", "argmax"]
    assert names(of_kernels(spans(step, step, step)).traced) == step


def test_without_telling_names_the_rarest_regular_kernel_and_the_longest_pause_decide():
    step = ["a", "b", "b", "c", "b", "b"]
    traced = of_kernels(spans(step, step, step, step)).traced
    assert (traced.count, names(traced)) == (4, step)


def test_ranges_help_where_names_do_not():
    """Two layers alike: kernels alone would take a layer for a step. Ranges come 5 us early."""
    step = ["a", "b", "a", "b"]
    kernels = spans(step, step, step)
    ranges = [Span("step_1", (at * 143 - 5) * US, 30 * US, "host") for at in range(3)]
    traced = of_kernels(kernels, ranges).traced
    assert (traced.count, names(traced)) == (3, step)


def test_one_gpu_of_several_is_shown_the_one_that_worked_longest():
    more = spans(["embedding", "gemm", "gemm", "argmax"], ["embedding", "gemm", "gemm", "argmax"])
    less = spans(["embedding", "argmax"], ["embedding", "argmax"], lane="1")
    assert names(of_kernels([*less, *more]).traced) == ["embedding", "gemm", "gemm", "argmax"]


def test_streams_that_overlap_are_busy_once_and_their_commonest_order_counts():
    """Two of three steps start b before c. 10 + 15 us are covered: b 20 to 30, c 25 to 35."""
    steps = []
    for at, (b, c) in enumerate([(20, 25), (20, 25), (25, 20)]):
        start = at * 1000
        steps += [Span("embedding", start * US, 10 * US), Span("b", (start + b) * US, 10 * US)]
        steps += [Span("c", (start + c) * US, 10 * US)]
    traced = of_kernels(steps).traced
    assert names(traced) == ["embedding", "b", "c"]
    assert (traced.count, traced.alike) == (3, 2)
    assert traced.busy_s == pytest.approx(25 * US)


def test_times_are_medians_by_place():
    """10, 12 and 30 us at the second place: 12; the first stays 10."""
    kernels = []
    for at, length in enumerate((10, 12, 30)):
        kernels += [Span("embedding", at * 1e-3, 10 * US)]
        kernels += [Span("gemm", at * 1e-3 + 20 * US, length * US)]
    times = [one.time_s for one in of_kernels(kernels).traced.sequence]
    assert times == pytest.approx([10 * US, 12 * US])


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["gemm", "attn", "norm"]), min_size=1, max_size=8),
    st.integers(3, 8),
    st.integers(0, 7),
)
def test_any_step_between_embeddings_is_found_again(body, count, cut):
    """Whatever runs in it, and however much of the first step is missing."""
    step = ["embedding", *body]
    first = step[min(cut, len(step) - 1) :]
    traced = of_kernels(spans(first, *[step] * count)).traced
    assert names(traced) == step
    assert traced.alike == count + (first == step)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=12))
def test_covered_time_is_that_of_the_union(parts):
    """Microsecond by microsecond."""
    union = {at for start, length in parts for at in range(start, start + length)}
    found = covered_s([Span("k", float(start), float(length)) for start, length in parts])
    assert found == pytest.approx(len(union))


def test_no_step_is_told_from_kernels_without_rhythm():
    assert of_kernels(spans(["a", "b", "c"])).traced is None


def op(name, ts, dur, tid=1, cat="cpu_op"):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid}


def cpu_trace(*events):
    (run,) = read(json.dumps({"traceEvents": list(events)}).encode(), "cpu.json")
    return run


def linear(at):
    """60 us in aten::linear: 5 in aten::t, 50 in aten::mm, 5 of its own."""
    return (
        op("aten::linear", at, 60),
        op("aten::t", at + 1, 5),
        op("aten::transpose", at + 2, 2),
        op("aten::matmul", at + 7, 52),
        op("aten::mm", at + 8, 50),
        op("aten::resolve_conj", at + 9, 1),
    )


def cpu_step(number, at):
    return (
        op(f"ProfilerStep#{number}", at, 200, cat="user_annotation"),
        op("q_proj", at + 5, 70, cat="user_annotation"),
        *linear(at + 10),
        op("aten::view", at + 71, 2),
        op("aten::rms_norm", at + 80, 40),
        op("aten::mul", at + 90, 10),
    )


def test_operators_of_a_cpu_stand_for_kernels_each_microsecond_once():
    """The GEMM gets the whole linear, the norm keeps what it calls; views are none."""
    run = cpu_trace(*cpu_step(1, 1000), *cpu_step(2, 1250), *cpu_step(3, 1500))
    assert {kernel.name: kernel.calls for kernel in run.kernels} == {
        "aten::mm": 3,
        "aten::rms_norm": 3,
    }
    assert [(one.name, one.time_s) for one in run.traced.sequence] == [
        ("aten::mm", pytest.approx(60 * US)),
        ("aten::rms_norm", pytest.approx(40 * US)),
    ]
    assert run.samples["step"] == pytest.approx([250 * US, 250 * US])
    assert run.context == {}
    assert any("operators of the CPU" in note for note in run.notes)


def test_operators_outside_steps_are_no_part_of_one():
    run = cpu_trace(op("aten::add", 10, 5), *cpu_step(1, 1000), op("aten::add", 1210, 5))
    assert names(run.traced) == ["aten::mm", "aten::rms_norm"]


def test_the_thread_that_computes_most_is_taken():
    run = cpu_trace(*cpu_step(1, 1000), op("aten::copy_", 1000, 20, tid=2))
    assert "aten::copy_" not in {kernel.name for kernel in run.kernels}


def test_kernels_that_inductor_writes_for_a_cpu_are_operators():
    run = cpu_trace(op("graph_0_cpp_fused_mul_silu_1", 0, 5), op("Torch-Compiled Region", 0, 9))
    assert [kernel.name for kernel in run.kernels] == ["graph_0_cpp_fused_mul_silu_1"]


def test_calls_without_end_are_no_trouble():
    """A thousand ranges, one inside the other, around one operator."""
    deep = [op("scope", at, 3000 - 2 * at) for at in range(1000)]
    run = cpu_trace(*deep, op("aten::mm", 5000, 7))
    assert [kernel.name for kernel in run.kernels] == ["aten::mm"]


def test_views_alone_are_no_trace():
    with pytest.raises(PlannerError, match="holds no GPU kernel"):
        cpu_trace(op("aten::view", 1, 2))


def test_ranges_of_one_thread_and_kind_cut_a_cpu_trace():
    """The two steps of the profiler, not the one range of another name."""
    operators = [Span("aten::mm", at * US, US, "1") for at in (10, 20, 110, 120)]
    ranges = [Span("ProfilerStep#1", 0, 100 * US, "1"), Span("ProfilerStep#2", 100 * US, 1, "1")]
    traced = of_ranges(operators, [*ranges, Span("step_1", 0, 1, "1")]).traced
    assert (traced.count, traced.alike, len(traced.sequence)) == (2, 2, 2)


def test_steps_of_an_nsys_summary_are_the_calls_of_its_sampler():
    """The rarest kernel ran 3 times, while something was loaded; the argmax 10 times."""
    table = (
        "Time (%),Total Time (ns),Instances,Name\n"
        "90.0,900000,320,gemm\n9.0,90000,10,ArgMaxOps\n1.0,10000,3,load\n"
    )
    (run,) = read(table.encode(), "sum.csv")
    assert (run.traced.count, run.traced.sequence) == (10, ())


LAYER = ["rms_norm", "mm", "mm", "mm", *["mul", "neg", "cat", "mul", "add"] * 2]
LAYER += ["index_copy_", "index_copy_", "_scaled_dot_product_flash_attention_for_cpu", "mm", "add"]
LAYER += ["rms_norm", "mm", "silu", "mm", "mul", "mm", "add"]


def test_a_real_trace_of_a_cpu_gives_the_operators_of_a_decode_step():
    """Torch 2.13.0, two layers of a small Llama, three steps under ProfilerStep ranges.

    Python calls silu(gate(h)) * up(h): one GEMM, silu, another GEMM, mul. Angles come first.
    """
    (run,) = read((FOLDER / "torch_trace_cpu.json.gz").read_bytes(), "torch_trace_cpu.json.gz")
    assert run.context == {}
    assert len(run.samples["step"]) == 2
    assert (run.traced.count, run.traced.alike) == (3, 3)
    angles = ["copy_", "mul", "cat", "cos", "cat", "sin", "embedding"]
    step = [*angles, *LAYER, *LAYER, "rms_norm", "mm", "argmax"]
    assert names(run.traced) == [f"aten::{name}" for name in step]
