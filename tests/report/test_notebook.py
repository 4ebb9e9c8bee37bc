"""A notebook run as Jupyter runs it, in a kernel of its own: what its cells show."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

WHY = "the extra `test` installs it"
jupyter_client = pytest.importorskip("jupyter_client", reason=WHY)
nbclient = pytest.importorskip("nbclient", reason=WHY)
nbformat = pytest.importorskip("nbformat", reason=WHY)
for package in ("ipykernel", "pandas", "polars"):
    pytest.importorskip(package, reason=WHY)

ROOT = Path(__file__).parents[2]
CELLS = {
    "plan": """
import altair
import planner
from planner.charts.roofline import roofline_chart

altair.renderers.enable("svg")
spec = "specs/qwen2.5-7b-rtx4090.yaml"
plan = planner.plan_file(spec)
plan
""",
    "change": 'planner.diff(plan, planner.plan_file(spec, ["step.decode.batch=8"]))',
    "verdict": """
from planner.plan.verdict import Judgement, Verdict
row = Judgement("tpot", "median", 0.022, 0.020, "regress", 1.1, (1.05, 1.15), 0.001, "slower")
Verdict("regress", "baseline main", 1.1, (1.05, 1.15), 0.001, "tpot is slower", (row,))
""",
    "chart": "roofline_chart(plan)",
    "pandas": 'plan.to_frame(library="pandas")',
    "polars": 'plan.to_frame(library="polars")',
    "facts": """
import json
frames = [plan.to_frame(library=name) for name in ("pandas", "polars")]
tables = ("kernels", "nodes", "modes", "parts")
json.dumps({
    "time_s": plan.step.time_s,
    "kernels": len(plan.kernels),
    "kinds": [type(frame).__module__.split(".")[0] for frame in frames],
    "shapes": [[list(plan.to_frame(t, n).shape) for t in tables] for n in ("pandas", "polars")],
    "shares": [float(frame["share"].sum()) for frame in frames],
})
""",
}


class _Here(jupyter_client.AsyncKernelManager):
    """A kernel of this interpreter, whether or not one is registered anywhere."""

    @property
    def kernel_spec(self):
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return jupyter_client.kernelspec.KernelSpec(
            argv=command, language="python", display_name="here"
        )


@pytest.fixture(scope="module")
def shown():
    """What each cell shows, by kind of content."""
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS.values()]
    book = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(ROOT)}}
    options = {"timeout": 120, "resources": resources, "kernel_manager_class": _Here}
    nbclient.NotebookClient(book, **options).execute()
    last = (cell.outputs[-1].data for cell in book.cells)
    return dict(zip(CELLS, last, strict=True))


def test_values_and_charts_show_themselves(shown):
    """Tables, with pictures that need no network: a plan has two, a comparison one."""
    pictures = {name: shown[name]["text/html"].count("<svg") for name in ("plan", "change")}
    assert pictures == {"plan": 2, "change": 1}
    assert "tpot is slower" in shown["verdict"]["text/html"]
    assert shown["chart"]["image/svg+xml"].startswith("<svg")
    for name in ("plan", "change", "verdict"):
        assert "<script" not in shown[name]["text/html"]
        assert "http" not in shown[name]["text/html"].replace("http://www.w3.org", "")


def test_a_notebook_in_light_stays_light_where_the_system_is_dark(shown):
    """The rules of the notebook's own theme come after those of the system's."""
    style = shown["plan"]["text/html"].partition("</style>")[0]
    system, light = (
        style.index(words)
        for words in ("prefers-color-scheme: dark", '[data-jp-theme-light="true"] .planner-report')
    )
    assert system < light


def test_frames_of_both_libraries_are_the_plans_tables(shown):
    """Shares of all kernels make one step."""
    facts = json.loads(shown["facts"]["text/plain"].strip("'"))
    assert facts["kinds"] == ["pandas", "polars"]
    pandas, polars = facts["shapes"]
    assert pandas == polars
    assert pandas[0][0] == facts["kernels"]
    assert facts["shares"] == [pytest.approx(1.0), pytest.approx(1.0)]
    for name in ("pandas", "polars"):
        assert "<table" in shown[name]["text/html"]
