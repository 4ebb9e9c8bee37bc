"""Charts in grey and for the colour-blind: fills differ in luminance, marks in shape and dash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise

import drawn
import pytest

from planner.charts import front, gpus, memory, modes, roofline
from planner.charts.history import history_chart
from planner.charts.launches import timeline_chart
from planner.charts.theme import INKS, hue

THEMES = ("light", "dark")
DEUTERANOPIA = (
    (0.367322, 0.860646, -0.227968),
    (0.280085, 0.672501, 0.047413),
    (-0.011820, 0.042940, 0.968881),
)
"""Machado, Oliveira and Fernandes (2009), table 1, severity 1.0; on linear RGB."""


def linear(colour: str) -> list[float]:
    """sRGB's transfer function (IEC 61966-2-1) undone."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2."""
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def contrast(a: str, b: str) -> float:
    """Contrast by WCAG 2: 1 where two colours are one grey."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def seen(colour: str) -> list[float]:
    """As a person without green cones sees it, in linear RGB."""
    return [sum(w * c for w, c in zip(row, linear(colour), strict=True)) for row in DEUTERANOPIA]


def test_the_measures_are_right():
    """Black against white is 21; a grey stays itself, since each row of the matrix sums to one."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert seen("#808080") == pytest.approx(linear("#808080"), abs=1e-5)


@pytest.mark.parametrize("theme", THEMES)
def test_parts_of_a_step_are_three_greys(theme):
    hues = [hue(theme, name) for name in modes._HUES.values()]
    assert min(contrast(a, b) for a, b in combinations(hues, 2)) >= 1.4


@pytest.mark.parametrize("theme", THEMES)
def test_neighbours_in_a_stack_are_two_greys_or_named(theme):
    """Memory before what follows it; parts of memory, which are thin, in the legend's order."""
    bounds = {name: hue(theme, colour) for name, colour in gpus._BOUNDS.items()}
    for other in ("launch", "compute", "network"):
        assert contrast(bounds["memory"], bounds[other]) >= 1.25
    assert contrast(bounds["launch"], bounds["launches and gaps"]) >= 1.5
    parts = [hue(theme, colour) for colour in memory._HUES.values()]
    assert all(a != b for a, b in pairwise(parts))


@pytest.mark.parametrize("theme", THEMES)
def test_colours_of_bounds_differ_without_green_cones(theme):
    found = [seen(hue(theme, colour)) for _, colour in roofline.BOUNDS.values()]
    for a, b in combinations(found, 2):
        assert max(abs(x - y) for x, y in zip(a, b, strict=True)) >= 0.08


@pytest.mark.parametrize("theme", THEMES)
def test_marks_stand_out_from_the_ground_and_words_can_be_read(theme):
    """3 for what is drawn most, 4.5 for words, as WCAG 2.1 asks."""
    ink = INKS[theme]
    for name in ("blue", "green", "vermillion"):
        assert contrast(hue(theme, name), ink.ground) >= 3
    assert min(contrast(colour, ink.ground) for colour in (ink.text, ink.faint)) >= 4.5


def test_what_has_a_colour_has_a_shape_of_its_own():
    for kinds in (roofline.BOUNDS, front._KINDS):
        shapes = [shape for shape, _ in kinds.values()]
        assert len(set(shapes)) == len(shapes)


def test_a_timeline_says_bounds_by_shapes_too():
    spec = timeline_chart(drawn.plan()).to_dict()
    (signs,) = (layer for layer in spec["layer"] if "shape" in layer["encoding"])
    scale = signs["encoding"]["shape"]["scale"]
    assert scale["range"] == [roofline.BOUNDS[name][0] for name in scale["domain"]]


@pytest.mark.parametrize("theme", THEMES)
def test_plans_of_a_history_have_dashes_and_one_legend(theme):
    """Colour and dash of one domain and title stand in one legend."""
    head = {"tool": "t", "metric": "step", "statistic": "mean", "unit": "s", "baseline": None}
    head |= {"predicted": 0.02, "fastest": 0.018, "slowest": 0.03, "measured": 0.02, "ratio": 1.0}
    rows = [
        head
        | {"run_id": f"{plan}{day}", "plan_id": plan * 12, "plan": "chat"}
        | {"recorded_at": datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day)}
        for plan in "abc"
        for day in range(2)
    ]
    (panel,) = history_chart(rows, theme=theme).to_dict()["vconcat"]
    line = next(each["encoding"] for each in panel["layer"] if each["mark"]["type"] == "rule")
    color, dash = line["color"], line["strokeDash"]
    assert (color["title"], color["scale"]["domain"]) == (dash["title"], dash["scale"]["domain"])
    dashes = dash["scale"]["range"][: len(color["scale"]["domain"])]
    assert len({tuple(each) for each in dashes}) == 3
