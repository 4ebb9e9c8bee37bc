"""Fits: what they find on made-up times, what they hold back, what they write and merge."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pyarrow as pa
import pytest
from calibrate_samples import gemm_shapes, gemm_times, write_gemms
from pyarrow import parquet

from planner.calibrate import files
from planner.calibrate.devices import gpu_device
from planner.calibrate.experiments import interval, leave_gpu_out, leave_shapes_out, left_out
from planner.calibrate.families import family
from planner.calibrate.families.gemm import FAMILY, tables
from planner.calibrate.fit import fit, is_effective, score, split
from planner.calibrate.run import lent, run_fit
from planner.calibrate.types import Pick
from planner.calibrate.validate import validate_kernels
from planner.cost.kernels import all_reduce, collective
from planner.cost.kernels.collective import CollectiveShape
from planner.cost.kernels.types import Constant
from planner.errors import UsageError
from planner.spec.load import load_text

MANY = 1_900
"""A fifth of them are 380 rows for 12 constants, over `FEW` to each: one fit is enough."""
FEW = 600
"""These 120 are fitted again without an eighth of them, eight times."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel with one table of many products, 3 % noise."""
    shape = gemm_shapes(MANY)
    return write_gemms(tmp_path_factory.mktemp("made") / "wheel", shape, gemm_times(shape))


@pytest.fixture(scope="module")
def fitted_once(wheel, tmp_path_factory):
    """The folder that a fit of the table was written to, and its one cell."""
    out = tmp_path_factory.mktemp("fitted")
    (cell,) = run_fit(["gemm"], Pick(), out, date="2026-11-30", data=wheel)
    return out, cell


@pytest.fixture
def fitted(fitted_once, tmp_path):
    """The same in a folder of the test's own."""
    out, cell = fitted_once
    return shutil.copytree(out, tmp_path / "out"), cell


@pytest.fixture
def rows(wheel):
    """The rows of that table."""
    (found,) = tables(wheel, Pick())
    return found


def test_a_seeded_fifth_is_drawn_and_the_rest_held_back(rows):
    """Drawn and held rows share nothing and are all that is kept; the draw repeats."""
    parts = split(rows)
    count = int(rows.kept.sum())
    assert len(parts.drawn) == round(count / 5)
    assert sorted([*parts.drawn, *parts.held]) == np.flatnonzero(rows.kept).tolist()
    assert split(rows).held.tolist() == parts.held.tolist()
    assert split(rows, seed=1).held.tolist() != parts.held.tolist()


def test_rows_drawn_evenly_leave_no_stretch_out(rows):
    """Every fifth row from one of the first five on: of any ten neighbours two are drawn."""
    parts = split(dataclasses.replace(rows, evenly=True))
    place = np.searchsorted(np.flatnonzero(rows.kept), parts.drawn)
    count = int(rows.kept.sum())
    assert len(place) == round(count / 5)
    assert place[0] < 5
    assert count - place[-1] <= 6
    assert set(np.diff(place)) <= {4, 5, 6}
    assert sorted([*parts.drawn, *parts.held]) == np.flatnonzero(rows.kept).tolist()
    other = split(dataclasses.replace(rows, evenly=True), seed=1)
    assert other.drawn.tolist() != parts.drawn.tolist()


def all_reduces(tmp_path, engine, version, name, slower=1.0, **given):
    """A table of messages among eight B200, captured, from 256 bytes to a GiB, as read: times of
    typical constants but for those given. And these constants.
    """
    size = 2 ** np.linspace(8, 30, 45) // 16 * 16
    words = collective.MODEL.variants[name].constants
    values = {word.name: word.start for word in words} | given
    shape, gpu = CollectiveShape(size, 8), gpu_device("b200-sxm")
    times_s = collective.MODEL.time_s(name, shape, gpu, values) * slower
    place = tmp_path / "b200_sxm" / "comm" / engine / version
    place.mkdir(parents=True)
    same = {"device": "NVIDIA B200", "op_name": "all_reduce", "kernel_source": "graph"}
    same |= {"allreduce_dtype": "bfloat16", "num_gpus": 8}
    found = [
        same | {"message_size": int(each) // 2, "latency": time_s * 1e3}
        for each, time_s in zip(size, times_s, strict=True)
    ]
    parquet.write_table(pa.Table.from_pylist(found), place / "custom_allreduce_perf.parquet")
    every = family("collective").tables(tmp_path, Pick(engines=frozenset({"vllm"})))
    return next(rows for rows in every if rows.variant == name), values


def test_constants_of_kernels_that_another_variant_runs_are_lent_by_its_fit(tmp_path):
    """Of vLLM's all-reduce only what symmetric memory and NCCL take is fitted to its own table;
    one and two stages stay as its own kernel's table has them, though here all is a tenth slower.
    """
    model, gpu, name = collective.MODEL, gpu_device("b200-sxm"), all_reduce.SYMMETRIC
    older, values = all_reduces(tmp_path, "sglang", "0.5.10", all_reduce.CROSS_DEVICE, a1_s=6e-6)
    lender = score(model, older, gpu, values, split(older))
    rows, _ = all_reduces(tmp_path, "vllm", "0.24.0", name, slower=1.1, a5_s=14e-6)
    assert lent(model.variants[name], rows, []) == {}
    known = lent(model.variants[name], rows, [lender])
    assert known == {each: values[each] for each in model.variants[name].lent}
    found = fit(model, rows, gpu, lent=known)
    for each, value in known.items():
        assert found.constants[each] == pytest.approx(value, rel=1e-9)
    assert found.constants["a5_s"] == pytest.approx(14e-6 * 1.1, rel=0.05)
    assert found.constants["r4"] == pytest.approx(2 * 1.1, rel=0.05)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_fit_comes_within_the_noise_of_rows_it_never_saw(count, tmp_path):
    """Noise of 3 % has a median of 2 %: the held rows are not predicted much worse."""
    shape = gemm_shapes(count)
    (rows,) = tables(write_gemms(tmp_path / "wheel", shape, gemm_times(shape)), Pick())
    found = fit(FAMILY.model, rows, gpu_device("h100-sxm"))
    assert found.errors.median < 0.035
    assert abs(found.errors.bias) < 0.02
    assert 0.65 < found.errors.coverage < 0.92


def test_the_same_rows_and_seed_give_the_same_constants(rows, fitted):
    """Nothing depends on time or chance."""
    _, cell = fitted
    assert fit(FAMILY.model, rows, gpu_device("h100-sxm")).constants == cell.fits[0].constants


def test_too_few_rows_are_refused(rows):
    """Thirty rows are no ground for a dozen constants."""
    few = dataclasses.replace(rows, kept=np.arange(len(rows.time_s)) < 30)
    with pytest.raises(UsageError, match="too few to fit"):
        fit(FAMILY.model, few, gpu_device("h100-sxm"))


def test_a_constant_beyond_physics_is_labelled():
    """An efficiency above 1 stands for something else."""
    share = Constant("share", "Achieved share", "ratio", 0.1, 1.2, 0.9, effective_above=1.0)
    assert is_effective(share, 1.05)
    assert not is_effective(share, 1.0)


def test_a_written_file_reads_back_as_it_was_fitted(fitted):
    """Constants keep four digits, with units; provenance names package, day, command and seed."""
    out, cell = fitted
    spec = files.load(out, "h100-sxm", "vllm")
    entry = spec.kernels["gemm.bf16"]
    assert entry.constants == pytest.approx(cell.fits[0].constants, rel=1e-6)
    assert entry.rows.fitted + entry.rows.held == entry.rows.kept
    assert (spec.package, spec.date, spec.seed) == (
        "wheel",
        "2026-11-30",
        0,
    )
    assert spec.script == (
        "planner calibrate fit --gpu h100-sxm --engine vllm --date 2026-11-30 --seed 0"
    )
    text = files.path(out, "h100-sxm", "vllm").read_text()
    assert " us\n" in text


def test_writing_twice_changes_nothing(wheel, fitted):
    """The same fit gives the same text."""
    out, _ = fitted
    before = files.path(out, "h100-sxm", "vllm").read_text()
    run_fit(["gemm"], Pick(), out, date="2026-11-30", data=wheel)
    assert files.path(out, "h100-sxm", "vllm").read_text() == before


def test_another_familys_entries_stay(wheel, fitted):
    """A fit of GEMMs replaces GEMMs only, and keeps the units of what it does not know."""
    out, _ = fitted
    file = files.path(out, "h100-sxm", "vllm")
    file.write_text(file.read_text().replace("gemm.bf16", "other.bf16"))
    run_fit(["gemm"], Pick(), out, date="2026-12-01", data=wheel)
    spec = files.load(out, "h100-sxm", "vllm")
    assert sorted(spec.kernels) == ["gemm.bf16", "other.bf16"]
    assert spec.kernels["other.bf16"].constants == pytest.approx(
        spec.kernels["gemm.bf16"].constants
    )
    assert spec.date == "2026-12-01"


def test_a_rejected_table_is_recorded_with_its_reason(tmp_path):
    """What is not used is said."""
    shape = dataclasses.replace(gemm_shapes(100), rows=np.arange(1.0, 101.0) % 16 + 1)
    shape = dataclasses.replace(shape, depth=np.arange(100.0) + 256, features=np.full(100, 512.0))
    wheel = write_gemms(tmp_path / "wheel", shape, np.full(100, 9e-5), dtype="fp8_block")
    run_fit(["gemm"], Pick(), tmp_path / "out", date="2026-11-30", data=wheel)
    spec = files.load(tmp_path / "out", "h100-sxm", "vllm")
    assert not spec.kernels
    assert "90 us" in spec.rejected[0].reason
    assert spec.rejected[0].rows == 100


def test_validation_scores_the_rows_the_fit_held_back(wheel, fitted):
    """Committed constants, same split: the errors are the file's own."""
    out, cell = fitted
    (row,) = validate_kernels(out, ["gemm"], by=("family",), data=wheel)
    assert row.errors.rows == cell.fits[0].errors.rows
    assert row.errors.median == pytest.approx(cell.fits[0].errors.median, rel=1e-6)
    assert (row.family, row.gpu, row.band) == ("gemm", "all", "all")


def test_validation_by_band_adds_up(wheel, fitted):
    """Every held row is in one band of predicted time, save those in bands of few rows."""
    out, _ = fitted
    (whole,) = validate_kernels(out, ["gemm"], by=(), data=wheel)
    banded = validate_kernels(out, ["gemm"], data=wheel)
    assert 0 <= whole.errors.rows - sum(row.errors.rows for row in banded) < 30 * 6


def test_left_out_shapes_are_whole_shapes(rows):
    """The largest tenth by bytes and FLOPs, and a fifth of the weights with all their rows."""
    for rule, out in left_out(FAMILY, rows, seed=0):
        share = out[rows.kept].mean()
        assert share == pytest.approx(0.2 if rule == "unseen by shape" else 0.1, abs=0.02)


def test_shapes_left_out_are_predicted_by_a_sound_model(wheel):
    """The made-up times obey the model, so that it extrapolates as well as it interpolates."""
    for found in leave_shapes_out("gemm", data=wheel):
        assert found.errors.median < 2.5 * found.within.median


def test_quantities_are_written_so_that_specs_read_them_back():
    """Units that the parser knows; no exponent that YAML readers disagree about."""
    assert files.quantity(2.3142e-6, "s") == "2.314 us"
    assert files.quantity(0.0, "s") == "0 ns"
    assert files.quantity(1.2e-14, "s") == "1.2e-5 ns"
    assert files.quantity(3.35e12, "bytes/s") == "3.35 TB/s"
    assert files.quantity(0.87654, "ratio") == "0.8765"
    assert files.quantity(1e-5, "ratio") == "1.0e-5"


def test_a_constant_may_be_written_as_time_bandwidth_or_ratio():
    """All three become SI numbers."""
    text = """
kind: calibration
name: x
title: X
gpu: h100-sxm
backend: vllm
date: "2026-11-30"
script: by hand
kernels:
  gemm.bf16:
    source: mine
    rows: {read: 1, kept: 1, fitted: 1, held: 0}
    constants: {floor_s: 2.5 us, rate: 180 GB/s, share: 0.9}
    residuals: {rows: 1, q10: -0.1, q50: 0.0, q90: 0.1}
    errors: {rows: 1, median: 0.1, mean: 0.1, bias: 0.0, coverage: 0.8}
"""
    spec = load_text(text, "x.yaml", "calibration")
    assert spec.kernels["gemm.bf16"].constants == pytest.approx(
        {"floor_s": 2.5e-6, "rate": 1.8e11, "share": 0.9}
    )


def test_borrowed_constants_are_judged_on_the_gpu_that_was_left_out(tmp_path):
    """A sibling with the same bandwidth and units, made up by the same constants, fits as well."""
    shape = gemm_shapes(MANY)
    wheel = write_gemms(tmp_path / "wheel", shape, gemm_times(shape))
    wheel = write_gemms(
        wheel, shape, gemm_times(shape, gpu="h200-sxm"), folder="h200_sxm", device="NVIDIA H200"
    )
    run_fit(["gemm"], Pick(), tmp_path / "out", date="2026-11-30", data=wheel)
    transfers = leave_gpu_out(tmp_path / "out", "gemm", data=wheel)
    assert {(each.gpu, each.donor) for each in transfers} == {
        ("h100-sxm", "h200-sxm"),
        ("h200-sxm", "h100-sxm"),
    }
    assert all(each.same_architecture for each in transfers)
    assert all(each.errors.median < 0.05 for each in transfers)
    assert interval(transfers, same_architecture=True) == pytest.approx((-0.04, 0.04), abs=0.03)
