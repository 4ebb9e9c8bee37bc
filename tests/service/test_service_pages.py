"""The page over HTTP: what is shown, what forms do, what is refused."""

from __future__ import annotations

import re

import pytest
from page_examples import FAULTY, Browser
from service_examples import DECODE, STATIC, latency_file, served, settings

from planner.service.pages.access import _own
from planner.service.pages.look import assets, bar
from planner.service.tokens import tokens_of

MIXED = DECODE.replace(
    "{decode: {batch: 4, context: 1024}}",
    "{mixed: [{count: 4, new_tokens: 1, kv_tokens: 64}, {count: 1, new_tokens: 9, kv_tokens: 9}]}",
)
"""A step of both kinds, along which nothing is swept."""
READ, WRITE = "r" * 20, "w" * 20


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A service with a store of its own."""
    with served(settings(tmp_path_factory.mktemp("pages") / "plans.db")) as found:
        yield found


@pytest.fixture(scope="module")
def browser(place):
    with Browser(base_url=place) as found:
        found.see("/")
        yield found


@pytest.fixture(scope="module")
def made(browser):
    """The address of a plan that a form made."""
    text = STATIC.replace("name: static", "name: <b>&static").replace("batch: 4", "batch: 3")
    answer = browser.fill("/plans", text=text)
    assert answer.status_code == 303
    return answer.headers["location"]


@pytest.fixture(scope="module")
def run(browser, made):
    """The address of a run that was uploaded."""
    plan = made.removeprefix("/plans/")
    answer = browser.fill("/runs", file=latency_file([1.0] * 30), plan=plan)
    assert answer.status_code == 303
    return answer.headers["location"]


def test_a_fault_is_told_at_its_line_while_one_types(browser):
    answer = browser.fill("/check", text=FAULTY.replace("\n", "\r\n"))
    assert answer.status_code == 200
    assert 'data-line="3" data-column="1"' in answer.text
    assert "unknown field" in answer.text
    assert "did you mean &#39;gpu&#39;?" in answer.text
    assert "No fault found" in browser.fill("/check", text=DECODE).text
    assert "One fault" in browser.fill("/check", text="").text


def test_a_faulty_deployment_comes_back_with_its_faults(browser):
    answer = browser.fill("/plans", text=FAULTY)
    assert answer.status_code == 422
    assert "gpuu: rtx-4090" in answer.text
    assert 'data-line="3"' in answer.text


def test_a_plan_is_shown_with_what_was_typed_escaped(browser, made):
    shown = browser.see(made)
    assert shown.status_code == 200
    assert "<h1>&lt;b&gt;&amp;static</h1>" in shown.text
    assert "<b>" not in shown.text
    assert "batch: 3" in browser.see(f"/?of={made.removeprefix('/plans/')}").text


def test_a_change_is_planned_and_held_against_the_plan_before(browser, made):
    answer = browser.fill(f"{made}/change", set="workload.batch=8 workload.output=64")
    where = answer.headers["location"]
    assert where.endswith(f"?from={made.removeprefix('/plans/')}")
    shown = browser.see(where).text
    assert "static batch of 3, 128 tokens in, 128 out → static batch of 8" in shown
    plans = [made.removeprefix("/plans/"), where.partition("?")[0].removeprefix("/plans/")]
    assert "What followed" in browser.get("/compare", params={"plan": plans}).text
    assert browser.get("/compare", params={"plan": plans[:1]}).status_code == 422
    refused = browser.fill(f"{made}/change", set="workload.batch=none")
    assert refused.status_code == 422
    assert "text/html" in refused.headers["content-type"]


def test_gpus_are_compared_the_plans_own_first(browser, made):
    shown = browser.get(f"{made}/gpus", params={"gpu": ["h100-sxm", "rtx-4090"]}).text
    rows = re.findall(r'<th scope="row">([^<]+)</th>', shown)
    assert rows == ["NVIDIA GeForce RTX 4090", "NVIDIA H100 SXM5 80GB"]
    assert browser.get(f"{made}/gpus", params={"gpu": ["no-such"]}).status_code == 422
    many = [f"gpu-{n}" for n in range(20)]
    assert browser.get(f"{made}/gpus", params={"gpu": many}).status_code == 422


def test_plans_are_filtered_and_an_empty_filter_is_none(browser, made):
    shown = browser.get("/plans", params={"gpu": "", "name": "<b>&static"}).text
    assert f'href="{made}"' in shown
    assert "No plan matches" in browser.get("/plans", params={"name": "nobody"}).text


def test_an_uploaded_run_is_judged_and_accepted_under_any_name(browser, run):
    shown = browser.see(run).text
    # a run of thirty times the same second, which the plan expects in a third of it
    assert '<span class="bad">regress</span>' in shown
    accepted = browser.fill("/baselines", name="rel/1 é", run=run.removeprefix("/runs/"), by="ann")
    assert accepted.headers["location"] == run
    shown = browser.see(run).text
    assert '<span class="good">pass</span> against baseline rel/1 é' in shown
    story = browser.get("/baselines", params={"name": "rel/1 é"})
    assert "Baseline rel/1 é" in story.text
    assert run in story.text
    assert run in browser.get("/runs").text
    picture = browser.get("/baselines/history.svg", params={"name": "rel/1 é", "theme": "dark"})
    assert picture.text.startswith("<svg")


def test_an_address_that_leads_nowhere_is_a_page_to_a_browser_and_a_problem_to_a_program(browser):
    shown = browser.see("/nowhere")
    assert (shown.status_code, "there is no such page" in shown.text) == (404, True)
    assert "<h1>Not found</h1>" in shown.text
    browsers = {"accept": "text/html"}
    for program in (browser.get("/nowhere"), browser.get("/api/v1/nowhere", headers=browsers)):
        assert program.status_code == 404
        assert program.headers["content-type"] == "application/problem+json"


def test_uploads_that_are_none_are_refused_as_pages(browser, made):
    plan = made.removeprefix("/plans/")
    for answer, status in (
        (browser.fill("/runs", file=b"no run at all", plan=plan), 422),
        (browser.fill("/runs", plan=plan), 422),
        (browser.fill("/runs", file=b"{}", plan="abcdefabcdef"), 404),
        (browser.fill("/runs", file=b"{}"), 422),
        (browser.fill("/runs", file=b"{}", plan="%"), 422),
        (browser.fill("/baselines", name="x", run="abcdefabcdef", by="ann"), 404),
        (browser.get("/plans/abcdefabcdef"), 404),
        (browser.get("/baselines", params={"name": "nobody"}), 404),
        (browser.get("/plans/zz"), 422),
    ):
        assert answer.status_code == status
        assert "<h1>" in answer.text


@pytest.mark.parametrize("kind", ["roofline", "modes", "memory", "block", "timeline", "batch"])
def test_charts_are_pictures_without_anything_the_policy_forbids(browser, made, kind):
    answer = browser.get(f"{made}/charts/{kind}.svg", params={"theme": "dark"})
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.text.startswith("<svg")
    assert "<script" not in answer.text
    assert "private" in answer.headers["cache-control"]


def test_a_chart_that_there_is_not_is_refused(browser, made):
    assert browser.get(f"{made}/charts/nothing.svg").status_code == 404
    assert browser.get(f"{made}/charts/modes.svg", params={"theme": "pink"}).status_code == 422
    mixed = browser.fill("/plans", text=MIXED).headers["location"]
    assert "a sweep needs" in browser.get(f"{mixed}/charts/batch.svg").text


def test_no_page_holds_a_script_or_a_style_that_the_policy_would_stop(browser, made, run):
    name = {"name": "nobody"}
    places = ["/", "/plans", made, "/runs", run, "/baselines", "/login", f"{made}/gpus"]
    for shown in [*map(browser.get, places), browser.get("/baselines", params=name)]:
        assert "style=" not in shown.text
        assert "<style" not in shown.text
        assert not re.search(r"\son\w+=", shown.text)
        assert all("src=" in script for script in re.findall(r"<script[^>]*>", shown.text))
        assert "http" not in re.sub(r"https?://127\.0\.0\.1", "", shown.text.partition("<main")[0])


def test_forms_of_nobody_and_of_others_are_refused(browser, place):
    text = {"text": DECODE}
    assert browser.post("/plans", data=text).status_code == 403
    wrong = {**text, "form_token": browser.token[:-1] + "x"}
    assert browser.post("/plans", data=wrong).status_code == 403
    own = {**text, "form_token": browser.token}
    with Browser(base_url=place) as other:
        assert other.post("/plans", data=own).status_code == 403
        other.see("/")
        assert other.post("/plans", data=own).status_code == 403
    evil = {"origin": "https://evil.example"}
    assert browser.post("/plans", data=own, headers=evil).status_code == 403
    header = {"x-form-token": browser.token}
    assert browser.post("/check", data=text, headers=header).status_code == 200


@pytest.mark.parametrize(
    ("code", "text", "status"),
    [("unicode_escape", r"\ud800", 422), ("undefined", "x", 400), ("no-such", "x", 422)],
)
@pytest.mark.parametrize("path", ["/plans", "/login", "/check", "/baselines"])
def test_a_form_in_a_strange_code_is_refused_and_harms_nothing(browser, path, code, text, status):
    fields = {"form_token": browser.token, "text": text, "token": text, "name": text, "run": text}
    parts = [
        f'--x\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    headers = {"content-type": f"multipart/form-data; boundary=x; charset={code}"}
    answer = browser.post(path, content="".join(parts) + "--x--\r\n", headers=headers)
    expected = {"/login": 401, "/check": 200}.get(path, status) if status != 400 else 400
    assert answer.status_code == expected


def test_with_tokens_a_browser_signs_in_first_and_lands_where_it_wanted(tmp_path):
    tokens = tokens_of(None, {"PLANNER_READ_TOKEN": READ, "PLANNER_WRITE_TOKEN": WRITE})
    chosen = settings(tmp_path / "x.db", tokens=tokens, hosts=None)
    with served(chosen) as address, Browser(base_url=address) as browser:
        led = browser.see("/plans?gpu=rtx-4090")
        assert led.headers["location"] == "/login?next=%2Fplans%3Fgpu%3Drtx-4090"
        assert 'value="/plans?gpu=rtx-4090"' in browser.see(led.headers["location"]).text
        assert "not known here" in browser.fill("/login", token="x" * 20).text
        entered = browser.fill("/login", token=READ, next="/plans?gpu=rtx-4090")
        assert entered.headers["location"] == "/plans?gpu=rtx-4090"
        cookie = entered.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert READ not in cookie
        assert "for reading" in browser.see("/").text
        assert browser.fill("/plans", text=DECODE).status_code == 403
        browser.fill("/login", token=WRITE)
        browser.see("/")
        assert browser.fill("/plans", text=DECODE).status_code == 303
        assert browser.fill("/logout").headers["location"] == "/login"
        assert browser.see("/").status_code == 303


@pytest.mark.parametrize(
    ("place", "own"),
    [
        ("/plans?a=b&c=%20", "/plans?a=b&c=%20"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/" + "a" * 600, "/"),
        ("/\nx", "/"),
    ],
)
def test_signing_in_leads_nowhere_else(place, own):
    assert _own(place) == own


def test_files_are_known_by_name_and_kept_by_content(browser):
    for name in assets():
        answer = browser.get(f"/static/{name}")
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    for name in ("look.py", "..%2flook.py", "%2e%2e/look.py", "../look.py"):
        assert browser.get(f"/static/{name}").status_code == 404


@pytest.mark.parametrize(("part", "width"), [(-1.0, "0.0"), (0.25, "25.0"), (7.0, "100.0")])
def test_a_bar_stays_in_its_cell(part, width):
    assert f'<rect width="{width}"' in bar(part)
