"""Intensity, stored plans and the catalogue as tables."""

from datetime import UTC, datetime

from report_plans import CATALOG, assert_fits, text

from planner.plan.intensity import intensity
from planner.report.catalog import check_view
from planner.report.tables import intensity_view, plans_view, rows_view
from planner.spec.question import blocks_of

ROW = {
    "plan_id": "3f2a00000001",
    "created_at": datetime(2026, 11, 30, 12, 0, tzinfo=UTC),
    "name": "chat",
    "model": "qwen2.5-7b-instruct",
    "gpu": "rtx-4090",
    "backend": "vllm",
    "step_time_s": 0.0182,
    "fits": True,
}


def table(convention: str):
    model = CATALOG.find("model", "qwen2.5-7b-instruct")
    gpu = CATALOG.find("gpu", "rtx-4090")
    return intensity(
        model, blocks_of(model, CATALOG), gpu, (1, 256), (128, 512, 2048), convention=convention
    )


def test_the_textbook_table_is_that_of_the_lesson_to_the_digit():
    shown = text(intensity_view(table("textbook")))
    # 2·256·3584·3584 / ((256·3584 + 3584·3584 + 256·3584)·2) = 224.0
    assert "q_proj, o_proj layer 3584 × 3584 224.0 163.9 compute" in shown
    assert "k_proj, v_proj layer 3584 × 512 162.9 163.9 memory" in shown
    assert "gate_proj, up_proj layer 3584 × 18944 236.0 163.9 compute" in shown
    assert "down_proj layer 18944 × 3584 236.0 163.9 compute" in shown
    # decode 2·28 / (4·2) = 7; prefill 7·S
    assert "attention layer 128 7.0 memory 7.0 896.0 compute" in shown
    assert "attention layer 512 7.0 memory 7.0 3584.0 compute" in shown
    assert "attention layer 2,048 7.0 memory 7.0 14336.0 compute" in shown


def test_intensity_fits_100_columns():
    assert_fits(intensity_view(table("exact")))


def test_stored_plans_fit_100_columns_with_names_of_any_length():
    long = ROW | {"name": "n" * 200, "model": "m" * 80, "gpu": "g" * 80, "backend": "b" * 80}
    assert_fits(plans_view([ROW, long]))


def test_a_plan_that_does_not_fit_is_marked_in_the_list():
    assert text(plans_view([ROW | {"fits": False}])).endswith(" NO")


def test_an_empty_store_says_how_to_fill_it():
    assert "`planner plan FILE` makes one" in text(plans_view([]))


def test_a_fields_name_says_its_unit():
    row = {
        "name": "x",
        "memory_bytes": 2.0**34,
        "bandwidth_bytes_per_s": 1.008e12,
        "power_w": 450.0,
    }
    assert text(rows_view([row])).endswith("x 16.0 GiB 1.01 TB/s 450 W")


def test_a_check_that_finds_faults_lists_them():
    shown = text(check_view({"gpus": 1}, ("m", 0.002), ["g: l2 has no source"]))
    assert "worst m, 0.2000 %" in shown
    assert "1 found wrong: - g: l2 has no source" in shown
