"""Reports as HTML and Markdown: the words of the terminal, in one file, nothing fetched."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import report_plans
from rich.console import Group
from rich.panel import Panel

from planner.errors import UsageError
from planner.plan.diff import diff
from planner.plan.verdict import Judgement, Verdict
from planner.report.cells import bullets, facts, heading, small, table, typed, words
from planner.report.choice_sheet import choice_sheet, choice_title
from planner.report.html import body, fragment, page
from planner.report.markdown import escaped, markdown
from planner.report.pieces import (
    Bullets,
    Command,
    Grid,
    Heading,
    Line,
    Pairs,
    Picture,
    pieces,
    plain_pieces,
)
from planner.report.sheets import diff_sheet, plan_sheet, plan_summary, plan_title


def example():
    """A view with one of each."""
    rows = table(("name", "value"))
    rows.add_row(words("a <b>"), "1")
    parts = [words("first", "bold"), heading("Title"), rows, small("a remark"), words("no", "red")]
    parts.append(typed("run --name 'a <b>'"))
    return Group(*parts, bullets(["one", "two"]), facts([("what", "it is")]))


def test_a_view_is_taken_apart_into_what_it_was_made_of():
    assert list(pieces(example())) == [
        Line("first", "strong"),
        Heading("Title"),
        Grid(("name", "value"), (False, True), (("a <b>", "1"),)),
        Line("a remark", "small"),
        Line("no", "bad"),
        Command("run --name 'a <b>'"),
        Bullets(("one", "two")),
        Pairs((("what", "it is"),)),
    ]


def test_pieces_are_plain_data_with_their_kind():
    first, second, *_ = plain_pieces(pieces(example()))
    assert first == {"piece": "line", "text": "first", "tone": "strong"}
    assert second == {"piece": "heading", "text": "Title"}


def test_what_no_view_holds_is_refused():
    with pytest.raises(TypeError, match="Panel is no piece"):
        list(pieces(Panel("x")))


class Tags(HTMLParser):
    """Every tag is closed again, and what is fetched is listed."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.names = [], [], []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.fetched += [value for name, value in attrs if name in {"src", "href", "srcset"}]
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text):
    found = Tags()
    found.feed(text)
    assert not found.open
    return found


def test_html_says_the_same_and_a_name_is_no_tag():
    text = page("<script>", pieces(example()))
    found = parsed(text)
    assert "script" not in found.names
    assert "a &lt;b&gt;" in text
    assert '<td class="number">1</td>' in text
    assert "<li>two</li>" in text
    assert '<pre tabindex="0">run --name &#x27;a &lt;b&gt;&#x27;</pre>' in text


def test_markdown_says_the_same_and_a_name_is_no_markup():
    text = markdown("A | B", pieces(example()))
    assert text.startswith(
        "## A \\| B\n\n**first**\n\n### Title\n\n| name | value |\n| :-- | --: |\n"
    )
    assert "| a \\<b\\> | 1 |" in text
    assert "- one\n- two" in text
    assert "\n\n```sh\nrun --name 'a <b>'\n```\n\n" in text
    assert text.endswith("| what | it is |\n")


def test_no_command_ends_its_own_fence():
    text = markdown("t", pieces(typed("run '```'")))
    assert text == "## t\n\n````sh\nrun '```'\n````\n"


def test_markdown_leaves_pictures_out():
    assert markdown("t", [Picture("<svg></svg>"), Line("x")]) == "## t\n\nx\n"
    assert escaped("a_b*c") == "a\\_b\\*c"


def test_a_report_of_a_plan_holds_every_kernel_and_every_node():
    plan = report_plans.plan()
    found = plan_sheet(plan, (), {"roofline": "<svg></svg>"})
    kernels, nodes = [piece.rows for piece in found if isinstance(piece, Grid)][:2]
    assert len(kernels) == len(plan.kernels)
    assert [row[0].strip() for row in nodes] == [node.id for node in plan.nodes]
    text = page(plan_title(plan), found)
    assert parsed(text).names.count("figure") == 1
    assert plan.parts["model"][:12] in text


def test_nothing_in_a_report_is_fetched():
    found = parsed(page("plan", plan_sheet(report_plans.plan())))
    assert not found.fetched
    assert not {"script", "link", "img", "iframe"} & set(found.names)


def test_paper_is_light_whatever_the_screen_and_of_the_reader_s_own_size():
    """Every ink that the dark theme sets is set again for paper."""
    text = page("plan", pieces(example()))
    dark, paper = (text.rpartition(media)[2] for media in ("scheme: dark)", "@media print"))
    inks = set(re.findall(r"--[a-z-]+(?=:)", dark.partition("}")[0]))
    assert inks == set(re.findall(r"--[a-z-]+(?=:)", paper.partition("}")[0])) >= {"--good"}
    assert "size:" not in text.partition("@page")[2].partition("}")[0]


def test_a_comparison_has_its_picture_after_the_verdict():
    change = diff(report_plans.plan(), report_plans.plan(report_plans.CHAT, "step.decode.batch=8"))
    first, second, *_ = diff_sheet(change, {"diff": "<svg></svg>"})
    assert first.tone == "strong"
    assert isinstance(second, Picture)


def verdict():
    """A run a tenth slower than its baseline."""
    row = Judgement("tpot", "median", 0.022, 0.020, "regress", 1.1, (1.05, 1.15), 0.001, "slower")
    return Verdict("regress", "baseline main", 1.1, (1.05, 1.15), 0.001, "tpot is slower", (row,))


def test_values_show_themselves_in_a_notebook():
    """Only what stands inside the report is styled, not the notebook around it."""
    plan = report_plans.plan()
    for value in (verdict(), replace(plan, kernels=())):
        text = value._repr_html_()
        parsed(text)
        style = text[text.index("<style>") : text.index("</style>")]
        assert "body" not in style
        assert 'class="planner-report"' in text
    assert "tpot is slower" in verdict()._repr_html_()
    assert body(plan_summary(plan)) in fragment(plan_summary(plan))


def test_values_are_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    plan = report_plans.plan()
    kernels = plan.to_frame()
    assert isinstance(kernels, pandas.DataFrame)
    assert list(kernels["name"]) == [kernel.name for kernel in plan.kernels]
    assert plan.to_frame("modes").set_index("mode").time_s["full"] == plan.step.modes["full"].time_s
    assert verdict().to_frame().ratio.tolist() == [1.1]
    change = diff(plan, report_plans.plan(report_plans.CHAT, "step.decode.batch=8"))
    assert change.to_frame().part.tolist() == ["workload"]


def test_an_unknown_table_and_a_missing_library_are_refused(monkeypatch):
    with pytest.raises(UsageError, match="did you mean 'kernels'"):
        report_plans.plan().to_frame("kernel")
    with pytest.raises(UsageError, match=r"not of 'arrow' \(one of pandas, polars\)"):
        report_plans.plan().to_frame(library="arrow")
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match="neither pandas nor polars is installed"):
        report_plans.plan().to_frame()
    with pytest.raises(UsageError, match=r"polars is not installed \(pip install polars"):
        report_plans.plan().to_frame(library="polars")


def choice(**changes):
    """A row of `planner choose --json`."""
    return {
        "units": 2,
        "offer": "l40s",
        "parallel": {"tensor": 1, "pipeline": 1, "expert": 1, "data": 2},
        "sets": ["gpu=l40s", "parallel.data=2", "precision.weights=fp8"],
        "unsure": ["tpot"],
        "margins": [{"margin": 0.25}, {"margin": 0.1}],
        "spending": {
            "price_per_hour": 1.72,
            "per_million_input": 0.1,
            "per_million_output": 0.5,
            "per_million_tokens": None,
            "power_w": 700.0,
            "kwh_per_million_output": 0.2,
        },
        "serving": {
            "ttft_s": {"value": 0.2},
            "tpot_s": {"value": 0.02},
            "output_tokens_per_s": {"value": 1000.0},
        },
        "command": {
            "line": "vllm serve x",
            "install": "vllm==0.26",
            "servers": 2,
            "unsaid": ["y"],
            "notes": ["needs z"],
        },
        **changes,
    }


def test_a_choice_is_read_from_its_document():
    document = {
        "model": "m",
        "workload": {"concurrency": 32, "input": 1024, "output": 256},
        "targets": {"tpot_s": 0.03},
        "max_gpus": 8,
        "choices": [choice()],
        "front": [],
        "nearest": [],
        "given": None,
        "planned": 40,
        "left_out": [{"reason": "it does not fit", "count": 3}],
    }
    found = choice_sheet(document, "<svg></svg>")
    (row,) = next(piece.rows for piece in found if isinstance(piece, Grid))
    assert row == (
        *("2 × l40s", "dp 2", "precision.weights=fp8", "1.72"),
        *("200 ms", "20.0 ms", "1,000", "10.0 % ?", "0.50"),
    )
    assert Heading("To run the cheapest, 2 such servers") in found
    assert [piece.text for piece in found if isinstance(piece, Command)] == [
        "pip install vllm==0.26",
        "vllm serve x",
    ]
    assert Bullets(("not in the command: y", "needs z")) in found
    spent = next(piece for piece in found if isinstance(piece, Grid) and "kW" in piece.headers)
    assert spent.rows == (("1", "2 × l40s", "0.10", "0.50", "–", "0.7", "0.2"),)
    assert choice_title(document) == "Hardware for m"
    none = choice_sheet({**document, "choices": [], "nearest": [choice(command=None)]})
    assert Line("nothing that was planned keeps the limits", "bad") in none
