"""A plan's groupings against a compiler's, on a record of a dozen operators written by hand."""

from dataclasses import replace

import pytest

from planner.calibrate.compiled import Recorded, TheirKernel, compared
from planner.calibrate.compiled_document import document
from planner.calibrate.compiled_reasons import disagreements
from planner.calibrate.compiled_worth import worth
from planner.fusion.agreement import Counts
from planner.spec.catalog import Catalog

CATALOG = Catalog.standard()
NODES = {
    "norm": {"op": "rms_norm", "in": "x"},
    "gate": {"op": "linear", "in": "norm", "features": 32},
    "up": {"op": "linear", "in": "norm", "features": 32},
    "act": {"op": "silu", "in": "gate"},
    "mul": {"op": "mul", "in": ["act", "up"]},
    "down": {"op": "linear", "in": "mul", "features": 16},
    "sum": {"op": "add", "in": ["x", "down"]},
    "end": {"op": "rms_norm", "in": "sum"},
}
SPEC = {
    "kind": "model", "name": "mlp", "title": "mlp", "source": "this test",
    "inputs": {"x": [8, 16]}, "weights": "fp32",
    "blocks": {
        "whole": {"name": "whole", "inputs": {"x": [8, 16]}, "nodes": NODES, "outputs": ["end"]}
    },
    "sequence": [{"block": "whole"}],
}  # fmt: skip
STEPS = {name: (name,) for name in NODES} | {"end": ("mean", "scaled")}


def loops(*origins):
    return TheirKernel("loops", "_".join(origins), origins)


def call(*origins):
    return TheirKernel("extern", "aten.mm.out", origins)


AS_PLANNED = (
    loops("norm"), call("gate"), call("up"), loops("act", "mul"), call("down"),
    loops("sum", "mean", "scaled"),
)  # fmt: skip


def record(*kernels):
    return Recorded("mlp", "triton", SPEC, STEPS, kernels, 2, 0)


@pytest.fixture(scope="module")
def planned():
    return compared(record(*AS_PLANNED), CATALOG)


def test_the_plan_fuses_as_a_compiler_would(planned):
    """Edges: norm-gate, norm-up, gate-act, act-mul, up-mul, mul-down, down-sum, sum-end."""
    assert planned.counts == Counts(both=2, neither=6)
    assert not disagreements(planned)
    fused = {edge for edge, verdict in planned.verdicts.items() if verdict == "both"}
    assert fused == {("act", "mul"), ("sum", "end")}


def test_a_norm_in_two_kernels_still_shares_the_first():
    split = (*AS_PLANNED[:-1], loops("sum", "mean"), loops("scaled"))
    assert compared(record(*split), CATALOG).counts.f1 == 1


def test_a_sum_in_a_librarys_call_is_named():
    """The product has no kernel of its own: it is in the call that the sum became. In the plan an
    RMS norm, elementwise at first, keeps the sum in its loops."""
    folded = (*AS_PLANNED[:4], call("sum"), loops("mean", "scaled"))
    found = disagreements(compared(record(*folded), CATALOG))
    assert {(each.producer, each.consumer, each.by) for each in found} == {
        ("down", "sum", "theirs"),
        ("sum", "end", "ours"),
    }
    assert all("addmm" in each.reason for each in found)


def test_a_cpu_makes_the_sum_part_of_the_call():
    """By C++'s rules down and sum are one call, and the norm reads the sum from memory."""
    folded = (*AS_PLANNED[:4], call("sum"), loops("mean", "scaled"))
    found = compared(replace(record(*folded), rules="cpp"), CATALOG)
    assert found.verdicts["down", "sum"] == "both"
    assert found.verdicts["sum", "end"] == "neither"
    assert not disagreements(found)


def test_equal_groupings_move_equal_bytes(planned):
    found = worth(planned)
    assert found.theirs_bytes == found.ours_bytes
    assert (found.theirs_kernels, found.ours_kernels, found.saved_s) == (6, 6, 0)


def test_a_kernel_more_writes_and_reads_what_lies_between():
    """act is 8 × 32 numbers of four bytes, once written and once read."""
    apart = (*AS_PLANNED[:3], loops("act"), loops("mul"), *AS_PLANNED[4:])
    found = worth(compared(record(*apart), CATALOG))
    assert found.theirs_bytes - found.ours_bytes == 2 * 8 * 32 * 4
    assert found.theirs_kernels - found.ours_kernels == 1
    moved_s = 2 * 8 * 32 * 4 / found.bandwidth_bytes_per_s
    assert found.saved_s == pytest.approx(moved_s + found.kernel_s)


def test_what_a_kernel_computes_again_is_not_written():
    """act again beside mul: its 8 × 32 are never stored, but gate is read by both kernels."""
    twice = (
        *AS_PLANNED[:3], loops("act"), loops("act", "mul"), *AS_PLANNED[4:],
    )  # fmt: skip
    found = worth(compared(record(*twice), CATALOG))
    assert found.theirs_bytes - found.ours_bytes == 8 * 32 * 4


def test_a_bias_that_loops_add_is_no_product_again(planned):
    """Loops that add gate's bias do not read its weights: bytes are those of the plan."""
    apart = (*AS_PLANNED[:3], loops("gate", "act", "mul"), *AS_PLANNED[4:])
    assert worth(compared(record(*apart), CATALOG)).theirs_bytes == worth(planned).theirs_bytes


def test_the_document_sums_models_by_set():
    """Fused edges: 2 each; of those written afterwards one misses act-mul: 2/(2+1)."""
    late = replace(record(*AS_PLANNED[:3], loops("act"), loops("mul"), *AS_PLANNED[4:]), apart=True)
    body = document([record(*AS_PLANNED), late], CATALOG, "2.13.0")
    sets = {each["name"]: each for each in body["sets"]}
    assert [sets[name]["models"] for name in ("settled", "apart", "all")] == [1, 1, 2]
    assert sets["apart"]["f1"] == pytest.approx(2 / 3)
    assert sets["all"]["f1"] == pytest.approx(6 / 7)
    assert body["models"][0]["kernels"] == {"theirs": 6, "calls": 3, "of_no_node": 0, "ours": 6}
