"""Inductor's kernels read off its scheduler, with torch itself."""

import json

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch", minversion="2.13")


@pytest.fixture(scope="module")
def record():
    from planner.cli.common.inductor import record as made

    return made


def names(recorded):
    return [(kernel.kind, set(kernel.origins)) for kernel in recorded.kernels]


def test_kernels_bear_the_names_of_the_export(record):
    """Four projections, and a GELU behind each but the last: seven kernels."""
    found = record(torch, "mlp", "triton")
    assert [kind for kind, _ in names(found)] == ["extern", "loops"] * 3 + ["extern"]
    steps = {step for own in found.steps.values() for step in own}
    assert {step for _, origins in names(found) for step in origins} == steps


def test_a_compiled_model_runs_and_is_right(record):
    found = record(torch, "mlp", "cpp")
    assert found.error < 1e-2
    assert found.functions >= 1


@pytest.mark.parametrize(
    "name",
    [
        *("llama", "qwen3", "gemma-3", "moe", "mlp", "cnn", "vit", "bert"),
        *("lstm", "unet", "mla", "pointnet", "highway", "deit"),
    ],
)
def test_plans_group_as_cuda_rules_do(record, name):
    from planner.calibrate.compiled import compared
    from planner.spec.catalog import Catalog

    assert compared(record(torch, name, "triton"), Catalog.standard()).counts.f1 >= 0.95


def test_a_norm_and_the_sum_in_front_of_it_share_a_kernel(record):
    found = record(torch, "gpt-2", "triton")
    held = [origins for kind, origins in names(found) if kind == "loops"]
    assert any({"add_1", "layer_norm_1"} <= origins for origins in held)


def test_a_bias_that_loops_read_is_taken_out_of_its_call(record):
    """As on CUDA: each GELU of the MLP adds the bias of the product in front of it."""
    held = [origins for kind, origins in names(record(torch, "mlp", "triton")) if kind == "loops"]
    assert all({"linear", "gelu"} <= {name.split("_")[0] for name in each} for each in held)


def test_a_product_and_a_sum_are_one_call_on_a_cpu(record):
    """Twelve gates of a cell three times over: their sums are the names of calls."""
    held = [origins for kind, origins in names(record(torch, "lstm", "cpp")) if kind == "extern"]
    assert sum(any(name.startswith("add") for name in each) for each in held) == 12


def test_the_command_compares_with_the_catalogue_that_ships(capsys):
    from planner.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(["validate", "--source", "inductor", "--limit", "1", "--json"])
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out)["kind"] == "inductor"
