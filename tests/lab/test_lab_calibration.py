"""From the lab's points to constants, ceilings and files of a catalogue."""

import dataclasses
import math

import numpy as np
import pytest
from lab_points import ATTENTION, DEVICE, GEMM, MACHINE, STREAM, gemm_points, points

from planner.calibrate import files
from planner.calibrate.fit import fit_few
from planner.calibrate.from_lab import Subject, calibration, ceilings, fits, host_s, tables
from planner.calibrate.lab_gpu import gpu_text
from planner.calibrate.run import constant_units
from planner.errors import UsageError
from planner.lab.journal import Point
from planner.spec.load import load_text

SUBJECT = Subject(DEVICE, "pytorch-eager", "2.13.0", "fa2")


@pytest.fixture(scope="module")
def fitted():
    """The fits of a made-up machine whose constants are known; 2 % of noise."""
    found, few = fits(points(), SUBJECT)
    assert few == []
    return {each.rows.family: each for each in found}


@pytest.mark.parametrize("family", ["gemm", "elementwise", "attention_decode"])
def test_a_fit_of_few_points_predicts_points_it_has_not_seen(fitted, family):
    """Noise of 2 % alone has a median of 1.3 %; twice as much again is left to the fit."""
    assert fitted[family].errors.median < 0.04
    assert fitted[family].fitted == len(fitted[family].rows.time_s)


def test_shapes_are_those_of_the_points():
    """A copy reads once and writes once, a triad reads twice."""
    by_family = {rows.family: rows for rows in tables(points(), SUBJECT)}
    stream = by_family["elementwise"]
    assert stream.shape.read_bytes[:2].tolist() == [896 * 2, 2 * 896 * 2]
    assert stream.shape.write_bytes[:2].tolist() == [896 * 2, 896 * 2]
    assert not stream.cold
    product = by_family["gemm"]
    assert (product.shape.rows[0], product.shape.depth[0], product.shape.features[0]) == (
        1,
        896,
        896,
    )
    assert product.cold
    assert by_family["attention_decode"].shape.kv_tokens[1] == 64


def test_ceilings_are_the_best_that_anything_reached():
    """A copy of 2^19 columns × 256 rows of 2 bytes moves 2 · 2^28 bytes: in 10 ms 53.7 GB/s."""
    large = {"operation": "copy", "rows": 256, "columns": 2**19, "dtype": "bf16"}
    small = {**large, "rows": 1, "columns": 896}
    product = {"rows": 1024, "depth": 1000, "features": 1000, "dtype": "bf16", "copies": 1}
    found = ceilings(
        [
            Point("stream", large, {"median_s": 0.010}),
            Point("stream", small, {"median_s": 1e-9}),  # the cache, not memory
            Point("gemm", product, {"median_s": 0.002}),
            Point("gemm", product, {"median_s": 0.004}),
        ]
    )
    assert found["bandwidth_bytes_per_s"] == pytest.approx(2**29 / 0.010)
    assert found["flops_per_s"] == pytest.approx(2 * 1024 * 1e6 / 0.002)
    assert "vector_flops_per_s" not in found


def test_weights_read_by_one_row_count_as_bandwidth_when_they_come_from_memory():
    """896 × 4864 weights of 2 bytes in 0.5 ms are 17.4 GB/s; 16 copies are 139 MB."""
    sizes = {"rows": 1, "depth": 896, "features": 4864, "dtype": "bf16"}
    cold = Point("gemm", {**sizes, "copies": 16}, {"median_s": 0.5e-3})
    warm = Point("gemm", {**sizes, "copies": 1}, {"median_s": 0.1e-3})
    found = ceilings([cold, warm])
    assert found["bandwidth_bytes_per_s"] == pytest.approx(896 * 4864 * 2 / 0.5e-3)


def test_a_cpu_has_no_launch_queue_and_a_gpu_has_one():
    cpu = [Point("launch", {}, {"launch_s": 3e-6})]
    assert host_s(cpu) == {"launch": 0, "replay": 0, "kernel": 3e-6, "graph_node": 3e-6}
    assert host_s(cpu, 1e-6)["graph_node"] == 1e-6
    gpu = [Point("launch", {}, {"launch_s": 5e-6, "replay_s": 9e-6, "graph_node_s": 1.3e-6})]
    assert host_s(gpu, 1e-6) == {"launch": 5e-6, "replay": 9e-6, "graph_node": 1.3e-6}
    assert host_s([]) == {}


def test_a_launch_in_a_step_takes_the_python_around_it_too():
    """The step's kernels start as its calls do; what a fitted floor holds is the loop's."""
    cpu = [Point("launch", {}, {"launch_s": 3e-6, "call_s": 5e-6})]
    assert host_s(cpu, 1e-6) == {"launch": 0, "replay": 0, "kernel": 5e-6, "graph_node": 1e-6}
    times = {"launch_s": 5e-6, "call_s": 8e-6, "replay_s": 9e-6, "graph_node_s": 1.3e-6}
    assert host_s([Point("launch", {}, times)])["launch"] == 8e-6


def test_the_files_of_a_machine_load_as_they_were_meant(fitted):
    """An overlay that says it was measured here, and a gpu file with the ceilings as its rates."""
    provenance = files.Provenance("torch==2.13.0+cpu", "2026-11-30", "planner lab run", 0)
    host = {"launch": 0.0, "replay": 0.0, "kernel": 3e-6, "graph_node": 2e-6}
    spec = calibration(list(fitted.values()), [], host, SUBJECT, provenance)
    again = load_text(files.text(spec, constant_units).encode(), "lab.yaml", "calibration")
    assert again.name == "cpu-made-up-chip-9000-4-cores-pytorch-eager-lab"
    assert (again.evidence, again.backend) == ("measured-here", "pytorch-eager")
    assert (again.host.launch, again.host.kernel) == (0, 3e-6)
    assert again.host.step is None
    assert set(again.kernels) == {"gemm.bf16", "elementwise.stream", "attention_decode.fa2.bf16"}
    text = gpu_text(DEVICE.name, dataclasses.asdict(MACHINE), ceilings(points()), "2026-11-30")
    gpu = load_text(text.encode(), "gpu.yaml", "gpu")
    assert gpu.memory.capacity.value == 32 * 2**30
    assert gpu.l2.value == 32 * 2**20
    assert gpu.multiprocessors.value == 4
    assert gpu.architecture == "cpu"


def test_too_few_points_are_left_out_with_their_reason():
    few = list(gemm_points())[:10]
    found, left = fits(few, SUBJECT)
    assert found == []
    assert [rows.family for rows in left] == ["gemm"]
    with pytest.raises(UsageError, match="10 rows are too few"):
        fit_few(None, left[0], DEVICE)


def test_the_order_of_points_changes_no_constant_much():
    """The fit shuffles rows by its seed: it must not hang on how the lab went through them."""
    there, back = (
        fits(order, SUBJECT)[0][0].constants
        for order in (list(gemm_points()), list(gemm_points())[::-1])
    )
    for name in ("floor_s", "dram_share", "matrix_share"):
        assert math.isclose(there[name], back[name], rel_tol=0.15), name


def test_known_constants_are_sound():
    """The made-up machine is one that the models allow."""
    from planner.cost.kernels import attention_decode, elementwise, gemm

    for variant, values in (
        (gemm.MODEL.variants["bf16"], GEMM),
        (elementwise.STREAM, STREAM),
        (attention_decode.MODEL.variants["fa2.bf16"], ATTENTION),
    ):
        assert {word.name for word in variant.constants} == values.keys()
        assert all(word.low <= values[word.name] <= word.high for word in variant.constants)
    assert np.isfinite([point.values.get("median_s", 1.0) for point in points()]).all()
