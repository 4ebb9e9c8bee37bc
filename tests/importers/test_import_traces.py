"""Traces give kernels and steps, logs give what an engine found at its start."""

import gzip
import json

import pytest
from importer_files import database, raw

from planner.importers import read
from planner.plan.runs import KernelTime

GIB = 2**30


def one(name):
    (run,) = read(raw(name), name)
    return run


def step_s(run):
    return {metric.statistic: metric.value for metric in run.metrics if metric.name == "step"}


def seconds(run):
    return {kernel.name: (kernel.calls, pytest.approx(kernel.total_s)) for kernel in run.kernels}


def test_a_torch_trace_gives_kernels_steps_and_gpu():
    """Three steps 7 ms apart; copies, launches and flow events are no kernels."""
    run = one("torch_trace.json")
    assert seconds(run) == {
        "nvjet_lm_head": (3, 3 * 352.0e-6),
        "nvjet_gate_up": (3, 3 * 77.9e-6),
        "nvjet_down": (3, 3 * 40.5e-6),
    }
    assert run.kernels[0].name == "nvjet_lm_head"
    assert step_s(run)["median"] == pytest.approx(7e-3)
    assert len(run.samples["step"]) == 2
    assert run.context == {"gpu": "NVIDIA H100 80GB HBM3", "step.decode.batch": 8}


def test_a_packed_trace_is_the_same_run_from_another_file():
    data = gzip.compress(raw("torch_trace.json"), mtime=0)
    (packed,) = read(data, "trace.json.gz")
    assert packed.kernels == one("torch_trace.json").kernels
    assert packed.source.size_bytes == len(data)


def trace(*events):
    return json.dumps({"traceEvents": [kernel("k", 0.0, 1.0), *events]}).encode()


def kernel(name, ts, dur, device=0):
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "ts": ts,
        "dur": dur,
        "args": {"device": device},
    }


def step(name, ts, tid=1):
    return {
        "ph": "X",
        "cat": "user_annotation",
        "name": name,
        "ts": ts,
        "dur": 5,
        "pid": 1,
        "tid": tid,
    }


def test_a_step_beside_a_prefill_is_not_timed_as_a_decode():
    decode, mixed = "execute_context_0(0)_generation_8(8)", "execute_context_1(512)_generation_7(7)"
    events = [step(decode, 0), step(mixed, 7000), step(decode, 40000), step(decode, 47000)]
    (run,) = read(trace(*events), "trace.json")
    assert run.samples["step"] == pytest.approx((7e-3,))


def test_steps_of_two_ranks_are_not_mixed():
    name = "execute_context_0(0)_generation_8(8)"
    events = [step(name, at + rank, rank) for at in (0, 7000, 14000) for rank in (1, 2)]
    (run,) = read(trace(*events), "trace.json")
    assert run.samples["step"] == pytest.approx((7e-3, 7e-3))


def test_kernels_that_overlap_are_busy_once():
    """1 us, then 10 us from 100 us and 10 us from 105 us: 1 + 15 us of 115 us."""
    (run,) = read(trace(kernel("a", 100.0, 10.0), kernel("b", 105.0, 10.0, 1)), "trace.json")
    assert "some kernel ran for 16.0 us of 115 us traced" in run.notes
    assert any("2 GPUs" in note for note in run.notes)


def test_clocks_from_1970_do_not_round_kernel_times():
    (run,) = read(trace(kernel("late", 1756720000e6, 3.1)), "trace.json")
    assert KernelTime("late", 1, 3.1e-6).total_s == pytest.approx(run.kernels[0].total_s, rel=1e-12)


@pytest.mark.parametrize(
    "file",
    ["nsys_kernel_summary.csv", "nsys_kernel_summary_preamble.csv", "nsys_kernel_summary_old.csv"],
)
def test_nsys_summaries_old_and_new_give_the_same_kernels(file):
    run = one(file)
    assert run.kernels == (
        KernelTime(
            "void nvjet_gate_up<(int)64, (int)8, __nv_bfloat16>(T1::Params)",
            320,
            pytest.approx(24.928e-3),
        ),
        KernelTime("void nvjet_lm_head<(int)384, (int)8>(T1::Params)", 10, pytest.approx(3.52e-3)),
        KernelTime("void at::native::reduce_kernel", 10, pytest.approx(0.188e-3)),
    )
    # (24.928 + 3.52 + 0.188) ms / 10 steps = 2.8636 ms
    assert "ran 10 times, and if it runs once a step, kernels take 2.86 ms" in run.notes[1]


def test_nsys_summaries_in_other_units_are_read_in_theirs():
    text = raw("nsys_kernel_summary.csv").decode().replace("Total Time (ns)", "Total Time (us)")
    (run,) = read(text.encode(), "sum.csv")
    assert run.kernels[0].total_s == pytest.approx(24.928)


def test_an_nsys_database_gives_kernels_steps_and_gpu():
    """Names by number, the third step's too; a range that is still open is no step."""
    run = one("nsys_export.sqlite")
    assert seconds(run) == {
        "nvjet_gate_up<64>": (3, 3 * 77900e-9),
        "nvjet_down": (3, 3 * 40500e-9),
    }
    assert run.samples["step"] == pytest.approx((7e-3, 7e-3))
    assert run.context == {"gpu": "NVIDIA H100 80GB HBM3"}
    assert run.source.tool == "Nsight Systems 2025.1.1"


def test_graphs_traced_whole_are_noted():
    graphs = (
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, shortName INT);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 1000, 7);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (0, 900), (900, 1800);"
    )
    (run,) = read(database(graphs), "run.sqlite")
    assert run.kernels == (KernelTime("7", 1, pytest.approx(1e-6)),)
    assert any(note.startswith("2 CUDA Graph launches") for note in run.notes)


def test_a_vllm_log_gives_memory_in_bytes_and_the_engine():
    run = one("startup_vllm.log")
    assert run.metrics == ()
    assert run.context == {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "backend.name": "vllm",
        "backend.version": "0.19.0",
        "parallel.tensor": 1,
        "parallel.pipeline": 1,
        "precision.weights": "bf16",
        "memory.kv_tokens": 475136,
        "memory.weights_bytes": 15 * GIB,
        "memory.kv_bytes": 58 * GIB,
        "memory.graph_bytes": GIB / 2,
    }


def test_a_draft_model_in_the_log_is_not_the_model():
    draft = b", speculative_config=SpeculativeConfig(method='eagle', model='draft'), dtype="
    (run,) = read(raw("startup_vllm.log").replace(b", dtype=", draft), "start.log")
    assert run.context["model"] == "meta-llama/Llama-3.1-8B-Instruct"


def test_gib_printed_as_gb_is_read_as_gib_and_noted():
    run = one("startup_sglang.log")
    assert run.context == {"memory.kv_tokens": 441000, "memory.graph_bytes": GIB / 2}
    assert any("GB and read as GiB" in note for note in run.notes)


def test_a_tensorrt_llm_log_gives_its_paged_kv_cache():
    assert one("startup_trtllm.log").context == {
        "memory.kv_tokens": 475136,
        "memory.kv_bytes": 29 * GIB,
    }


def test_ranks_that_differ_give_the_smallest_and_a_note():
    lines = b"GPU KV cache size: 475,136 tokens\nGPU KV cache size: 470,000 tokens\n"
    (run,) = read(lines, "start.log")
    assert run.context["memory.kv_tokens"] == 470000
    assert any("differs" in note for note in run.notes)
