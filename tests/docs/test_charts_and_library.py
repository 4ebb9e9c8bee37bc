"""The pages on charts and on the library: nothing is missing, and what they show runs."""

import re

import pytest
from docs_pages import ROOT, blocks, headings, text

import planner
from planner.cli.chart import KINDS
from planner.report.frames import TABLES


def test_every_kind_of_chart_has_its_picture():
    """Batch and context share a section, and served loads have two pictures in it."""
    named = set(re.findall(r"pictures/(\w+)\.svg\)", text("docs/charts.md")))
    assert named == {*KINDS, "users", "rate"}
    assert {*KINDS} - {"batch", "context"} <= set(headings("docs/charts.md"))


def test_pictures_are_small_and_fetch_nothing():
    files = sorted((ROOT / "docs/pictures").glob("*.svg"))
    assert files
    for file in files:
        picture = file.read_text("utf-8")
        assert len(picture) < 60_000, file.name
        assert "<script" not in picture
        assert not re.search(r'(?:href|src)="', picture)


@pytest.mark.parametrize("block", blocks("docs/library.md", "python"))
def test_examples_of_the_library_run(block, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    exec(compile(block, "library.md", "exec"), {})
    assert "Error" not in capsys.readouterr().out


def test_every_public_name_is_on_the_page_of_the_library():
    """Classes that only annotate or are raised are told in words."""
    told = set(re.findall(r"\w+", text("docs/library.md")))
    assert set(planner.__all__) - told <= {"__version__", "Advice", "Question", "Roofline"}


def test_tables_of_frames_are_on_the_page():
    page = text("docs/library.md")
    for kind, tables in TABLES.items():
        names = ", ".join(f"`{name}`" for name in tables)
        assert f"| `{kind.__name__}` | {names} |" in page
