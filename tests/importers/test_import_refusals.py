"""What cannot become a run is refused, with the file, the place and a way out."""

import gzip
import json

import pytest
from importer_files import BAD, GOOD, changed, database, raw

from planner.errors import PlannerError, Where
from planner.importers import ImportRefused, from_value, read, step_between
from planner.importers.document import MOST_BYTES, unpacked


def refusal(data: bytes, file: str = "run.json") -> ImportRefused:
    with pytest.raises(ImportRefused) as caught:
        read(data, file)
    return caught.value


@pytest.mark.parametrize("file", BAD)
def test_every_bad_file_is_refused_with_its_name_and_a_hint(file):
    error = refusal(raw(file), file)
    assert isinstance(error, PlannerError)
    assert error.where.file == file
    assert str(error).startswith(file)
    assert error.hint


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("bad_all_failed.json", "completed is 0"),
        ("bad_placeholder_zero.json", "FAILED"),
        ("bad_negative_tpot.jsonl", "median_tpot_ms is -0 s"),
        ("bad_attention_benchmark.csv", "one kernel"),
    ],
)
def test_a_bad_file_is_refused_for_its_own_reason(file, reason):
    assert reason in refusal(raw(file), file).reason


@pytest.mark.parametrize("name", [name for name in GOOD if name.endswith((".json", ".jsonl"))])
def test_json_that_ends_early_is_refused_at_its_end(name):
    whole = raw(name).rstrip()
    error = refusal(whole[:-1], name)
    assert "ends too early" in error.reason
    assert error.where.line == whole.count(b"\n") + 1


def test_a_bad_line_of_an_appended_file_is_named():
    lines = raw("vllm_bench_serve.json") + changed("vllm_bench_serve.json", completed=0)
    assert refusal(lines).where.line == 2


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), 10**400, True, "7", [7]]
)
def test_what_is_no_finite_number_is_refused_where_a_number_is_due(value):
    error = refusal(changed("vllm_bench_serve.json", mean_tpot_ms=value))
    assert error.reason.startswith("mean_tpot_ms is ")


@pytest.mark.parametrize("value", [0, -0.0, -1.5, 1e300])
def test_times_of_nought_below_it_and_beyond_all_measure_are_refused(value):
    error = refusal(changed("vllm_bench_serve.json", mean_ttft_ms=value))
    assert error.reason.startswith("mean_ttft_ms is ")
    assert error.hint


def test_percentiles_out_of_order_are_refused():
    error = refusal(changed("vllm_bench_serve.json", p99_ttft_ms=1.0))
    assert "p99_ttft_ms is below the median" in error.reason


def test_an_unknown_unit_is_refused_with_the_known_ones():
    error = refusal(changed_metric("genai_perf.json", unit="fortnights"))
    assert "'fortnights'" in error.reason
    assert "ms" in (error.hint or "")


def changed_metric(file, **changes):
    values = json.loads(raw(file))
    values["time_to_first_token"].update(changes)
    return json.dumps(values).encode()


def with_keys(file, **changes):
    return json.dumps({**json.loads(raw(file)), **changes}).encode()


@pytest.mark.parametrize("changes", [{"was_cancelled": True}, {"is_complete": False}])
def test_a_cancelled_aiperf_run_is_refused(changes):
    assert "run the benchmark to its end" in str(refusal(with_keys("aiperf.json", **changes)))


def test_tokens_a_second_that_contradict_the_total_are_refused():
    error = refusal(with_keys("vllm_bench_throughput.json", tokens_per_second=100.0))
    assert "tokens_per_second" in error.reason


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("sglang_bench_offline.jsonl", {"successful_requests": 0}),
        ("llmperf.json", {"results_num_completed_requests": 0}),
        ("genai_perf.json", {"request_count": {"unit": "count", "avg": 0.0}}),
        ("aiperf.json", {"request_count": {"unit": "requests", "avg": 0.0}}),
        ("trtllm_bench.json", {"request_info": {"num_requests": 0}}),
    ],
)
def test_a_run_of_which_every_request_failed_is_refused(file, changes):
    assert "every request failed" in refusal(with_keys(file, **changes)).reason


def test_records_that_all_failed_are_refused():
    last_two = b"\n".join(raw("aiperf_records.jsonl").splitlines()[3:])
    assert "no request succeeded" in refusal(last_two).reason


@pytest.mark.parametrize("data", [b"hello", b"{}", b"[]", b'{"a": 1}', b"a,b\n1,2\n", b"\x00" * 9])
def test_what_is_no_measurement_is_refused_with_the_known_formats(data):
    error = refusal(data)
    assert "no known measurement format" in error.reason
    assert "vllm bench serve" in (error.hint or "")


def test_an_empty_file_is_refused():
    assert refusal(b"").reason == "the file is empty"


def test_bytes_that_are_no_text_are_refused_at_their_line():
    error = refusal(b"first line\nsecond \xff\xfa line\n")
    assert error.where.line == 2


def test_a_file_redirected_as_utf_16_is_read():
    text = raw("vllm_bench_serve.json").decode()
    (run,) = read(text.encode("utf-16"), "run.json")
    assert run.metrics == read(raw("vllm_bench_serve.json"), "run.json")[0].metrics


def test_a_file_over_the_limit_is_refused_unread():
    assert "larger than 512 MiB" in refusal(bytes(MOST_BYTES + 1)).reason


def test_a_packed_file_is_unpacked_no_further_than_the_limit():
    packed = gzip.compress(bytes(5_000_000), mtime=0)
    assert len(unpacked(packed, Where("run.gz"), 5_000_000)) == 5_000_000
    with pytest.raises(ImportRefused, match="unpacks to more than 4999999 bytes"):
        unpacked(packed, Where("run.gz"), 4_999_999)


@pytest.mark.parametrize("keep", [5, 100, -9])
def test_a_packed_file_cut_off_is_refused(keep):
    packed = gzip.compress(raw("torch_trace.json"), mtime=0)
    assert "gzip" in refusal(packed[:keep]).reason


def test_json_nested_beyond_reading_is_refused():
    assert "nested too deeply" in refusal(b'{"a":' * 200_000).reason


def test_a_trace_without_gpu_kernels_is_refused():
    error = refusal(
        b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "add", "ts": 1, "dur": 2}]}'
    )
    assert "no GPU kernel" in error.reason


@pytest.mark.parametrize("dur", [-1.0, float("nan"), "3", None])
def test_a_kernel_time_that_cannot_be_is_refused(dur):
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.0, "dur": dur}
    error = refusal(json.dumps({"traceEvents": [event]}).encode())
    assert "traceEvents[0].dur" in error.reason


def test_a_kernel_that_ends_before_it_starts_is_refused():
    table = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, shortName INT);"
    rows = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 10, 7);"
    assert "before its start" in refusal(database(table + rows)).reason


def test_a_database_without_kernels_is_refused_with_the_flag_to_use():
    error = refusal(database("CREATE TABLE NVTX_EVENTS (start INT);"))
    assert "--cuda-graph-trace=node" in (error.hint or "")


def test_a_damaged_database_is_refused():
    assert "damaged" in refusal(raw("nsys_export.sqlite")[:5000]).reason


def test_an_nsys_table_cut_off_is_refused_at_its_line():
    lines = raw("nsys_kernel_summary.csv").splitlines()
    error = refusal(b"\n".join([*lines[:2], lines[2][:12]]))
    assert (error.where.line, "cells" in error.reason) == (3, True)


def test_figures_typed_by_hand_are_si():
    run = from_value("tpot", "12.3ms")
    assert [(m.name, m.statistic, m.value) for m in run.metrics] == [
        ("tpot", "mean", pytest.approx(12.3e-3))
    ]
    assert from_value("ttft.p99", "0.5 s").metrics[0].statistic == "p99"
    assert from_value("output_throughput", "1.5 ktok/s").metrics[0].value == pytest.approx(1500)


@pytest.mark.parametrize(
    ("metric", "text", "said"),
    [
        ("tpot", "12.3", "needs its unit"),
        ("tpot", "12,3ms", "unknown unit"),
        ("tpot", "0 ms", "nothing measured"),
        ("tpot", "-3 ms", "must not be negative"),
        ("tpot", "3 GB", "unit of number of bytes"),
        ("output_throughput", "3 ms", "no token rate"),
        ("tpott", "3 ms", "did you mean 'tpot'?"),
        ("tpot.p98", "3 ms", "unknown statistic 'p98'"),
    ],
)
def test_a_typed_figure_that_cannot_be_is_refused(metric, text, said):
    with pytest.raises(ImportRefused) as caught:
        from_value(metric, text)
    assert said in str(caught.value)


def test_latencies_exchanged_give_no_step():
    (longer,) = read(raw("vllm_bench_latency.json"), "a.json")
    (shorter,) = read(raw("vllm_bench_latency_out16.json"), "b.json")
    with pytest.raises(ImportRefused, match="exchanged"):
        step_between(shorter, longer, 112)
