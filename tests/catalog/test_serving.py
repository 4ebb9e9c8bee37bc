"""How the shipped engines form steps, version by version, by hand from their own sources."""

import pytest

from planner.cost.engine import Engine, resolve
from planner.cost.scheduler import HostCosts, Scheduler, host_costs, scheduler
from planner.errors import SpecError
from planner.ops.types import Formats
from planner.spec.catalog import Catalog
from planner.spec.load import load_text

CATALOG = Catalog.standard()
BF16 = Formats("bf16", "bf16", "bf16", "bf16")
ENGINES = ("vllm", "sglang", "tensorrt-llm")
ASKED = {
    "vllm": ("0.6", "0.8", "0.10", "0.12", "0.15", "0.19", "0.26"),
    "sglang": ("0.3", "0.4", "0.5.3", "0.5.6", "0.5.9"),
    "tensorrt-llm": ("0.12", "1.0", "1.2"),
}
EVERY = [(name, version) for name in ENGINES for version in ASKED[name]]
SHORT, LONG = 8192, 131_072
POOL = 400_000


def engine(
    name: str,
    version: str,
    flags: str = "",
    *,
    gpu: str = "h100-sxm",
    parallel: str = "",
    drafts: str = "",
):
    text = f"""
{drafts}
model: m
gpu: {gpu}
parallel: {{{parallel}}}
backend: {{name: {name}, version: '{version}', flags: {{{flags}}}}}
step: {{decode: {{batch: 1, context: 8}}}}
"""
    spec, device = CATALOG.find("backend", name), CATALOG.find("gpu", gpu)
    return resolve(load_text(text, "d.yaml", "deployment"), spec, device, BF16, "decode")


def schedules(name: str, version: str, *, longest: int = SHORT, **given: str) -> Scheduler:
    return scheduler(engine(name, version, **given), longest, POOL)


def spends(name: str, version: str) -> HostCosts:
    return host_costs(engine(name, version))


@pytest.mark.parametrize(("name", "version"), EVERY)
def test_every_version_that_public_runs_name_is_described(name, version):
    found: Engine = engine(name, version)
    assert (found.version, found.notes) == (version, ())


@pytest.mark.parametrize(("name", "version"), EVERY)
def test_every_figure_says_where_it_was_read(name, version):
    """All twelve choices of the scheduler, less its sources, two more where prompts may wait for
    others, and all seven host times, one share more where some of the loop is serial.
    """
    said = dict(schedules(name, version).sources)
    assert len(said) == (14 if name == "tensorrt-llm" else 12)
    assert "catalogue" not in said.values()
    costs = dict(spends(name, version).sources)
    assert len(costs) == (8 if name == "tensorrt-llm" else 7)
    assert "catalogue" not in costs.values()


def test_engines_for_one_step_at_a_time_serve_no_requests():
    """Plain PyTorch has no scheduler."""
    for name in ("pytorch-eager", "pytorch-compiled"):
        assert CATALOG.find("backend", name).serving is None


def forms(found: Scheduler) -> tuple[str, bool, bool, int, int]:
    return found.order, found.mixed, found.chunked, found.tokens, found.sequences


@pytest.mark.parametrize(
    ("version", "longest", "flags", "expected"),
    [
        # 0.6.4 config.py:1118: max(max_model_len, 2048); arg_utils.py:123: 256 sequences
        ("0.6.4", 8192, "", ("prefill_first", False, False, 8192, 256)),
        ("0.6.4", 1024, "", ("prefill_first", False, False, 2048, 256)),
        # arg_utils.py:996: chunked beyond 32,768 tokens, with 512 a step (config.py:1114)
        ("0.6.4", 32_768, "", ("prefill_first", False, False, 32_768, 256)),
        ("0.6.4", 131_072, "", ("decode_first", True, True, 512, 256)),
        ("0.6.6", 131_072, "", ("decode_first", True, True, 2048, 256)),
        # max_model_len cuts the model's own length
        ("0.6.4", 131_072, "max_model_len: 4096", ("prefill_first", False, False, 4096, 256)),
        # both ways by hand
        ("0.6.4", 8192, "enable_chunked_prefill: true", ("decode_first", True, True, 512, 256)),
        (
            "0.6.4",
            131_072,
            "enable_chunked_prefill: false",
            ("prefill_first", False, False, 131_072, 256),
        ),
        # config.py:1110: several steps at once cut no prompt
        (
            "0.6.4",
            8192,
            "enable_chunked_prefill: true, num_scheduler_steps: 8",
            ("decode_first", True, True, 8192, 256),
        ),
        (
            "0.6.4",
            8192,
            "max_num_batched_tokens: 16384, max_num_seqs: 64",
            ("prefill_first", False, False, 16_384, 64),
        ),
    ],
)
def test_v0_of_vllm(version, longest, flags, expected):
    found = schedules("vllm", version, longest=longest, flags=flags)
    assert forms(found) == expected


@pytest.mark.parametrize(
    ("version", "gpu", "tokens", "sequences"),
    [
        # vllm@0.8.5 engine/arg_utils.py:1596: 70 GiB and more
        ("0.8", "h100-sxm", 8192, 1024),
        ("0.8", "a100-80gb-sxm", 8192, 1024),
        ("0.8", "rtx-4090", 2048, 256),
        # vllm@0.10.2 engine/arg_utils.py:1669: and no A100
        ("0.10", "h100-sxm", 8192, 1024),
        ("0.10", "a100-80gb-sxm", 2048, 256),
        ("0.12", "b200-sxm", 8192, 1024),
        ("0.15", "mi300x", 8192, 1024),
        ("0.19", "l40s", 2048, 256),
        ("0.26", "h200-sxm", 8192, 1024),
    ],
)
def test_v1_of_vllm_fills_a_step_with_running_sequences_first(version, gpu, tokens, sequences):
    found = schedules("vllm", version, gpu=gpu)
    assert forms(found) == ("decode_first", True, True, tokens, sequences)
    assert (found.counts, found.admission, found.preemption) == ("all", "prompt", "recompute")
    assert found.prefix_cache


def test_v1_takes_no_more_sequences_than_tokens():
    """arg_utils.py of 0.10.2:1742: min(1024, 512)."""
    found = schedules("vllm", "0.10", flags="max_num_batched_tokens: 512")
    assert (found.tokens, found.sequences) == (512, 512)


def test_v1_without_chunks_holds_the_longest_sequence():
    """vllm@0.12.0 engine/arg_utils.py:1994: max(max_model_len, 8192)."""
    found = schedules("vllm", "0.12", longest=LONG, flags="enable_chunked_prefill: false")
    assert (found.mixed, found.tokens, found.longest_prompt) == (True, LONG, LONG)


def test_early_v1_cuts_prompts_whatever_the_flag_says():
    """vllm@0.8.5 engine/arg_utils.py:1569, vllm@0.10.2 engine/arg_utils.py:1623."""
    for version in ("0.8", "0.10"):
        found = schedules("vllm", version, longest=LONG, flags="enable_chunked_prefill: false")
        assert (found.chunked, found.tokens) == (True, 8192)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.6", False),
        ("0.8", False),
        ("0.10", False),
        ("0.12", False),
        ("0.13", False),
        ("0.14.1", True),
        ("0.15", True),
        ("0.19", True),
        ("0.26", True),
    ],
)
def test_vllm_schedules_asynchronously_from_0_14_on(version, expected):
    """False in 0.13.0, on by itself in 0.14.1 (config/vllm.py)."""
    assert schedules("vllm", version).asynchronous == expected


def test_asynchronous_scheduling_is_a_flag_of_vllm_from_0_10_on():
    assert schedules("vllm", "0.10", flags="async_scheduling: true").asynchronous
    assert not schedules("vllm", "0.26", flags="async_scheduling: false").asynchronous


def test_a_pipeline_keeps_several_batches_of_v1_under_way():
    assert schedules("vllm", "0.10", parallel="pipeline: 2").asynchronous
    assert not schedules("vllm", "0.6", parallel="pipeline: 2").asynchronous


def test_v0_may_run_several_steps_at_once_and_swap():
    found = schedules("vllm", "0.6", flags="num_scheduler_steps: 8, preemption_mode: swap")
    assert (found.decode_steps, found.preemption) == (8, "swap")
    assert schedules("vllm", "0.6").decode_steps == schedules("vllm", "0.26").decode_steps == 1


def test_v0_caches_prefixes_on_request_alone():
    assert not schedules("vllm", "0.6").prefix_cache
    assert schedules("vllm", "0.6", flags="enable_prefix_caching: true").prefix_cache


@pytest.mark.parametrize(
    ("name", "version", "flag", "needs"),
    [
        ("vllm", "0.6", "async_scheduling: true", "needs version >= 0.10, have 0.6"),
        ("vllm", "0.8.5", "num_scheduler_steps: 8", "needs version < 0.8, have 0.8.5"),
        ("vllm", "0.26", "preemption_mode: swap", "needs version < 0.8, have 0.26"),
        ("vllm", "0.8", "cudagraph_mode: FULL", "needs version >= 0.10, have 0.8"),
        (
            "sglang",
            "0.5.3",
            "enable_piecewise_cuda_graph: true",
            "needs version >= 0.5.4, have 0.5.3",
        ),
        ("tensorrt-llm", "0.12", "cuda_graph: true", "needs version >= 1.0, have 0.12"),
        (
            "tensorrt-llm",
            "0.12",
            "disable_overlap_scheduler: false",
            "needs version >= 1.0, have 0.12",
        ),
    ],
)
def test_a_flag_of_another_version_is_refused_with_what_it_needs(name, version, flag, needs):
    with pytest.raises(SpecError) as caught:
        engine(name, version, flag)
    [fault] = caught.value.faults
    assert fault.hint == needs


def test_a_policy_that_is_not_described_is_refused():
    with pytest.raises(SpecError, match="expected one of GUARANTEED_NO_EVICT, MAX_UTILIZATION"):
        engine("tensorrt-llm", "1.0", "capacity_scheduler_policy: STATIC_BATCH")


@pytest.mark.parametrize(
    ("version", "gpu", "tokens"),
    [
        # sglang@0.4.6.post5 srt/server_args.py:272
        ("0.4", "rtx-4090", 2048),
        ("0.4", "h100-sxm", 8192),
        ("0.4", "b200-sxm", 8192),
        # sglang@0.5.3:571-621, @0.5.6:730-800, @0.5.9:940-990
        ("0.5.3", "rtx-4090", 2048),
        ("0.5.3", "l40s", 4096),
        ("0.5.6", "h100-sxm", 8192),
        ("0.5.9", "h200-sxm", 8192),
        ("0.5.9", "b200-sxm", 16_384),
    ],
)
def test_sglang_prefills_first_in_steps_of_their_own(version, gpu, tokens):
    found = schedules("sglang", version, gpu=gpu)
    assert (found.order, found.mixed, found.chunked) == ("prefill_first", False, True)
    assert (found.tokens, found.counts) == (tokens, "prompts")
    assert (found.admission, found.preemption) == ("estimate", "recompute")
    assert found.prefix_cache
    assert found.asynchronous


@pytest.mark.parametrize(
    ("longest", "pool", "flags", "expected"),
    [
        # min(max(pool × 512 / longest, 2048), 4096)
        (131_072, 400_000, "", 2048),  # 1,562
        (65_536, 400_000, "", 3125),
        (8192, 400_000, "", 4096),  # 25,000
        (8192, 400_000, "max_running_requests: 64", 64),
        (131_072, 400_000, "max_running_requests: 3000", 2048),
    ],
)
def test_sglang_runs_as_many_sequences_as_its_pool_lets_it(longest, pool, flags, expected):
    found = scheduler(engine("sglang", "0.5.6", flags), longest, pool)
    assert found.sequences == expected


def test_mixed_chunks_of_sglang_count_running_sequences_too():
    found = schedules("sglang", "0.5.9", flags="enable_mixed_chunk: true")
    assert (found.mixed, found.counts) == (True, "all")


@pytest.mark.parametrize(
    ("version", "gpu", "tokens", "ahead"),
    [
        # sglang@0.3.0 srt/server_args.py:54; @0.3.5.post2:128,173; @0.3.6.post3:126
        ("0.3", "rtx-4090", 8192, False),
        ("0.3.4", "h100-sxm", 8192, False),
        ("0.3.6", "h100-sxm", 8192, True),
    ],
)
def test_sglang_overlaps_by_itself_from_0_3_6_on(version, gpu, tokens, ahead):
    """Nothing of a loop is hidden before, so that nothing is left over between steps either."""
    found = schedules("sglang", version, gpu=gpu)
    assert (found.order, found.mixed, found.chunked) == ("prefill_first", False, True)
    assert (found.tokens, found.counts) == (tokens, "prompts")
    assert (found.asynchronous, spends("sglang", version).exposed_s > 0) == (ahead, ahead)


def test_what_turns_off_the_overlap_of_sglang():
    assert not schedules("sglang", "0.4", flags="disable_overlap_schedule: true").asynchronous
    assert not schedules("sglang", "0.5.9", parallel="pipeline: 2").asynchronous


@pytest.mark.parametrize(
    ("flags", "asynchronous", "sequences"),
    [
        ("", False, 48),
        ("enable_spec_v2: true", True, 48),
        ("enable_spec_v2: true, disable_overlap_schedule: true", False, 48),
        ("max_running_requests: 512", False, 512),
    ],
)
def test_drafts_of_sglang_end_the_overlap_and_run_few_sequences(flags, asynchronous, sequences):
    """Its log: the overlap scheduler is off without spec v2, and 48 requests run unless told."""
    drafts = "speculation: {tokens: 3, acceptance: 0.8}"
    found = schedules("sglang", "0.5.9", flags=flags, drafts=drafts)
    assert (found.asynchronous, found.sequences) == (asynchronous, sequences)


def test_the_prompt_limit_of_sglang_holds_for_larger_chunks_too():
    """min(32,768, 16,384)."""
    found = schedules("sglang", "0.5.6", flags="chunked_prefill_size: 32768")
    assert found.tokens == 16_384


def test_other_switches_of_sglang():
    found = schedules("sglang", "0.5.3", flags="disable_radix_cache: true")
    assert not found.prefix_cache
    found = schedules("sglang", "0.5.3", flags="num_continuous_decode_steps: 4")
    assert found.decode_steps == 4


@pytest.mark.parametrize(
    ("version", "sequences", "prefix_cache", "asynchronous"),
    [
        # release notes of 0.11: max_batch_size 256, max_num_tokens 8192
        ("0.12", 256, False, False),
        ("1.0", 2048, True, True),
        ("1.2", 2048, True, True),
    ],
)
def test_tensorrt_llm_mixes_whole_prompts_in_and_evicts_nobody(
    version, sequences, prefix_cache, asynchronous
):
    found = schedules("tensorrt-llm", version)
    assert forms(found) == ("decode_first", True, False, 8192, sequences)
    assert (found.admission, found.preemption) == ("whole", "none")
    assert (found.prefix_cache, found.asynchronous) == (prefix_cache, asynchronous)
    assert found.longest_prompt == 8192


def test_tensorrt_llm_may_pause_and_cut():
    found = schedules(
        "tensorrt-llm",
        "1.2",
        flags="capacity_scheduler_policy: MAX_UTILIZATION, enable_chunked_prefill: true",
    )
    assert (found.admission, found.preemption) == ("prompt", "recompute")
    assert (found.chunked, found.longest_prompt) == (True, None)


def test_the_overlap_of_tensorrt_llm_stays_with_a_pipeline():
    off = "disable_overlap_scheduler: true"
    assert not schedules("tensorrt-llm", "1.0", flags=off).asynchronous
    assert schedules("tensorrt-llm", "1.0", flags=off, parallel="pipeline: 2").asynchronous


@pytest.mark.parametrize(
    ("name", "version", "running", "least_s", "most_s"),
    [
        # rfc-6854: about 4 ms between decode steps of a small batch; 5 to 13 ms in its text
        ("vllm", "0.6", 64, 3e-3, 5e-3),
        ("vllm", "0.6", 256, 5e-3, 13e-3),
        # issue-10634: 5 to 6 ms at 256 sequences
        ("vllm", "0.8", 256, 5e-3, 6e-3),
        ("vllm", "0.12", 256, 5e-3, 6e-3),
        # pull-17866: 2.73 ms bound a step of one sequence
        ("vllm", "0.8", 1, 0.2e-3, 2.73e-3),
        # simllm-204 and pull-46112: less than before, more than the 1.1 us of one loop
        ("vllm", "0.26", 256, 256 * 1.1e-6, 5e-3),
        # pull-1738: 6.8 ms at 740 sequences
        ("sglang", "0.3.4", 740, 6.3e-3, 7.3e-3),
        ("sglang", "0.4", 740, 6.3e-3, 7.3e-3),
        # pull-10273: 45.11 ms at 1,536 sequences, of which the C++ scheduler takes 4.4 %
        ("tensorrt-llm", "1.2", 1536, 44e-3, 46e-3),
        ("tensorrt-llm", "0.12", 1536, 45.11e-3 * 0.044, 4e-3),
    ],
)
def test_host_time_of_a_step_is_what_its_source_says(name, version, running, least_s, most_s):
    assert least_s <= spends(name, version).loop_s(running) <= most_s


def test_what_overlap_leaves_between_steps():
    """150 to 170 us in vLLM, 0.1 ms in SGLang, 0.58 ms in TensorRT-LLM; nothing is hidden in V0."""
    assert 150e-6 <= spends("vllm", "0.26").exposed_s <= 170e-6
    assert spends("sglang", "0.5.9").exposed_s == pytest.approx(0.1e-3)
    # 0.58 ms at 64 sequences
    trtllm = spends("tensorrt-llm", "1.2")
    assert trtllm.exposed_s == 0
    assert trtllm.serial_share * trtllm.loop_s(64) == pytest.approx(0.58e-3, rel=0.01)
    assert spends("vllm", "0.6").exposed_s == 0


def test_the_front_end_bounds_the_first_token():
    """15 ms and 2 us a token; Triton's preprocessing took 254.4 ms / 232 requests = 1.1 ms."""
    assert spends("vllm", "0.19").arrival_s(1000) == pytest.approx(17e-3)
    assert spends("tensorrt-llm", "0.12").request_s == pytest.approx(254.4e-3 / 232, rel=0.01)
