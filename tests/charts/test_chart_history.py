"""History as a chart: what is drawn, in which unit, and in which kinds of file."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from planner.charts.files import format_of, save_chart
from planner.charts.history import history_chart
from planner.errors import UsageError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def row(day: int = 0, measured: float = 0.020, **changes):
    """A run a day: 20 ms where 25 ms are predicted, 22 to 30 ms in 80 % of cases."""
    return {
        "run_id": f"{day:012x}",
        "plan_id": "3f2a" * 3,
        "plan": "chat",
        "recorded_at": NOON + timedelta(days=day),
        "baseline": None,
        "tool": "vllm 0.26",
        "metric": "tpot",
        "statistic": "median",
        "unit": "s",
        "measured": measured,
        "predicted": 0.025,
        "slowest": 0.030,
        "fastest": 0.022,
        "ratio": measured / 0.025,
    } | changes


def panels(rows):
    """Each panel's title and its rows of data: those of predictions, then those of runs."""
    spec = history_chart(rows).to_dict()
    return [
        (panel["title"]["text"], [_data(spec, layer) for layer in panel["layer"]], panel)
        for panel in spec["vconcat"]
    ]


def _data(spec, layer):
    return (
        spec["datasets"][layer["data"]["name"]]
        if "name" in layer["data"]
        else layer["data"]["values"]
    )


def spans(rows):
    return panels(rows)[0][1][0]


def points(rows):
    return panels(rows)[0][1][-1]


def unit(rows):
    """The title of the axis of what was measured."""
    return panels(rows)[0][2]["layer"][3]["encoding"]["y"]["title"]


def test_every_figure_has_a_panel_in_the_order_of_the_vocabulary():
    rows = [
        row(metric="output_throughput", measured=90.0),
        row(),
        row(statistic="mean"),
        row(metric="ttft"),
    ]
    assert [title for title, _, _ in panels(rows)] == [
        "Time to first token (TTFT), median",
        "Time per output token (TPOT), mean",
        "Time per output token (TPOT), median",
        "Output throughput, median",
    ]


def test_a_prediction_spans_its_runs_with_a_margin():
    """Runs on days 0 and 10; 4 % of ten days are 9.6 hours on either side."""
    (span,) = spans([row(0), row(10)])
    margin = timedelta(hours=9.6)
    assert datetime.fromisoformat(span["start"]) == NOON - margin
    assert datetime.fromisoformat(span["end"]) == NOON + timedelta(days=10) + margin
    assert (span["predicted"], span["fastest"], span["slowest"]) == pytest.approx((25, 22, 30))


def test_one_run_has_a_prediction_that_can_be_seen():
    (span,) = spans([row(0)])
    assert datetime.fromisoformat(span["end"]) > datetime.fromisoformat(span["start"])


@pytest.mark.parametrize(
    ("apart_s", "named"),
    [
        (20, "%H:%M:%S"),
        (3 * 3600, "%m-%d %H:%M"),
        (3 * 86400, "%m-%d %H:%M"),
        (7 * 86400, "%Y-%m-%d"),
    ],
)
def test_no_two_ticks_are_named_alike(apart_s, named):
    """Six ticks of runs that far apart."""
    last = row(1, recorded_at=NOON + timedelta(seconds=apart_s))
    spec = history_chart([row(0), last]).to_dict()
    assert f'"format": "{named}"' in json.dumps(spec)
    ticks = {(NOON + n * timedelta(seconds=apart_s) / 6).strftime(named) for n in range(6)}
    assert len(ticks) == 6


def test_points_are_runs_with_what_a_reader_asks_of_them():
    (point,) = points([row(baseline="main")])
    assert point["value"] == pytest.approx(20)
    assert point["at"] == "2026-03-01T12:00:00+00:00"
    assert point["plan"] == "chat (3f2a3f2a)"
    assert (point["kind"], point["baseline"]) == ("baseline", "main")
    assert (point["measured"], point["predicted"], point["ratio"]) == (
        "20.0 ms",
        "25.0 ms",
        "0.800",
    )
    assert points([row()])[0]["kind"] == "run"


def test_moments_of_other_zones_are_drawn_in_utc():
    """14:00 at two hours east of Greenwich is noon."""
    east = NOON.astimezone(timezone(timedelta(hours=2)))
    (point,) = points([row(recorded_at=east)])
    assert (point["at"], point["when"]) == ("2026-03-01T12:00:00+00:00", "2026-03-01 12:00:00")


@pytest.mark.parametrize(
    ("metric", "largest", "expected", "value"),
    [
        ("latency", 12.5, "s", 12.5),
        ("latency", 1.0, "s", 1.0),
        ("tpot", 0.9, "ms", 900.0),
        ("step", 0.0009, "us", 900.0),
        ("step", 9e-8, "us", 0.09),
        ("output_throughput", 900.0, "tokens/s", 900.0),
    ],
)
def test_a_panel_is_in_the_unit_of_its_largest_figure(metric, largest, expected, value):
    rows = [row(0, largest, metric=metric), row(1, largest / 3, metric=metric)]
    assert unit(rows) == expected
    assert points(rows)[0]["value"] == pytest.approx(value)


def test_plans_have_predictions_of_their_own_and_a_run_of_none_has_none():
    nothing = dict.fromkeys(("plan_id", "plan", "predicted", "slowest", "fastest", "ratio"))
    rows = [row(0), row(1, plan_id="91c0" * 3, plan="chat", predicted=0.05), row(2, **nothing)]
    assert [(s["plan"], s["predicted"]) for s in spans(rows)] == [
        ("chat (3f2a3f2a)", pytest.approx(25)),
        ("chat (91c091c0)", pytest.approx(50)),
    ]
    assert points(rows)[2]["plan"] == "no plan"
    assert "3 runs of 2 plans, 2026-03-01 to 2026-03-03" in str(
        history_chart(rows).to_dict()["title"]
    )
    assert history_chart([row(2, **nothing)]).to_dict()


@pytest.mark.parametrize("end", [None, float("inf")])
def test_a_prediction_without_an_interval_is_a_line(end):
    """As of the bare roofline, or where an end is not finite."""
    (span,) = spans([row(slowest=end)])
    assert span["slowest"] == span["predicted"]


def test_nothing_to_draw_is_refused():
    with pytest.raises(UsageError, match="no recorded run matches"):
        history_chart([])


@pytest.fixture(scope="module")
def chart():
    """With a name that would end a script."""
    rows = [
        row(day, plan="</script><b>chat</b>", baseline="main" if day else None) for day in range(3)
    ]
    return history_chart(rows)


class Tags(HTMLParser):
    """The tags of a page outside its scripts, with the names of their attributes."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, {name for name, _ in attrs}))


def test_html_holds_all_it_needs_and_no_name_can_end_its_script(chart, tmp_path):
    """Nothing is fetched, so it opens on a machine without network."""
    file = tmp_path / "chart.html"
    save_chart(chart, file)
    page = file.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert {name for name, _ in tags.found} == {
        "html",
        "head",
        "meta",
        "style",
        "script",
        "body",
        "div",
    }
    assert not [words for _, words in tags.found if {"src", "href"} & words]
    assert "\\u003c/script>\\u003cb>chat" in page
    assert "<b>chat" not in page
    assert "vegaEmbed" in page


def test_png_and_svg_are_pictures(chart, tmp_path):
    save_chart(chart, tmp_path / "chart.PNG")
    assert (tmp_path / "chart.PNG").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    save_chart(chart, tmp_path / "chart.svg")
    picture = ET.parse(tmp_path / "chart.svg").getroot()
    words = " ".join(text for text in picture.itertext())
    for word in ("Measured and predicted over time", "ms", "main", "less is better"):
        assert word in words


def test_json_is_vega_lite(chart, tmp_path):
    save_chart(chart, tmp_path / "chart.json")
    spec = json.loads((tmp_path / "chart.json").read_text(encoding="utf-8"))
    assert "vega-lite" in spec["$schema"]
    assert len(spec["vconcat"]) == 1


@pytest.mark.parametrize("name", ["chart.gif", "chart", ".html"])
def test_a_name_without_a_known_end_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match=r"let the name end in .html, .json, .pdf, .png, .svg"):
        format_of(tmp_path / name)


def test_a_file_that_cannot_be_written_is_refused(chart, tmp_path):
    with pytest.raises(UsageError, match=r"chart.png cannot be written: No such file"):
        save_chart(chart, tmp_path / "absent" / "chart.png")


@pytest.mark.parametrize("package", ["altair", "vl_convert"])
def test_without_the_extra_the_line_to_install_it_is_printed(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        UsageError, match=r"is not installed \(pip install 'inference-planner\[charts\]'"
    ):
        history_chart([row()])
