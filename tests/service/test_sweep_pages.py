"""Sweeps as pages: begun by a form, cancelled by another, their rows as a table and a file."""

from __future__ import annotations

import csv
import io
import time

import pytest
from page_examples import FAULTY, Browser
from service_examples import DECODE

from planner.plan.swept import RANKINGS
from planner.service.pages.sweeps import SORTS, table


@pytest.fixture
def browser(address):
    with Browser(base_url=address) as found:
        found.see("/sweeps")
        yield found


def begin(browser, over, text=DECODE, sort="step_ms"):
    return browser.fill("/sweeps", text=text, over=over, sort=sort)


def ended(browser, place):
    for _ in range(1200):  # a minute
        found = browser.see(place).text
        if 'id="progress"' not in found:
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_a_form_begins_a_sweep_whose_best_rows_are_a_table_and_a_file(browser):
    """2 GPUs × 2 batches, each axis a line of the form."""
    place = begin(browser, "gpu=rtx-4090,h100-sxm\r\nbatch=1:2").headers["location"]
    shown = ended(browser, place)
    assert "4 rows, 4 fit" in shown
    assert shown.count("<td") == 4 * shown.count("<th ")
    answer = browser.get(f"{place}/rows.csv")
    assert answer.headers["content-disposition"].startswith("attachment")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 4
    assert {row["gpu"] for row in rows[:2]} == {"h100-sxm"}
    steps = [float(row["step_ms"]) for row in rows]
    assert steps == sorted(steps)
    assert place in browser.see("/sweeps").text


def test_a_running_sweep_shows_how_far_it_is_and_is_cancelled_by_a_form(browser):
    place = begin(browser, f"backend.flags.max_num_seqs=1:{2**14}:1").headers["location"]
    shown = browser.see(place).text
    assert f'data-events="/api/v1{place}/events"' in shown
    assert browser.get(f"{place}/rows.csv").status_code == 404
    assert browser.fill(f"{place}/cancel").headers["location"] == place
    assert "cancelled" in ended(browser, place)
    assert browser.post(f"{place}/cancel").status_code == 403


def test_what_is_wrong_with_a_sweep_is_said_beside_what_was_typed(browser):
    wrong = begin(browser, "batch=1:2", text=FAULTY)
    assert wrong.status_code == 422
    assert "gpuu" in wrong.text.split('role="alert"')[1].split("</div>")[0]
    assert "batch=1:2</textarea>" in wrong.text
    assert begin(browser, "nothing=1").status_code == 422
    assert begin(browser, "batch=1:2", sort="colour").status_code == 422
    assert begin(browser, " ".join(["batch=1"] * 33)).status_code == 422


def test_a_sweep_of_a_plan_begins_with_its_deployment(browser, plan):
    assert "name: static" in browser.see(f"/sweeps?of={plan['plan_id']}").text


def test_every_figure_that_rows_are_ranked_by_has_its_words():
    assert SORTS.keys() == RANKINGS.keys()


def test_no_cell_of_the_file_is_a_formula_and_missing_figures_are_empty(browser):
    """A name of a user's that a spreadsheet would obey is text; rows have what they have."""
    place = begin(browser, "name==1+1,b").headers["location"]
    ended(browser, place)
    text = browser.get(f"{place}/rows.csv").text
    assert "'=1+1" in text
    found = [
        {"cells": {"batch": "1"}, "predicted": {"a": {"value": 1.0}}, "fits": True, "bound": "x"},
        {"cells": {"batch": "2"}, "predicted": {"b": {"value": 2.0}}, "fits": False, "bound": "y"},
    ]
    rows = [{**row, "tok_s_per_gpu": 3.0, "usd_per_mtok": None} for row in found]
    columns, cells = table(rows)
    assert columns == ["batch", "fits", "a", "b", "tok_s_per_gpu", "bound"]
    assert cells == [["1", "yes", 1.0, None, 3.0, "x"], ["2", "no", None, 2.0, 3.0, "y"]]
    assert table([]) == ([], [])
