"""Errors of kernels inside whole models, on made-up kernels of round times."""

from __future__ import annotations

import math

import pytest

from planner.calibrate.whole_errors import by_case, by_cell, by_family, other_kernels
from planner.calibrate.whole_model_cases import Case
from planner.calibrate.whole_models import Compared, ComparedStep
from planner.cost.kernels.gemm import GemmShape

MODEL = Case("m", tensor=2)


def kernel(rows: float, predicted_s: float, measured_s: float, **more: object) -> Compared:
    """A GEMM of a step, planned cold at twice its predicted time, known to within 10 %."""
    given = {"times": 1, "planned_s": 2 * predicted_s, "found": "exact", "held_back": 0.05} | more
    sure = {"log_low": -0.1, "log_high": 0.1}
    return Compared(
        "gemm",
        "bf16",
        GemmShape(rows, 64, 64),
        measured_s=measured_s,
        predicted_s=predicted_s,
        **sure,
        **given,
    )


def step(*kernels: Compared, gpu: str = "g", device_s: float = 100.0) -> ComparedStep:
    return ComparedStep(gpu, "e", MODEL, "decode", device_s, kernels)


def test_a_kernel_that_many_steps_run_counts_once_and_each_gpu_apart():
    """Errors of +10 % on one GPU and +20 % on another: the median of both is 15 %."""
    once, other = kernel(1, 11.0, 10.0), kernel(1, 12.0, 10.0)
    (found,) = by_family([step(once), step(once), step(other, gpu="h")])
    assert (found.kernels, found.exact) == (2, 2)
    assert (found.errors.median, found.errors.bias) == (pytest.approx(0.15), pytest.approx(0.15))
    assert found.errors.coverage == 0.5, "ln(10/11) = -0.095 is inside of ±0.1, ln(10/12) not"
    assert found.cold == pytest.approx(1.3), "planned at 22 and 24 where 10 was measured"


def test_what_was_not_measured_is_counted_and_has_no_error():
    missing = kernel(2, math.nan, math.nan, found="no row")
    borrowed = kernel(3, math.nan, math.nan, found="borrowed")
    (found,) = by_family([step(kernel(1, 11.0, 10.0), missing, borrowed)])
    assert (found.kernels, found.exact, found.between, found.borrowed) == (3, 1, 0, 1)
    assert found.errors.rows == 1
    assert list(by_family([step(missing)])) == []


def test_a_cell_is_clearly_worse_from_half_as_much_again_or_when_biased():
    """Five kernels off by 8 % where held-back rows are off by 5; errors of both signs by 7 %."""

    def cell(*ratios: float) -> bool:
        kernels = [kernel(n, ratio, 1.0) for n, ratio in enumerate(ratios, 1)]
        (found,) = by_cell([step(*kernels)])
        return found.beyond

    assert cell(1.08, 1.08, 1.08, 0.92, 0.92)
    assert not cell(1.07, 1.07, 0.93, 0.93, 0.93)
    assert cell(1.11, 1.11, 1.11, 1.0, 1.0), "biased by 11 %"
    assert list(by_cell([step(kernel(1, 2.0, 1.0))])) == [], "one kernel says little of a cell"


def test_the_sums_of_a_step_count_repeats():
    """3 · 11 + 1 · 7 = 40 predicted where 3 · 10 + 1 · 10 = 40 were measured: no error at all."""
    many = kernel(1, 11.0, 10.0, times=3)
    few = kernel(2, 7.0, 10.0)
    model, whole = by_case([step(many, few)])
    assert (model.model, model.case, whole.model) == ("m", "as shipped TP2", "all")
    assert (model.errors.median, model.errors.coverage) == (pytest.approx(0), 1)
    assert model.covered == pytest.approx((3 * 22 + 14) / 100)


def test_the_interval_of_a_sum_takes_errors_as_partly_shared():
    """One kernel of 10 ± 10 %: its own part 10 · (e^0.1 − 1) = 1.05 and 5 % shared with its family
    make sqrt(1.05² + 0.5²) = 1.16. So 11.1 measured is inside, and 11.2 is not."""

    def inside(measured_s: float) -> float:
        model, _ = by_case([step(kernel(1, 10.0, measured_s))])
        return model.errors.coverage

    assert (inside(11.1), inside(11.2)) == (1, 0)


def test_shapes_that_another_kernel_has_are_named():
    missing = kernel(2, math.nan, math.nan, found="no row", others=("fp8",))
    (found,) = other_kernels([step(missing, kernel(1, 1.0, 1.0))])
    assert (found.variant, found.others, found.kernels) == ("bf16", ("fp8",), 1)
