"""The shipped GPU files: complete, sourced, and true to figures written out by hand."""

from functools import cache
from pathlib import Path

import pytest

from planner.resources import folder
from planner.spec.load import load_file
from planner.spec.quantity import Figure
from planner.spec.types import GpuSpec

PATHS = sorted((folder("catalog") / "gpus").glob("*.yaml"))
GIB, MIB = 2.0**30, 2.0**20

# Parts whose 8-bit or FP16 units are no faster than 16 bit, or slower.
INT8_BELOW_BF16 = {"b300-sxm", "gb300"}
FP8_AT_BF16 = {"gaudi-3", "tpu-v5p", "tpu-v6e"}
INT8_AT_BF16 = {"mi210", "mi250x"}
FP16_BELOW_BF16 = {"gaudi-3"}
# Their `clock` is the one of the FP32 rate; NVIDIA quotes their tensor rates at a lower one.
TENSOR_CLOCK_DIFFERS = {"h100-pcie", "h100-nvl", "h200-nvl"}


@cache
def load(path: Path) -> GpuSpec:
    spec = load_file(path, "gpu")
    assert isinstance(spec, GpuSpec)
    return spec


def gpu(name: str) -> GpuSpec:
    return load(folder("catalog") / "gpus" / f"{name}.yaml")


def rate(spec: GpuSpec, dtype: str) -> float | None:
    figure = spec.matrix.get(dtype)
    return None if figure is None else figure.value


def figures(value: object) -> list[Figure]:
    if isinstance(value, Figure):
        return [value]
    if isinstance(value, dict):
        return [figure for part in value.values() for figure in figures(part)]
    fields = getattr(type(value), "model_fields", {})
    return [figure for field in fields for figure in figures(getattr(value, field))]


def test_the_catalogue_has_the_45_accelerators():
    assert len(PATHS) == 45


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_gpu_file_loads_under_its_own_name(path):
    assert load(path).name == path.stem


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_figure_names_a_source_of_its_file(path):
    spec = load(path)
    found = figures(spec)
    assert len(found) >= 6
    assert {figure.source for figure in found} <= set(spec.sources)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_no_source_is_listed_unused(path):
    spec = load(path)
    assert set(spec.sources) <= {figure.source for figure in figures(spec)}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_source_says_whether_it_was_read_recalled_or_derived(path):
    for text in load(path).sources.values():
        assert text.startswith(("recalled: ", "derived: ")) or "read " in text


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_visible_memory_is_a_little_below_the_printed(path):
    memory = load(path).memory
    if memory.visible is not None:
        share = memory.visible.value / memory.capacity.value
        assert 0.90 < share <= 1.001  # ECC takes a sixteenth of GDDR6, drivers the rest


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_narrower_operands_are_at_least_as_fast(path):
    spec = load(path)
    sixteen = rate(spec, "bf16") or rate(spec, "fp16")
    assert sixteen is not None
    if (fp16 := rate(spec, "fp16")) is not None:
        assert fp16 == sixteen or spec.name in FP16_BELOW_BF16
    if (tf32 := rate(spec, "tf32")) is not None:
        assert tf32 <= sixteen / 1.9
    if (fp8 := rate(spec, "fp8")) is not None:
        assert fp8 == sixteen if spec.name in FP8_AT_BF16 else fp8 >= 1.9 * sixteen
    if (int8 := rate(spec, "int8")) is not None:
        if spec.name in INT8_BELOW_BF16:
            assert int8 < sixteen / 10
        else:
            assert int8 == sixteen if spec.name in INT8_AT_BF16 else int8 >= 1.9 * sixteen
    for dtype in ("nvfp4", "mxfp4"):
        if (fp4 := rate(spec, dtype)) is not None:
            assert fp4 >= 1.9 * (fp8 or 0) > 0


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_vector_units_are_slower_than_matrix_units(path):
    spec = load(path)
    assert spec.vector.value <= 0.51 * (rate(spec, "bf16") or rate(spec, "fp16") or 0)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_ridges_are_sane(path):
    spec = load(path)
    ridges = {dtype: r.value / spec.memory.bandwidth.value for dtype, r in spec.matrix.items()}
    assert 30 < (ridges.get("bf16") or ridges["fp16"]) < 1000
    assert all(10 < ridge < 2000 or spec.name == "jetson-agx-thor" for ridge in ridges.values())
    assert spec.vector.value / spec.memory.bandwidth.value > 1


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_nvidia_tensor_rates_are_a_power_of_two_per_sm_and_cycle(path):
    spec = load(path)
    if spec.vendor != "nvidia" or spec.clock is None or spec.name in TENSOR_CLOCK_DIFFERS:
        return
    assert spec.multiprocessors is not None
    sixteen = rate(spec, "bf16") or rate(spec, "fp16")
    per_cycle = sixteen / spec.multiprocessors.value / spec.clock.value
    assert any(per_cycle == pytest.approx(2**n, rel=0.005) for n in range(9, 14))


def test_no_format_is_listed_that_the_hardware_lacks():
    for spec in map(load, PATHS):
        formats = set(spec.matrix)
        if spec.vendor == "nvidia":
            assert spec.capability is not None
            assert ("bf16" in formats) == (spec.capability >= 8.0)
            assert ("tf32" in formats) <= (spec.capability >= 8.0)
            assert ("fp8" in formats) == (spec.capability >= 8.9)
            assert ("nvfp4" in formats) == (spec.capability >= 10.0)
            assert ("int8" in formats) == (spec.capability >= 7.5)
        else:
            assert spec.capability is None
            assert "nvfp4" not in formats


def test_one_architecture_never_mixes_shared_memory_sizes_on_nvidia():
    # Tiles are chosen by shared memory, so kernel constants are lent only among equals.
    sizes: dict[str, set[float]] = {}
    for spec in map(load, PATHS):
        if spec.vendor == "nvidia":
            assert spec.shared_memory is not None
            sizes.setdefault(spec.architecture, set()).add(spec.shared_memory.value)
    assert {len(found) for found in sizes.values()} == {1}


def test_geforce_cards_reach_their_peers_through_the_host():
    indirect = {s.name for s in map(load, PATHS) if s.link and not s.link.peer_to_peer}
    assert indirect == {"rtx-3090", "rtx-4090", "rtx-5090"}


@pytest.mark.parametrize(
    ("name", "dtype", "ridge"),
    [
        ("rtx-4090", "bf16", 163.9),  # 165.2e12 / 1008e9
        ("rtx-5090", "bf16", 116.9),  # 209.5e12 / 1792e9
        ("l40s", "bf16", 419.0),  # 362.05e12 / 864e9
        ("l4", "bf16", 403.3),  # 121e12 / 300e9
        ("a100-80gb-sxm", "bf16", 153.0),  # 312e12 / 2039e9
        ("h100-sxm", "bf16", 295.3),  # 989.4e12 / 3350e9
        ("h100-sxm", "fp8", 590.7),  # 1978.9e12 / 3350e9
        ("h200-sxm", "bf16", 206.1),  # 989.4e12 / 4800e9
        ("h20", "bf16", 37.0),  # 148e12 / 4000e9
        ("gh200-96gb", "bf16", 247.3),  # 989e12 / 4000e9
        ("mi300x", "bf16", 246.7),  # 1307.4e12 / 5300e9
        ("t4", "fp16", 203.1),  # 65e12 / 320e9
    ],
)
def test_ridges_worked_out_by_hand(name, dtype, ridge):
    spec = gpu(name)
    assert spec.matrix[dtype].value / spec.memory.bandwidth.value == pytest.approx(ridge, abs=0.06)


@pytest.mark.parametrize(
    ("name", "dtype", "flops_per_s"),
    [
        ("a10g", "bf16", 70e12),  # not the A10's 125
        ("a10", "bf16", 125e12),
        ("l40", "bf16", 181e12),  # half the L40S
        ("rtx-3090", "fp16", 71.2e12),  # 142 needs FP16 accumulation
        ("rtx-4090", "fp8", 330.3e12),  # 660.6 needs FP16 accumulation
        ("b300-sxm", "int8", 153.5e12),  # not 4500
        ("gb300", "int8", 165e12),
        ("rtx-pro-6000-server", "bf16", 467.8e12),
        ("gaudi-3", "bf16", 1677e12),  # not 1835
        ("gaudi-3", "fp16", 459e12),
        ("mi250x", "bf16", 191.5e12),  # one die: 383 / 2
        ("jetson-agx-orin-64gb", "int8", 85e12),  # 170 is sparse
        ("dgx-spark", "nvfp4", 500e12),  # 1000 is sparse
        ("arc-pro-b60", "bf16", 98.3e12),
    ],
)
def test_dense_rates_against_the_figures_that_tables_get_wrong(name, dtype, flops_per_s):
    assert gpu(name).matrix[dtype].value == pytest.approx(flops_per_s)


@pytest.mark.parametrize(
    ("name", "visible_bytes"),
    [
        ("h100-sxm", 81_089 * MIB),  # 79.19 GiB
        ("h200-sxm", 143_771 * MIB),  # nvidia-smi; torch has 139.80 GiB
        ("a100-80gb-sxm", 79.15 * GIB),
        ("l40s", 44.40 * GIB),
        ("rtx-4090", 23.52 * GIB),
        ("b200-sxm", 182_642 * MIB),
        ("b300-sxm", 267.69 * GIB),
        ("gb200", 184.31 * GIB),
        ("mi300x", 196_592 * MIB),
    ],
)
def test_visible_memory_is_what_the_runtime_reports(name, visible_bytes):
    visible = gpu(name).memory.visible
    assert visible is not None
    assert visible.value == pytest.approx(visible_bytes)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("rtx-4090", 128),
        ("rtx-5090", 170),
        ("a10g", 80),
        ("h100-pcie", 114),
        ("h100-sxm", 132),
        ("b200-sxm", 148),
        ("b300-sxm", 148),
        ("gb200", 152),
        ("gb300", 152),
        ("rtx-pro-6000-server", 188),
        ("mi300x", 304),
        ("mi250x", 110),  # one die: 220 / 2
        ("arc-pro-b60", 20),
    ],
)
def test_multiprocessors_as_devices_report_them(name, count):
    units = gpu(name).multiprocessors
    assert units is not None
    assert units.value == count
