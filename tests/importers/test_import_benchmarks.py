"""Every benchmark's file gives its right numbers: one scenario runs through all of them.

Llama-3.1-8B, 64 requests of 1,024 + 128 tokens at concurrency 8 in 8.64 s: 64 × 128 = 8,192 output
tokens are 948.1 tokens/s, 64 × 1,152 = 73,728 tokens in all are 8,533.3 tokens/s. TTFT 97.4 ms and
TPOT 7.74 ms make 97.4 + 127 × 7.74 = 1,080.38 ms end to end. A pure decode step takes 7.0 ms.
"""

import hashlib
import json

import pytest
from importer_files import GOOD, changed, raw

from planner.importers import IMPORTERS, read, recognise, step_between
from planner.importers.document import Document

OUTPUT = 8192 / 8.64
TOTAL = 73728 / 8.64
SERVING = {"ttft": 97.4e-3, "tpot": 7.74e-3, "latency": 1080.38e-3}


def runs(name):
    return read(raw(name), name)


def figure(run, name, statistic="mean"):
    found = [m.value for m in run.metrics if (m.name, m.statistic) == (name, statistic)]
    assert len(found) == 1, (name, statistic, found)
    return found[0]


def names(run):
    return {metric.name for metric in run.metrics}


@pytest.mark.parametrize(
    ("file", "rates"),
    [
        ("vllm_bench_serve.json", {"output_throughput": OUTPUT, "total_throughput": TOTAL}),
        ("vllm_bench_serve_append.jsonl", {"output_throughput": OUTPUT, "total_throughput": TOTAL}),
        ("sglang_bench_serving.jsonl", {"output_throughput": OUTPUT, "total_throughput": TOTAL}),
        ("trtllm_bench.json", {"output_throughput": OUTPUT, "total_throughput": TOTAL}),
        ("genai_perf.json", {"output_throughput": OUTPUT}),
        ("genai_perf.csv", {"output_throughput": 948.15}),
        ("aiperf.json", {"output_throughput": OUTPUT}),
        ("guidellm.json", {"output_throughput": OUTPUT, "total_throughput": TOTAL}),
        ("llmperf.json", {"output_throughput": OUTPUT}),
    ],
)
def test_one_scenario_gives_one_set_of_numbers_whoever_measured_it(file, rates):
    run = runs(file)[0]
    for name, value in {**SERVING, **rates}.items():
        assert figure(run, name) == pytest.approx(value, rel=1e-9), name
    assert figure(run, "ttft", "median") == pytest.approx(95.2e-3)
    assert run.context["workload.input"] == 1024
    assert run.context["workload.output"] == 128


@pytest.mark.parametrize(
    "file", [name for name in GOOD if "trtllm_bench" in name or "perf." in name]
)
def test_percentiles_come_along_in_seconds(file):
    run = runs(file)[0]
    for statistic, value in (("p90", 126.5e-3), ("p95", 129.5e-3), ("p99", 133.3e-3)):
        assert figure(run, "ttft", statistic) == pytest.approx(value)
    assert figure(run, "ttft", "min") == pytest.approx(65.3e-3)
    assert figure(run, "ttft", "max") == pytest.approx(134.0e-3)


@pytest.mark.parametrize("file", GOOD)
def test_a_file_is_recognised_by_exactly_one_importer_whatever_its_name(file):
    document = Document(raw(file), "renamed.txt")
    shape = "bytes" if document.is_sqlite else "json" if document.is_json else "text"
    claims = [i.name for _, i in IMPORTERS if i.shape == shape and i.claims(document)]
    assert claims == [recognise(raw(file), "renamed.txt").name]


@pytest.mark.parametrize("file", GOOD)
def test_a_run_names_its_format_and_the_hash_and_size_of_its_file(file):
    data = raw(file)
    for run in read(data, file):
        assert run.source.format.startswith(recognise(data, file).name)
        assert run.source.sha256 == hashlib.sha256(data).hexdigest()
        assert run.source.size_bytes == len(data)


def test_two_latency_runs_give_the_decode_step():
    """(0.950 s − 0.166 s) / (128 − 16) = 0.784 / 112 = 7.0 ms."""
    (longer,), (shorter,) = runs("vllm_bench_latency.json"), runs("vllm_bench_latency_out16.json")
    assert step_between(longer, shorter, 128 - 16).value == pytest.approx(7.0e-3)
    assert longer.samples == {"latency": (0.948, 0.950, 0.952)}
    assert longer.context == {"backend.name": "vllm"}


def test_vllm_throughput_counts_prompt_tokens_and_says_so():
    """576,000 tokens in 19.2 s."""
    (run,) = runs("vllm_bench_throughput.json")
    assert figure(run, "total_throughput") == pytest.approx(576000 / 19.2)
    assert names(run) == {"total_throughput"}
    assert run.context == {}
    assert "prompt" in run.notes[0]


def test_appended_results_are_as_many_runs():
    first, second = runs("vllm_bench_serve_append.jsonl")
    assert figure(first, "tpot") == pytest.approx(7.74e-3)
    assert figure(second, "tpot") == pytest.approx(7.80e-3)


def test_metadata_of_vllm_serve_is_context_only_when_given():
    (plain,) = runs("vllm_bench_serve.json")
    tagged, _ = runs("vllm_bench_serve_append.jsonl")
    assert plain.context == {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "backend.name": "vllm",
        "workload.concurrency": 8,
        "workload.input": 1024,
        "workload.output": 128,
    }
    assert dict(tagged.context) == {**plain.context, "gpu": "H100", "parallel.tensor": 1}


def test_speculative_tokens_times_acceptance_are_a_step():
    """3.225 ms a token × 2.4 tokens = 7.74 ms a step, which is also the gap between chunks."""
    (run,) = runs("vllm_bench_serve_spec.json")
    accepted = run.context["speculation.acceptance_length"]
    assert figure(run, "tpot") == pytest.approx(3.225e-3)
    assert figure(run, "tpot") * accepted == pytest.approx(7.74e-3)
    assert figure(run, "itl") == pytest.approx(7.74e-3)
    assert any("speculative" in note for note in run.notes)


def test_saved_details_become_samples_without_the_failed_request():
    """7 + 8 + 9 = 24 ms over three gaps are 8 ms a token; 50 + 24 = 74 ms end to end."""
    (run,) = runs("vllm_bench_serve_detailed.json")
    assert run.samples["ttft"] == (0.05, 0.06, 0.07)
    assert run.samples["tpot"] == pytest.approx((8e-3, 7e-3, 7e-3))
    assert run.samples["latency"] == pytest.approx((74e-3, 81e-3, 91e-3))
    assert len(run.samples["itl"]) == 9
    assert run.notes == ("requests failed: 1; figures are of the 3 that succeeded",)


def test_one_output_token_a_request_has_no_time_between_tokens():
    file = changed(
        "vllm_bench_serve.json", total_output_tokens=64, mean_tpot_ms=0.0, median_tpot_ms=0.0,
        p99_tpot_ms=0.0, mean_itl_ms=0.0, median_itl_ms=0.0, p99_itl_ms=0.0,
    )  # fmt: skip
    (run,) = read(file, "run.json")
    assert names(run) == {"ttft", "latency", "output_throughput", "total_throughput"}
    assert any("one token" in note for note in run.notes)


def test_sglang_serving_takes_what_the_server_says_and_an_infinite_request_rate():
    first, second = runs("sglang_bench_serving.jsonl")
    assert first.context == {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "backend.name": "sglang",
        "backend.version": "0.5.5",
        "parallel.tensor": 1,
        "precision.kv_cache": "fp8",
        "memory.kv_tokens": 441000,
        "workload.concurrency": 8,
        "workload.input": 1024,
        "workload.output": 128,
    }
    assert "workload.concurrency" not in second.context


def test_old_sglang_files_give_lengths_as_measured_not_as_asked_for():
    """50,800 prompt tokens of 100 requests are 508 each, half of the 1,024 of the flag."""
    (run,) = runs("sglang_bench_serving_2024.jsonl")
    assert run.context["workload.input"] == 508
    assert run.context["workload.output"] == 256  # 25,650 / 100 = 256.5, to even
    assert any("vary" in note for note in run.notes)
    assert figure(run, "ttft", "median") == pytest.approx(85.7e-3)
    assert figure(run, "total_throughput") == pytest.approx((50800 + 25650) / 50)
    assert "tpot" not in names(run)


def test_sglang_one_batch_gives_the_step_of_each_batch():
    """Batch 8: 139 ms + 127 × 7 ms = 1.028 s."""
    one, eight = runs("sglang_bench_one_batch.jsonl")
    assert figure(one, "step", "median") == pytest.approx(6.55e-3)
    assert figure(eight, "step", "median") == pytest.approx(7.0e-3)
    assert figure(eight, "tpot") == pytest.approx(7.0e-3)
    assert figure(eight, "latency") == pytest.approx(1.028)
    assert figure(eight, "total_throughput") == pytest.approx(8 * 1152 / 1.028)
    assert eight.context["workload.batch"] == 8


def test_the_output_rate_of_an_sglang_server_batch_counts_the_prefill_too():
    """16 × 128 = 2,048 tokens in 1.28 s are 1,600 tokens/s; the file says 2,048 / 0.98 s."""
    (run,) = runs("sglang_bench_one_batch_server.jsonl")
    assert run.source.format == "sglang_bench_one_batch_server"
    assert figure(run, "output_throughput") == pytest.approx(1600)
    assert figure(run, "total_throughput") == pytest.approx(14400)


def test_both_kinds_of_sglang_batch_may_lie_in_one_file():
    both = raw("sglang_bench_one_batch.jsonl") + raw("sglang_bench_one_batch_server.jsonl")
    assert [len(run.metrics) for run in read(both, "result.jsonl")] == [5, 5, 3]


def test_sglang_offline_gives_both_throughputs():
    (run,) = runs("sglang_bench_offline.jsonl")
    assert figure(run, "output_throughput") == pytest.approx(25600 / 9.6)
    assert figure(run, "total_throughput") == pytest.approx((204800 + 25600) / 9.6)
    assert run.context["workload.output"] == 128


def test_trtllm_names_gpu_precision_and_parallelism():
    (run,) = runs("trtllm_bench.json")
    assert run.context["gpu"] == "NVIDIA H100 80GB HBM3"
    assert run.context["precision.weights"] == "fp8"
    assert run.context["precision.kv_cache"] == "fp8"
    assert run.context["parallel.tensor"] == 2
    assert run.context["backend.version"] == "1.2.0"
    assert run.context["workload.concurrency"] == 8


def test_trtllm_without_streaming_says_why_there_is_no_tpot():
    (run,) = read(changed_whole("trtllm_bench.json", "streaming_metrics"), "report.json")
    assert names(run) == {"latency", "output_throughput", "total_throughput"}
    assert any("--streaming" in note for note in run.notes)


def changed_whole(file, key):
    values = json.loads(raw(file))
    del values[key]
    return json.dumps(values).encode()


def test_aiperf_records_become_samples_and_one_run():
    """Three of five requests count; 3 × 128 tokens from 0 s to 0.02 + 1 s."""
    (run,) = runs("aiperf_records.jsonl")
    assert run.samples["ttft"] == pytest.approx((90e-3, 100e-3, 110e-3))
    assert figure(run, "tpot", "median") == pytest.approx(7.74e-3)
    assert figure(run, "ttft", "p90") == pytest.approx(108e-3)  # rank 0.9 × 2 = 1.8: 100 + 0.8 × 10
    assert figure(run, "output_throughput") == pytest.approx(384 / 1.02)
    assert any(note.startswith("2 requests") for note in run.notes)


def test_gaps_of_aiperf_records_are_itl_and_may_be_nought():
    record = json.loads(raw("aiperf_records.jsonl").splitlines()[0])
    record["metrics"]["inter_chunk_latency"] = {"value": [0.0, 14.0, 7.0], "unit": "ms"}
    (run,) = read(json.dumps(record).encode(), "records.jsonl")
    assert run.samples["itl"] == pytest.approx((0, 14e-3, 7e-3))
    assert figure(run, "itl") == pytest.approx(7e-3)


def test_an_aiperf_table_spells_its_names_in_another_case():
    text = raw("genai_perf.csv").decode().replace("Time To First", "Time to First")
    (run,) = read(text.encode(), "aiperf.csv")
    assert figure(run, "ttft") == pytest.approx(97.4e-3)


def test_guidellm_gives_a_run_per_benchmark_from_successful_requests():
    eight, sixteen = runs("guidellm.json")
    assert [run.context["workload.concurrency"] for run in (eight, sixteen)] == [8, 16]
    assert figure(sixteen, "output_throughput") == pytest.approx(OUTPUT)
    assert any("requests failed: 3" in note for note in sixteen.notes)


def test_llmperf_gaps_are_converted_to_exclude_the_first_token():
    """Its own figure is 1,080.38 / 128 = 8.44 ms; (1,080.38 − 97.4) / 127 = 7.74 ms."""
    (run,) = runs("llmperf.json")
    assert [m.statistic for m in run.metrics if m.name == "tpot"] == ["mean"]
    assert figure(run, "tpot") == pytest.approx(7.74e-3)


def test_a_rate_of_one_request_is_not_taken_for_the_whole():
    """990 tokens in 22 s, and 9,600 in 28 s."""
    one, ten = runs("vllm_benchmark.json")
    assert figure(one, "output_throughput") == pytest.approx(45)
    assert figure(ten, "output_throughput") == pytest.approx(9600 / 28)
    assert ten.context == {"workload.concurrency": 10}
    assert any("requests failed: 4" in note for note in ten.notes)
