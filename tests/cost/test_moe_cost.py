"""What routed experts cost: crossing, kernel, launches, traffic between ranks."""

from __future__ import annotations

import pytest
from cost_engines import BACKEND, engine

from planner.cost.annotate import annotate
from planner.cost.constants import Candidate, Constants, candidates
from planner.cost.estimate import CalibratedEstimator
from planner.cost.estimator import Kernel
from planner.cost.kernel import border, kernel_work
from planner.cost.kernels import collective, moe
from planner.cost.kernels.collective import CollectiveShape
from planner.cost.kernels.moe import MoeShape
from planner.cost.profile import Holding, activation_bytes, expert_bytes, live_bytes
from planner.cost.reserve import Reserve
from planner.cost.types import device
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.moe_load import Routing
from planner.ops.types import ExpertLayout, Formats, Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.question import Measured, blocks_of

CATALOG = Catalog.standard()
H100 = CATALOG.find("gpu", "h100-sxm")
DEVICE = device(H100)
BF16 = Formats("bf16", "bf16", "bf16", "bf16")
EXPERT = 3 * 2048 * 768
"""Weights of one expert of Qwen3-30B-A3B; it has 128, a token takes 8."""


def costs(tokens: float, layout: ExpertLayout | None = None, routing: Routing | None = None):
    """The ledger of a layer of Qwen3-30B-A3B under so many decode tokens."""
    model = CATALOG.find("model", "qwen3-30b-a3b")
    graph = model_graph(model, blocks_of(model, CATALOG), BF16, layout=layout)
    load = Load((SequenceGroup(tokens, 1, 1024),), routing=routing or Routing())
    return annotate(graph.kinds[1], load, DEVICE)


def constants(*names: str) -> Constants:
    found = [CATALOG.find("calibration", name) for name in names]
    measured = [Measured(each, H100.architecture, H100.capability) for each in found]
    return Constants(candidates(measured, None, H100, "vllm"), H100.name)


def estimate(node: str, ledger, lent: Constants, name: str | None = None):
    nodes = frozenset({(0, node)})
    edge = border(Window(ledger.block), nodes)
    work = kernel_work(edge, (ledger,), DEVICE, None)
    return CalibratedEstimator(DEVICE, lent).estimate(Kernel(edge, (ledger,), work, name))


def test_experts_leave_the_memory_roof_where_their_flops_meet_the_ridge():
    """At M* tokens FLOPs over bytes are the ridge, with the experts touched by then.

    At a thousand tokens and more all 128 are: 2·8·M·e = r·(128·2·e + M·(2·2·2048 + 2·128)).
    """
    cost = costs(16).nodes["experts"]
    ridge = DEVICE.ridge("bf16")
    per_token = 2 * 2 * 2048 + 2 * 128
    by_hand = ridge * 128 * 2 * EXPERT / (2 * 8 * EXPERT - ridge * per_token)
    assert by_hand > 1000
    assert cost.crossing_tokens == pytest.approx(by_hand, rel=1e-4)


def test_a_ledger_counts_the_mean_and_a_kernel_the_busiest_rank():
    """Under a power law the busiest of 4 ranks has more pairs than a quarter of all."""
    ledger = costs(64, ExpertLayout(4, 4), Routing("power-law"))
    cost = ledger.nodes["experts"]
    assert cost.work.matmul_flops == 2 * 64 * 8 / 4 * EXPERT
    edge = border(Window(ledger.block), frozenset({(0, "experts")}))
    assert kernel_work(edge, (ledger,), DEVICE, None).matmul_flops > cost.work.matmul_flops


def test_the_time_of_experts_is_their_models():
    """16 tokens with 8 of 128: 128 pairs on 82.4 experts, with the constants of the engine."""
    lent = constants("h100-sxm-vllm")
    found = estimate("experts", costs(16), lent, "triton")
    fitted = lent.moe("triton", "bf16", "bf16")
    touched = 128 * (1 - (120 / 128) ** 16)
    shape = MoeShape(16.0, 2048, 768, 8, 128.0, touched, True)
    seconds = moe.MODEL.time_s(fitted.variant, shape, DEVICE, fitted.values)
    assert fitted.variant == "triton_bf16"
    assert found.core_s + found.floor_s == pytest.approx(seconds)
    assert (found.family, found.evidence, found.chain) == ("moe", "calibrated", True)


def test_a_shared_expert_in_the_kernel_is_one_more_that_every_token_goes_to():
    """DeepSeek-V3's layer, 16 tokens with 8 of 256: 128 pairs on 101.97 experts. With the shared
    one, as wide as a routed one: 9 experts a token, 144 pairs, one more touched. Its own GEMMs cost
    a read of its weights each, and a start.
    """
    model = CATALOG.find("model", "deepseek-v3")
    formats = Formats("bf16", "bf16", "bf16", "bf16")
    graph = model_graph(model, blocks_of(model, CATALOG), formats)
    kind = next(kind for kind in graph.kinds if "experts" in {node.id for node in kind.nodes})
    ledger = annotate(kind, Load((SequenceGroup(16, 1, 1024),)), DEVICE)
    lent = constants("h100-sxm-vllm")
    names = ("shared_gate_proj", "shared_up_proj", "shared_act", "shared_mul", "shared_down_proj")
    nodes = frozenset((0, name) for name in ("experts", *names))
    edge = border(Window(ledger.block), nodes)
    kernel = Kernel(edge, (ledger,), kernel_work(edge, (ledger,), DEVICE, None), "triton")
    (part,) = CalibratedEstimator(DEVICE, lent)._mains(kernel)
    touched = 256 * (1 - (248 / 256) ** 16)
    fitted = lent.moe("triton", "bf16", "bf16")
    shape = MoeShape(16.0, 7168, 2048, 9.0, 144.0, touched + 1, True)
    seconds = moe.MODEL.time_s(fitted.variant, shape, DEVICE, fitted.values)
    assert part.core_s + part.floor_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("kernel", "weights", "operand", "variant"),
    [
        ("triton", "bf16", "bf16", "triton_bf16"),
        ("triton", "fp16", "fp16", "triton_bf16"),
        ("cutlass", "fp8", "fp8", "cutlass_fp8"),
        # per tensor was not measured: the same kernel with scales of blocks
        ("triton", "fp8", "fp8", "triton_fp8_block"),
        ("marlin", "int4", "bf16", "marlin_int4"),
        ("triton", "mxfp4", "bf16", "triton_mxfp4"),
        # Marlin's MXFP4 was not measured here: the same kernel with other weights of four bits
        ("marlin", "mxfp4", "bf16", "marlin_int4"),
        # nobody measured INT8: as many bytes as FP8
        ("cutlass", "int8", "bf16", "cutlass_fp8"),
        # a kernel that was not measured here: any of the format
        ("trtllm", "bf16", "bf16", "triton_bf16"),
    ],
)
def test_constants_are_those_of_kernel_and_format(kernel, weights, operand, variant):
    lent = constants("h100-sxm-vllm")
    assert lent.moe(kernel, weights, operand).variant == variant


def test_a_router_is_a_small_gemm():
    """Its time is that of a GEMM of 16 × 2048 × 128, and no roofline's few nanoseconds."""
    found = estimate("router", costs(16), constants("h100-sxm-vllm"))
    assert found.family == "gemm"
    assert 2e-6 < found.core_s + found.floor_s < 10e-6


@pytest.mark.parametrize(
    ("exchange", "node", "name"),
    [
        ("gather", "experts.dispatch", "all_gather"),
        ("gather", "experts.combine", "reduce_scatter"),
        ("all_to_all", "experts.dispatch", "all_to_all"),
        ("all_to_all", "experts.combine", "all_to_all"),
    ],
)
def test_an_exchange_is_a_message_of_what_a_rank_sends(exchange, node, name):
    """Of S bytes a rank of 4 sends three quarters."""
    ledger = costs(64, ExpertLayout(1, 4, 4, exchange))
    sent = ledger.nodes[node].work.link_bytes
    lent = constants("h100-sxm-nccl")
    fitted = lent.collective(name)
    shape = CollectiveShape(sent * 4 / 3, 4.0)
    seconds = collective.MODEL.time_s(fitted.variant, shape, DEVICE, fitted.values)
    found = estimate(node, ledger, lent)
    assert fitted.variant == name
    assert found.core_s + found.floor_s == pytest.approx(seconds, rel=0.05)


def test_candidates_are_what_constants_draw_on():
    """Without any the experts are typical values that nobody measured."""
    fitted = Constants([]).moe("triton", "bf16", "bf16")
    assert fitted.evidence == "datasheet"
    assert isinstance(constants("h100-sxm-vllm").candidates[0], Candidate)


def test_buffers_between_grouped_gemms_are_alive_while_experts_run():
    """Qwen3-30B-A3B, 100 tokens to 8 experts each, hidden 2,048, width 768.

    Separate: 800 rows of max(768, 2,048) and of max(2 · 768, 2,048). Shared: of
    max(2 · 768, 2,048) and of 768. Two bytes an element, beside what is alive anyway.
    """
    model = CATALOG.find("model", "qwen3-30b-a3b")
    block = model_graph(model, blocks_of(model, CATALOG), BF16).kinds[1]
    load = Load((SequenceGroup(1, 100, 100),))
    least = live_bytes(block, load)
    separate = live_bytes(block, load, Holding(expert_buffers="separate"))
    shared = live_bytes(block, load, Holding(expert_buffers="shared"))
    assert separate - shared == 2 * 800 * (4096 - 2816)
    assert 0 < separate - least <= 2 * 800 * 4096


def test_kept_buffers_come_on_top_of_the_widest_moment_wherever_it_is():
    """As separate ones: 2 · 800 · 4,096 bytes of Qwen3-30B-A3B at 100 tokens."""
    model = CATALOG.find("model", "qwen3-30b-a3b")
    block = model_graph(model, blocks_of(model, CATALOG), BF16).kinds[1]
    load = Load((SequenceGroup(1, 100, 100),))
    experts = next(node for node in block.nodes if node.op_name == "moe")
    norm = next(node for node in block.nodes if node.op_name == "rms_norm")
    assert expert_bytes(block, experts, load) == 2 * 800 * 4096
    assert expert_bytes(block, norm, load) == 0
    assert live_bytes(block, load, Holding(expert_buffers="kept")) == live_bytes(block, load)


def test_a_profile_step_counts_buffers_that_are_kept():
    """1,000 tokens to 8 experts each: 8,000 · 4,096 elements of two bytes."""
    model = CATALOG.find("model", "qwen3-30b-a3b")
    graph = model_graph(model, blocks_of(model, CATALOG), BF16)
    keeping = BACKEND.replace("memory:\n", "memory:\n  expert_buffers: [{value: kept}]\n")
    with_, without = (
        activation_bytes(graph, Reserve(engine(backend=text), DEVICE))
        for text in (keeping, BACKEND)
    )
    assert with_ - without == 2 * 8000 * 4096
