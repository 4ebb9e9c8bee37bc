"""The calibration files that ship: every constant known, bounded and labelled."""

from __future__ import annotations

import pytest

from planner.calibrate.families import FAMILIES
from planner.calibrate.fit import is_effective
from planner.spec.catalog import Catalog

CATALOG = Catalog.standard()
NAMES = CATALOG.names("calibration")
TRANSPORTS = {"nccl", "oneccl"}
"""Collective libraries are measured without an engine."""


@pytest.mark.parametrize("name", NAMES)
def test_a_calibration_names_a_gpu_and_an_engine_of_the_catalogue(name):
    """Its file is found by both."""
    spec = CATALOG.find("calibration", name)
    assert name == f"{spec.gpu}-{spec.backend}"
    assert spec.gpu in CATALOG.names("gpu")
    assert spec.backend in {*CATALOG.names("backend"), *TRANSPORTS}


@pytest.mark.parametrize("name", NAMES)
def test_every_constant_is_one_of_its_models_and_within_bounds(name):
    """No constant is missing, none is unknown, and none stands outside its physical range."""
    for kernel, entry in CATALOG.find("calibration", name).kernels.items():
        family, _, variant = kernel.partition(".")
        words = FAMILIES.get(family).model.variants[variant].constants
        assert set(entry.constants) == {word.name for word in words}, kernel
        for word in words:
            value = entry.constants[word.name]
            slack = 1e-3 * (word.high - word.low)
            assert word.low - slack <= value <= word.high + slack, (kernel, word.name)


@pytest.mark.parametrize("name", NAMES)
def test_constants_beyond_physics_are_labelled(name):
    """An efficiency above 1 is said to be an effective value, and nothing else is."""
    for kernel, entry in CATALOG.find("calibration", name).kernels.items():
        family, _, variant = kernel.partition(".")
        words = FAMILIES.get(family).model.variants[variant].constants
        beyond = {word.name for word in words if is_effective(word, entry.constants[word.name])}
        assert set(entry.effective) == beyond, kernel


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_of_rows_held_back(name):
    """Rows add up, and quantiles are in order."""
    spec = CATALOG.find("calibration", name)
    assert spec.package == "aiconfigurator-core==0.12.0"
    for kernel, entry in spec.kernels.items():
        assert entry.rows.held >= 20, kernel
        assert entry.rows.fitted <= 2500, kernel
        assert entry.rows.fitted + entry.rows.held <= entry.rows.kept <= entry.rows.read, kernel
        known = entry.residuals
        for each in (known, *known.bands):
            assert each.q10 <= each.q50 <= each.q90, kernel
