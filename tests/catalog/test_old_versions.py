"""What engines of 2024 and 2025 ran, beside what runs today: kernels, graphs, sizes, launches."""

from pathlib import Path

import pytest

from planner.capture.decide import fixed_costs
from planner.capture.sizes import expand
from planner.cost.engine import Engine
from planner.errors import PlannerError
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.rows import kernel_rows
from planner.plan.solve import SolvedStep, solve_step
from planner.resources import folder
from planner.spec.catalog import Catalog
from planner.spec.conditions import first
from planner.spec.load import load_text
from planner.spec.question import Question, ask

CATALOG = Catalog((Path(folder("catalog")),))
DECODE = "decode: {batch: 16, context: 1024}"
PREFILL = "prefill: {batch: 1, tokens: 512}"
LLAMA = "llama-3.1-8b-instruct"


def question(name: str, version: str, step: str, gpu: str, more: str) -> Question:
    text = f"""
model: {LLAMA}
gpu: {gpu}
backend: {{name: {name}, version: '{version}'}}
step: {{{step}}}
{more}
"""
    return ask(load_text(text, "deploy.yaml", "deployment"), CATALOG)


def engine(name: str, version: str, step: str = DECODE, gpu: str = "h100-sxm") -> Engine:
    return prepare(question(name, version, step, gpu, "")).engine(step.partition(":")[0])


def solved(
    name: str, version: str, step: str = DECODE, gpu: str = "h100-sxm", more: str = ""
) -> SolvedStep:
    asked = question(name, version, step, gpu, more)
    return solve_step(prepare(asked), step_load(asked.deployment))


def layer(found: SolvedStep) -> list[str]:
    """The kernels of one layer, the seam to the next included."""
    rows = [row for row in kernel_rows(found) if row.block == "layer"]
    inner = max(row.repeat for row in rows)
    return [row.name for row in rows if row.repeat >= inner - 1]


def captured(name: str, version: str, step: str = DECODE, gpu: str = "h100-sxm") -> tuple[int, ...]:
    here = engine(name, version, step, gpu)
    rule = first(here.spec.capture.sizes, here.facts)
    assert rule is not None
    return expand(rule, here.whole_flags)


@pytest.mark.parametrize(
    ("name", "version", "step", "mode"),
    [
        # V0 captures decode as one graph, and nothing else
        ("vllm", "0.6", DECODE, "full"),
        ("vllm", "0.6", PREFILL, "none"),
        # V1 cuts graphs at attention until 0.10
        ("vllm", "0.8", DECODE, "piecewise"),
        ("vllm", "0.8", PREFILL, "piecewise"),
        ("vllm", "0.10", DECODE, "piecewise"),
        ("vllm", "0.12", DECODE, "full"),
        ("vllm", "0.15", PREFILL, "piecewise"),
        ("sglang", "0.3", DECODE, "full"),
        ("sglang", "0.3", PREFILL, "none"),
        ("sglang", "0.4", DECODE, "full"),
        ("sglang", "0.5.3", PREFILL, "none"),
        ("sglang", "0.5.9", DECODE, "full"),
        # engines built by trtllm-build run without graphs
        ("tensorrt-llm", "0.12", DECODE, "none"),
        ("tensorrt-llm", "1.0", DECODE, "full"),
    ],
)
def test_which_steps_each_version_captures(name, version, step, mode):
    assert solved(name, version, step).chosen.mode == mode


def test_v0_runs_hand_written_kernels_where_v1_compiles():
    """Ten kernels a layer both ways; none is Inductor's before 0.8."""
    old, new = (layer(solved("vllm", version)) for version in ("0.6", "0.8"))
    assert len(old) == len(new) == 10
    assert not any("Inductor" in name or "inductor" in name for name in old)
    assert any("inductor" in name.lower() for name in new)


@pytest.mark.parametrize(
    ("version", "gpu", "rule"),
    [
        ("0.6", "a100-80gb-sxm", "flash-attention-2"),
        ("0.6", "h100-sxm", "flash-attention-2-v0"),
        ("0.6", "t4", "xformers-attention"),
        ("0.8", "h100-sxm", "flash-attention-3"),
        ("0.8", "b200-sxm", "flash-attention-2-blackwell"),
        ("0.10", "b200-sxm", "flashinfer-generated-attention"),
        ("0.12", "h100-sxm", "flash-attention-3"),
        ("0.26", "l40s", "flash-attention-2"),
    ],
)
def test_who_computes_attention_in_each_vllm(version, gpu, rule):
    """FlashAttention 3 came with V1 and is Hopper's (fa_utils.py of 0.8.5)."""
    assert rule in layer(solved("vllm", version, gpu=gpu, more="precision: {weights: fp16}"))


def test_generated_kernels_became_sglang_s_default_on_blackwell():
    """server_args.py of 0.5.9; FlashInfer's own in 0.5.6."""
    assert "flashinfer-attention" in layer(solved("sglang", "0.5.6", gpu="b200-sxm"))
    assert "trtllm-attention" in layer(solved("sglang", "0.5.9", gpu="b200-sxm"))


def test_v0_captures_35_sizes_up_to_256():
    """1, 2, 4 and 8, 16 … 256: 3 + 32 (worker/model_runner.py of 0.6.4)."""
    sizes = captured("vllm", "0.6")
    assert len(sizes) == 35
    assert (sizes[:5], sizes[-1]) == ((1, 2, 4, 8, 16), 256)


def test_vllm_0_8_captures_67_sizes_and_0_12_captures_51():
    """1, 2, 4 and 8 … 512 by 8: 3 + 64; 1, 2, 4, 8 … 248 by 8, 256 … 512 by 16: 3 + 31 + 17."""
    assert len(captured("vllm", "0.8")) == 67
    assert len(captured("vllm", "0.12")) == 51


def test_sglang_0_5_3_captures_less_on_a_4090():
    """16 sequences (server_args.py of 0.5.3:585) against 24 in 0.5.6."""
    assert captured("sglang", "0.5.3", gpu="rtx-4090")[-1] == 16
    assert captured("sglang", "0.5.6", gpu="rtx-4090")[-1] == 24


def test_pieces_of_sglang_0_5_9_go_up_to_its_chunk():
    """4 … 32 by 4, 48 … 256 by 16, 288 … 512 by 32, 576 … 1024 by 64, 1280 … 4096 by 256 and
    4608 … 8192 by 512: 8 + 14 + 8 + 8 + 12 + 8 = 58.
    """
    sizes = captured("sglang", "0.5.9", PREFILL)
    assert len(sizes) == 58
    assert sizes[-1] == 8192


@pytest.mark.parametrize(
    ("name", "version", "launch_us"),
    [
        ("vllm", "0.6", 20),
        ("vllm", "0.8", 20),
        ("tensorrt-llm", "0.12", 4),
        ("sglang", "0.3", 18),
        ("sglang", "0.4", 25),
    ],
)
def test_a_launch_costs_what_issues_it(name, version, launch_us):
    """PyTorch op by op 20 us, and vLLM's compiled code too, as vLLM's pull request 10058 has it:
    a step of Llama-3.1-8B in 9.84 ms, 1.7 ms before it, (9.84 - 1.7) / 327 = 25 us a kernel, and
    OPT-125M 14 us. SGLang 0.3's Llama-3-8B: 8.23 and 9.28 ms, less 1 ms of the loop, for 422 and
    454 kernels, 17 and 18 us; later 29 us on another host, and 25 between. TensorRT's C++ 4 us."""
    found = fixed_costs(engine(name, version))
    assert found.launch_s == pytest.approx(launch_us * 1e-6)


@pytest.mark.parametrize(
    ("name", "version", "weights"),
    [
        ("vllm", "0.6", "nvfp4"),
        ("vllm", "0.8", "mxfp4"),
        ("tensorrt-llm", "0.12", "nvfp4"),
        ("sglang", "0.3", "fp8_block"),
        ("sglang", "0.3.6", "nvfp4"),
    ],
)
def test_formats_that_came_later_are_refused(name, version, weights):
    precision = f"precision: {{weights: {weights}}}"
    with pytest.raises(PlannerError, match="came"):
        solved(name, version, gpu="b200-sxm", more=precision)


def test_blocks_of_the_kv_cache_of_tensorrt_llm_were_larger():
    """tokens_per_block 64 until the PyTorch backend took 32."""
    sizes = {
        v: first(engine("tensorrt-llm", v).spec.memory.kv_blocks, {"version": v})
        for v in ("0.12", "1.0")
    }
    assert sizes["0.12"] is not None
    assert (sizes["0.12"].value, sizes["1.0"]) == (64, None)
