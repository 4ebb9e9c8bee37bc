"""SGLang of September to November 2024, by hand from the sources of 0.3.0 to 0.3.6 and vLLM 0.5.5."""

from pathlib import Path

import pytest

from planner.capture.decide import fixed_costs
from planner.capture.sizes import expand
from planner.cost.engine import Engine
from planner.errors import SpecError
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.rows import kernel_rows
from planner.plan.solve import solve_step
from planner.plan.types import KernelRow
from planner.resources import folder
from planner.spec.catalog import Catalog
from planner.spec.conditions import first
from planner.spec.load import load_text
from planner.spec.question import Question, ask

CATALOG = Catalog((Path(folder("catalog")),))
LLAMA, LITE = "llama-3-8b-instruct", "deepseek-v2-lite"


def question(version: str, model: str = LLAMA, flags: str = "", **more: str) -> Question:
    gpu, tensor = more.get("gpu", "h100-sxm"), more.get("tensor", "1")
    text = f"""
model: {model}
gpu: {gpu}
parallel: {{tensor: {tensor}}}
backend: {{name: sglang, version: "{version}", flags: {{{flags}}}}}
step: {{decode: {{batch: 1, context: 132}}}}
"""
    return ask(load_text(text, "deploy.yaml", "deployment"), CATALOG)


def engine(version: str, flags: str = "", **more: str) -> Engine:
    return prepare(question(version, flags=flags, **more)).engine("decode")


def layer(version: str, model: str, flags: str = "") -> list[KernelRow]:
    """The kernels of one layer, the seam to the next included."""
    asked = question(version, model, flags)
    found = solve_step(prepare(asked), step_load(asked.deployment))
    rows = [row for row in kernel_rows(found) if row.block == "layer"]
    inner = max(row.repeat for row in rows)
    return [row for row in rows if row.repeat >= inner - 1]


def launches(rows: list[KernelRow]) -> dict[str, int]:
    return {row.nodes[0]: row.launches for row in rows}


def test_a_layer_of_llama_launches_13_kernels():
    """Two add and norm, Q K V, rope, two writes behind two widened indices, attention, output,
    gate and up, activation, down: 2 + 1 + 1 + 4 + 1 + 1 + 1 + 1 + 1; 11 in 0.4.
    """
    counts = launches(layer("0.3", LLAMA))
    assert counts["kv_cache_write"] == 4
    assert sum(counts.values()) == 13
    assert sum(launches(layer("0.4", LLAMA)).values()) == 11


def test_attention_of_triton_decodes_in_two_kernels():
    """decode_attention_fwd; prompts take one. 13 + 1."""
    rows = layer("0.3.1", LLAMA, "attention_backend: triton")
    assert sum(launches(rows).values()) == 14


def test_a_layer_of_deepseek_launches_51_kernels():
    """DeepSeek-V2-Lite. Attention: add and norm, Q, latents, their norm, rope (an index, two
    repeats, and five operators for each of queries and keys), the cache (two copies, an index, a
    write), queries (a product, two copies), two kernels of Triton, the other product, the output:
    1 + 1 + 1 + 1 + 13 + 4 + 3 + 2 + 1 + 1.

    Experts: add and norm, gate and up, activation, down, router, the routed ones (ten operators
    choose, then fill, align, GEMM, activation, GEMM, sum, scale), the sum of both: 5 + 17 + 1.
    """
    counts = launches(layer("0.3", LITE))
    assert counts["rope"] == 1 + 2 + 2 * 5
    assert counts["mla_cache_write"] == 4
    assert (counts["q_absorb"], counts["v_absorb"]) == (3, 1)
    assert counts["experts"] == 10 + 7
    assert sum(counts.values()) == 28 + 23


def test_later_versions_rotate_and_choose_in_one_kernel_each():
    counts = launches(layer("0.4", LITE))
    assert (counts["rope"], counts["experts"], counts["q_absorb"]) == (1, 7, 1)


def test_other_experts_are_chosen_by_vllm_s_kernel():
    """Widened logits, topk_softmax, a sum and a quotient, then fill, align, GEMM, activation, GEMM
    and sum: 4 + 6. Rope of a model that scales nothing is one kernel.
    """
    counts = launches(layer("0.3", "mixtral-8x7b"))
    assert counts["experts"] == 10
    assert counts["rope"] == 1


def test_ten_operators_cost_what_joining_them_was_seen_to_save():
    """Compiling grouped_topk of DeepSeek-Coder-V2-Lite on an H100 brought 154.8 to 163.8 tokens/s
    with graphs (vLLM 12637): 0.355 ms over 26 layers are 13.7 us, and nine nodes fewer here.
    """
    saved_s = (1 / 154.8 - 1 / 163.8) / 26
    node_s = fixed_costs(engine("0.3")).graph_node_s
    assert 9 * node_s == pytest.approx(saved_s, rel=0.2)


@pytest.mark.parametrize(("tensor", "launch_us"), [("1", 18), ("4", 22), ("8", 26)])
def test_a_launch_on_several_ranks(tensor, launch_us):
    """DeepSeek-V2 over eight, 11.5 tokens/s (SGLang 1264): (87 - 1) ms / 3,289 = 26 us."""
    found = fixed_costs(engine("0.3", tensor=tensor))
    assert found.launch_s == pytest.approx(launch_us * 1e-6)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        # sglang@0.3.0 srt/model_executor/model_runner.py:500-502
        ("", (1, 2, 4, *range(8, 161, 8))),
        ("disable_cuda_graph_padding: true", (*range(1, 32), 64, 128)),
    ],
)
def test_which_batches_are_captured(flags, expected):
    here = engine("0.3", flags)
    rule = first(here.spec.capture.sizes, here.facts)
    assert rule is not None
    assert expand(rule, here.whole_flags) == expected


@pytest.mark.parametrize(
    ("version", "gpu", "tensor", "share"),
    [
        # sglang@0.3.0 srt/server_args.py:110-119; @0.3.6.post3:159; memory does not matter yet
        ("0.3", "h200-sxm", "1", 0.88),
        ("0.3", "h100-sxm", "2", 0.87),
        ("0.3.2", "h100-sxm", "4", 0.85),
        ("0.3.5", "h100-sxm", "8", 0.83),
        ("0.3.6", "h100-sxm", "8", 0.82),
    ],
)
def test_share_of_memory(version, gpu, tensor, share):
    here = engine(version, gpu=gpu, tensor=tensor)
    rule = first(here.spec.memory.utilization, here.as_asked.facts)
    assert rule is not None
    assert rule.value == share


@pytest.mark.parametrize(
    ("flag", "missing", "there"),
    [
        ("attention_backend: triton", "0.3", "0.3.1"),
        ("num_continuous_decode_steps: 4", "0.3.3", "0.3.4"),
        ("cuda_graph_max_bs: 32", "0.3.4", "0.3.5"),
        ("disable_overlap_schedule: true", "0.3.5", "0.3.6"),
    ],
)
def test_flags_came_one_by_one(flag, missing, there):
    assert engine(there, flag).flags[flag.partition(":")[0]] is not None
    with pytest.raises(SpecError):
        engine(missing, flag)


def test_nothing_drafts_yet():
    text = f"""
model: {LLAMA}
gpu: h100-sxm
backend: {{name: sglang, version: "0.3"}}
speculation: {{draft: llama-3.2-1b-instruct, tokens: 4, acceptance: 0.7}}
step: {{decode: {{batch: 1, context: 132}}}}
"""
    asked = ask(load_text(text, "deploy.yaml", "deployment"), CATALOG)
    with pytest.raises(SpecError, match="speculative decoding came after"):
        prepare(asked)
