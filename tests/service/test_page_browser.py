"""The page in Debian's Chromium: the whole path, by hand and by keyboard, narrow and wide."""

from __future__ import annotations

import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from page_examples import MANY, Browser
from rich.console import Group
from service_examples import STATIC, latency_file, post_plan, served, settings

from planner.report.cells import bullets, heading, small, typed, words
from planner.report.html import page as report_page
from planner.report.pieces import pieces
from planner.service.tokens import tokens_of

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here; `apt-get install chromium`"),
]
SHOTS = os.environ.get("PLANNER_SCREENSHOTS")
"""A folder for pictures of every page, for people to look at."""
VIEWS = [(width, theme) for width in (360, 1440) for theme in ("light", "dark")]
JUDGED = VIEWS if SHOTS else [(360, "dark"), (1440, "light")]
"""Each width and each theme once by axe-core, which takes most of the time; all with pictures."""
NARROW, WIDE = (JUDGED, JUDGED) if SHOTS else (JUDGED[:1], JUDGED[1:])
TOKEN = "w" * 20
PATIENCE_MS = 120_000
"""Pages are quick; the machine that tests them may be busy."""
REFUSED = re.compile(r"Failed to load resource: .* status of 4\d\d ")
AXE = "axe.run({resultTypes: ['violations']}).then(found => found.violations.map(each => each.id + ' ' + each.nodes[0].html))"


def named(view):
    """What a test of a width and a theme is called."""
    return f"{view[0]}-{view[1]}"


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A service of one worker, as it runs outside tests."""
    db = tmp_path_factory.mktemp("browser") / "plans.db"
    with served(settings(db, workers=1)) as found:
        yield found


@pytest.fixture(scope="module")
def axe():
    folder = Path(find_spec("axe_playwright_python").origin).parent
    return (folder / "axe.min.js").read_text("utf-8")


def counted(page, selector, number):
    """So many are there, at last: a click does not wait for the page that it asks for."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_count(number, timeout=PATIENCE_MS)


def shown(page, selector, text):
    """It says so, at last: what a script draws comes after what it draws from."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_text(text, timeout=PATIENCE_MS)


def focused(page, selector):
    """It has the focus, at last: a key is pressed before the page has followed it."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_be_focused(timeout=PATIENCE_MS)


class Look:
    """A page, with what its console said."""

    def __init__(self, page, axe, view):
        self.page, self.axe, self.view = page, axe, view
        self.said = []
        page.on("console", self._told)
        page.on("pageerror", lambda each: self.said.append(str(each)))

    def _told(self, message):
        """Browsers tell of every answer that refuses, at a moment of their own."""
        if not REFUSED.search(message.text):
            self.said.append(message.text)

    def judged(self, name):
        """No violation of axe-core's rules, nothing wider than the screen, a quiet console."""
        if self.view in JUDGED:
            self.page.evaluate(self.axe)
            assert self.page.evaluate(AXE) == []
        too_wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert too_wide <= 0, name
        assert self.said == []
        if SHOTS:
            file = f"{name}-{self.view[0]}-{self.view[1]}.png"
            self.page.screenshot(path=Path(SHOTS) / file, full_page=True)

    def pictures(self):
        """Scroll every chart into view until it is there; once a theme is enough."""
        if self.view not in JUDGED and not SHOTS:
            return
        for image in self.page.query_selector_all("picture img"):
            image.scroll_into_view_if_needed()
            drawn = "image => image.complete && image.naturalWidth > 0"
            self.page.wait_for_function(drawn, arg=image)


@pytest.fixture
def look(chromium, place, axe, request):
    width, theme = view = request.param
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=place
    )
    context.set_default_timeout(PATIENCE_MS)
    yield Look(context.new_page(), axe, view)
    context.close()


@pytest.mark.parametrize("look", VIEWS, indirect=True, ids=named)
def test_from_a_fault_to_a_verdict(look, tmp_path):
    page, file = look.page, tmp_path / "latency.json"
    file.write_bytes(latency_file([1.0] * 30))

    page.goto("/")
    page.fill("#text", STATIC.replace("gpu:", "gpuu:"))
    page.wait_for_selector("#faults .faults")
    shown(page, ".lines .wrong", "3")
    look.judged("error")
    page.click("#faults [data-line='3']")
    focused(page, "#text")
    assert page.evaluate("document.activeElement.selectionStart") == STATIC.index("gpu:")

    page.fill("#text", STATIC)
    page.wait_for_selector("#faults .good")
    counted(page, ".lines .wrong", 0)
    page.click("text=Plan it")
    page.wait_for_url("**/plans/*")
    plan = page.url
    look.pictures()
    look.judged("plan")

    page.check("[name=gpu][value=h100-sxm]")
    page.click("fieldset + button")
    counted(page, "#columns tbody tr", 2)
    look.pictures()
    look.judged("gpus")

    page.goto(plan)
    page.set_input_files("#file", file)
    page.click("text=Upload and judge")
    page.wait_for_url("**/runs/*")
    # 1 s where the plan expects a third of it
    assert page.text_content("#verdict").startswith("regress")
    look.judged("verdict")


@pytest.mark.parametrize("look", NARROW, indirect=True, ids=named)
def test_a_sweep_is_begun_watched_cancelled_and_read(look):
    page = look.page
    page.goto("/sweeps")
    page.fill("[name=over]", "nothing=1")
    page.click("main button.main")
    page.wait_for_selector("[role=alert]")
    look.judged("sweeps-fault")
    page.fill("[name=over]", "backend.flags.max_num_seqs=1:16384:1")
    page.click("main button.main")
    page.wait_for_function("() => document.querySelector('progress')?.value > 0")
    look.judged("sweep-running")
    page.click("text=Cancel it")
    page.wait_for_selector("text=cancelled")
    page.goto("/sweeps")
    page.fill("[name=over]", "gpu=rtx-4090,h100-sxm\nbatch=1:64")
    page.click("main button.main")
    page.wait_for_selector("text=These rows as CSV")
    counted(page, "tbody tr", 2 * 7)
    look.judged("sweep")
    page.goto("/sweeps")
    look.judged("sweeps")


@pytest.mark.parametrize("look", WIDE, indirect=True, ids=named)
def test_what_guards_the_page_and_what_it_refuses(look, tmp_path):
    """Signing in with a wrong token and a right one; a page that there is not."""
    page, tokens = look.page, tokens_of(None, {"PLANNER_WRITE_TOKEN": TOKEN})
    with served(settings(tmp_path / "guarded.db", tokens=tokens)) as place:
        page.goto(f"{place}/plans")
        assert page.url.endswith("/login?next=%2Fplans")
        look.judged("login")
        page.fill("[name=token]", "no token of this service")
        page.click("main button")
        page.wait_for_selector(".bad")
        look.judged("login-wrong")
        page.fill("[name=token]", TOKEN)
        page.click("main button")
        page.wait_for_url("**/plans")
        look.judged("plans-none")
        page.goto(f"{place}/plans/abcdefabcdef")
        look.judged("refused")


@pytest.mark.parametrize("look", NARROW, indirect=True, ids=named)
def test_a_what_if_a_filter_and_a_baseline(look, place):
    with Browser(base_url=place) as browser:
        browser.see("/")
        where = browser.fill("/plans", text=STATIC).headers["location"]
        sent = browser.fill("/runs", file=latency_file([1.0] * 30), plan=where[7:])
    page = look.page
    page.goto(where)
    page.click(".advice button >> nth=0")
    page.wait_for_selector("#changed")
    page.click("text=All that differs")
    page.wait_for_url("**/compare?*")
    look.pictures()
    look.judged("diff")
    page.goto("/plans")
    page.select_option("[name=gpu]", "t4")
    page.wait_for_selector("text=No plan matches")
    page.wait_for_url("**gpu=t4&backend=&name=")
    page.select_option("[name=gpu]", "rtx-4090")
    page.wait_for_selector("#rows table")
    look.judged("plans")
    page.goto(sent.headers["location"])
    page.fill("[name=name]", "main")
    page.fill("[name=by]", "ann")
    page.click("text=Accept as baseline")
    page.click("main a:text-is('main')")
    page.wait_for_url("**/baselines?*")
    look.pictures()
    look.judged("baseline")
    for name in ("runs", "baselines"):
        page.goto(f"/{name}")
        look.judged(name)


@pytest.mark.parametrize("look", [(1440, "light")], indirect=True)
def test_the_keyboard_reaches_all_and_is_caught_nowhere(look):
    page = look.page
    page.goto("/")
    page.keyboard.press("Tab")
    focused(page, ".skip")
    page.keyboard.press("Enter")
    focused(page, "#main")
    page.keyboard.press("Tab")
    focused(page, "#text")
    outline = "getComputedStyle(document.activeElement.parentElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/plans/*")


@pytest.mark.parametrize("look", [(1440, "light")], indirect=True)
def test_a_theme_is_chosen_kept_and_followed_by_charts(look):
    page = look.page
    page.goto("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.click("#theme")
    page.click("#theme")
    assert page.text_content("#theme") == "Theme: dark"
    page.fill("#text", STATIC)
    page.click("text=Plan it")
    page.wait_for_url("**/plans/*")
    assert page.evaluate(ground) == "rgb(20, 23, 26)"
    dark = "() => document.querySelector('picture img').currentSrc.endsWith('theme=dark')"
    page.locator("picture img").first.scroll_into_view_if_needed()
    page.wait_for_function(dark)


@pytest.mark.parametrize("look", [(1440, "light")], indirect=True)
def test_a_file_is_dropped_on_the_sheet(look):
    page = look.page
    page.goto("/")
    page.evaluate(
        """text => {
            const files = new DataTransfer();
            files.items.add(new File([text], "dropped.yaml"));
            const drop = new DragEvent("drop", {dataTransfer: files, cancelable: true});
            document.getElementById("text").dispatchEvent(drop);
        }""",
        STATIC.replace("qwen2.5-0.5b-instruct", "no-such-model"),
    )
    page.wait_for_selector("#faults .faults")
    shown(page, ".lines .wrong", "2")
    assert "no-such-model" in page.input_value("#text")


@pytest.mark.parametrize("look", [(1440, "light")], indirect=True)
def test_a_file_is_opened_again_and_one_too_large_is_told(look, tmp_path):
    page, large, small = look.page, tmp_path / "large.yaml", tmp_path / "small.yaml"
    large.write_text("#" * 2**20 + "\n", "utf-8")
    small.write_text(STATIC, "utf-8")
    page.goto("/")
    page.set_input_files("#open", large)
    shown(page, "#faults", "large.yaml is larger than 1 MiB, too large for a deployment.")
    for _ in range(2):
        page.fill("#text", "nothing")
        page.wait_for_selector("#faults .faults")
        page.set_input_files("#open", small)
        page.wait_for_selector("#faults .good")
        assert page.input_value("#text") == STATIC


@pytest.mark.parametrize("look", [(1440, "light")], indirect=True)
def test_a_plan_of_a_hundred_kernels_is_painted_within_a_second(look, place):
    with Browser(base_url=place) as browser:
        plan = post_plan(browser, MANY).json()
    where, kernels = f"/plans/{plan['plan_id']}", plan["kernels"]
    assert len(kernels) >= 100
    paints = []
    for _ in range(5):  # the best of some: what else this machine does is no matter
        look.page.goto(where, wait_until="domcontentloaded")
        paint = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        paints.append(look.page.wait_for_function(paint).json_value())
        if paints[-1] < 1000:
            break
    counted(look.page, "#kernels ~ * tbody tr", len(kernels))
    assert min(paints) < 1000


def test_a_report_is_no_wider_than_a_phone(chromium, tmp_path):
    """Sentences with names of kernels that no space breaks, and commands; nothing is fetched."""
    long = "flashinfer_trtllm_allreduce_add_rmsnorm_static_fp8_quant(hidden,residual,scale)"
    view = Group(
        typed(f"vllm serve {long}"), bullets([long]), heading(long), words(long), small(long)
    )
    report = tmp_path / "report.html"
    report.write_text(report_page(long, pieces(view)), "utf-8")
    shown = chromium.new_page(viewport={"width": 360, "height": 900})
    asked = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto(report.as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert asked == [report.as_uri()]
    shown.close()
