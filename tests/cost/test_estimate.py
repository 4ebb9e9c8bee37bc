"""Which model prices a kernel, with whose constants, and how sure that is."""

from __future__ import annotations

import math

import pytest

from planner.cost.annotate import annotate
from planner.cost.constants import Candidate, Constants, candidates
from planner.cost.estimate import CalibratedEstimator
from planner.cost.estimator import Kernel, RooflineEstimator, bound_of
from planner.cost.fitted import BORROWED_WIDTH
from planner.cost.kernel import border, kernel_work
from planner.cost.kernels.gemm import MODEL, GemmShape
from planner.cost.types import device
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.types import Formats, Load, SequenceGroup, Tiling
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Measured, blocks_of

CATALOG = Catalog.standard()
H100 = CATALOG.find("gpu", "h100-sxm")
DEVICE = device(H100)
LOAD = Load((SequenceGroup(16, 1, 4096),))

RESIDUALS = """
      residuals:
        rows: 100
        q10: -0.1
        q50: 0
        q90: 0.2
        bands: [{above: 0 s, below: 10 us, rows: 50, q10: -0.3, q50: 0, q90: 0.4}]
      errors: {rows: 400, median: 0.05, mean: 0.08, bias: 0, coverage: 0.8}
      rows: {read: 500, kept: 500, fitted: 100, held: 400}
      source: this test
"""


def calibration(name: str, gpu: str, backend: str, *kernels: str):
    entries = "".join(
        f"    {kernel}:\n      constants: {{floor_s: 3 us}}{RESIDUALS}" for kernel in kernels
    )
    text = (
        f"kind: calibration\nname: {name}\ntitle: T\ngpu: {gpu}\nbackend: {backend}\n"
        f"date: 2026-11-30\nscript: this test\n" + (f"kernels:\n{entries}" if kernels else "")
    )
    return load_text(text, f"{name}.yaml", "calibration")


OWN = calibration("own", "h100-sxm", "vllm", "gemm.bf16")


def layer():
    model = CATALOG.find("model", "llama-3.1-8b-instruct")
    graph = model_graph(model, blocks_of(model, CATALOG), Formats("bf16", "bf16", "bf16", "bf16"))
    return graph.kinds[1]


def kernel(*names: str, tile: int | None = None, name: str | None = None) -> Kernel:
    block = layer()
    edge = border(Window(block), frozenset((0, each) for each in names))
    costs = (annotate(block, LOAD, DEVICE),)
    tiling = Tiling(tile, DEVICE.l2_bytes) if tile else None
    return Kernel(edge, costs, kernel_work(edge, costs, DEVICE, tiling), name)


def estimator(*lenders: Candidate) -> CalibratedEstimator:
    return CalibratedEstimator(DEVICE, Constants(lenders))


ATTENTION = tuple(f"attention.{part}" for part in ("scores", "mask", "softmax", "values"))


def test_the_roofline_estimator_is_the_roofline():
    """o_proj: 4096·4096 weights, 16 rows in and out, all BF16, over 3350 GB/s."""
    found = RooflineEstimator(1e-6).estimate(kernel("o_proj"))
    moved = 2 * (4096 * 4096 + 2 * 16 * 4096)
    assert found.core_s == pytest.approx(moved / 3350e9)
    assert (found.floor_s, found.log_low, found.evidence) == (1e-6, None, "datasheet")


def test_a_projection_is_priced_by_the_gemm_model():
    found = estimator(Candidate(OWN, "calibrated")).estimate(kernel("o_proj"))
    values = {c.name: c.start for c in MODEL.variants["bf16"].constants} | {"floor_s": 3e-6}
    expected = MODEL.time_s("bf16", GemmShape(16.0, 4096, 4096, weight_bytes=2.0), DEVICE, values)
    assert found.floor_s + found.core_s == pytest.approx(expected)
    assert (found.family, found.evidence, found.floor_s) == ("gemm", "calibrated", 3e-6)


def test_merged_projections_are_one_gemm():
    """Q, K and V: 4096 + 1024 + 1024 features of one input."""
    found = estimator(Candidate(OWN, "calibrated")).estimate(kernel("q_proj", "k_proj", "v_proj"))
    values = {c.name: c.start for c in MODEL.variants["bf16"].constants} | {"floor_s": 3e-6}
    expected = MODEL.time_s("bf16", GemmShape(16.0, 4096, 6144, weight_bytes=2.0), DEVICE, values)
    assert found.floor_s + found.core_s == pytest.approx(expected)


def test_no_estimate_beats_the_roofline():
    for names in (("o_proj",), ("down_proj",), ("rope",), ("act", "act_mul"), ATTENTION):
        each = kernel(*names, tile=128 if len(names) == 4 else None)
        bare = RooflineEstimator(0.0).estimate(each).core_s
        assert estimator().estimate(each).core_s + estimator().estimate(each).floor_s >= bare


def test_a_kernel_that_writes_the_cache_itself_is_timed_with_the_write():
    """Attention tables hold the write: it is taken off only where another kernel writes."""
    beside, inside = (
        estimator().asked(kernel(*ATTENTION, *more, tile=128, name="fa3"))
        for more in ((), ("rope", "kv_cache_write"))
    )
    assert any(each.taken_off for each in beside)
    assert not any(each.taken_off for each in inside)


def test_a_kernel_around_attention_starts_as_attention_does():
    """Its projections come first, but what its start and drain take is attention's."""
    around = kernel("q_proj", "k_proj", "v_proj", "rope", "kv_cache_write", *ATTENTION, tile=128)
    found, alone = (estimator().estimate(each) for each in (around, kernel(*ATTENTION, tile=128)))
    assert found.family == "attention"
    assert found.floor_s == alone.floor_s


def test_attention_is_one_kernel_of_its_own_family():
    found = estimator().estimate(kernel(*ATTENTION, tile=128, name="fa3"))
    assert found.family == "attention"
    assert found.core_s > 0


def test_an_epilogue_adds_only_the_bytes_it_moves_itself():
    """down_proj with the residual add reads the residual too: 16·4096 elements more."""
    alone = estimator().estimate(kernel("down_proj")).core_s
    fused = estimator().estimate(kernel("down_proj", "mlp_residual")).core_s
    assert alone < fused < alone + 3e-6


@pytest.mark.parametrize(
    ("gpu", "engine", "evidence"),
    [
        ("h100-sxm", "vllm", "calibrated"),
        ("h100-sxm", "sglang", "class"),
        ("h200-sxm", "vllm", "class"),
        ("a100-80gb-sxm", "vllm", "datasheet"),
    ],
)
def test_evidence_says_how_far_constants_are_borrowed(gpu, engine, evidence):
    spec = CATALOG.find("gpu", gpu)
    measured = Measured(calibration("c", gpu, engine), spec.architecture, spec.capability)
    assert candidates([measured], None, H100, "vllm")[0].evidence == evidence


def test_a_named_calibration_counts_as_the_gpus_own():
    measured = Measured(calibration("mine", "a100-80gb-sxm", "sglang"), "ampere", 8.0)
    assert candidates([measured], "mine", H100, "vllm")[0].evidence == "calibrated"


def test_the_nearest_calibration_that_has_the_kernel_is_used():
    other = calibration("other", "h200-sxm", "vllm", "elementwise.stream")
    lenders = (Candidate(OWN, "calibrated"), Candidate(other, "class"))
    constants = Constants(lenders)
    assert constants.gemm("bf16").source == "own: gemm.bf16"
    assert constants.elementwise().evidence == "class"
    assert constants.collective("all_gather").evidence == "datasheet"


def test_residual_bands_go_by_the_predicted_time_and_widen_when_borrowed():
    own = Constants((Candidate(OWN, "calibrated"),)).gemm("bf16")
    assert own.interval(5e-6) == (-0.3, 0.4)
    assert own.interval(1e-3) == (-0.1, 0.2)
    borrowed = Constants((Candidate(OWN, "class"),)).gemm("bf16")
    assert borrowed.interval(1e-3) == (
        -0.1 * BORROWED_WIDTH["class"],
        0.2 * BORROWED_WIDTH["class"],
    )


def test_what_nobody_measured_has_a_wide_interval():
    low, high = Constants(()).gemm("bf16").interval(1e-5)
    assert math.exp(high) / math.exp(low) > 2


def test_bounds_name_the_longest_resource_or_the_start():
    work = kernel("o_proj").work
    assert bound_of(work, 0.0, 1e-5) == "memory"
    assert bound_of(work, 2e-5, 1e-5) == "launch"
