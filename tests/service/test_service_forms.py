"""Forms of a page: only those that this service showed to this browser are taken."""

from __future__ import annotations

import httpx
import pytest
from fastapi import Depends, Request, Response
from service_examples import served, settings

from planner.service import app as whole
from planner.service.desk import desk_of
from planner.service.forms import own_form, remember, session_of, signed_in
from planner.service.tokens import tokens_of

WRITE = "w" * 20


async def show(request: Request):
    session = session_of(request)
    response = Response(desk_of(request).sessions.form_token(session))
    remember(response, session, secure=False)
    return response


async def login(request: Request):
    response = Response("in")
    remember(response, signed_in(desk_of(request), (await request.body()).decode()), secure=False)
    return response


async def send():
    return Response("taken")


@pytest.fixture(scope="module")
def make():
    """Serves a page of three routes."""
    create = whole.create

    def with_page(chosen):
        app = create(chosen)
        app.add_api_route("/page", show)
        app.add_api_route("/login", login, methods=["POST"])
        app.add_api_route("/send", send, methods=["POST"], dependencies=[Depends(own_form)])
        return app

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("planner.service.serve.create", with_page)
        yield


def test_a_form_is_taken_from_the_page_that_showed_it_alone(make, tmp_path):
    with served(settings(tmp_path / "x.db")) as address, httpx.Client(base_url=address) as browser:
        shown = browser.get("/page")
        cookie = shown.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        token = shown.text
        assert browser.post("/send", data={"form_token": token}).text == "taken"
        assert browser.post("/send", headers={"x-form-token": token}).text == "taken"
        assert browser.get("/page").text == token
        assert browser.post("/send", data={"form_token": token[:-1] + "x"}).status_code == 403
        assert browser.post("/send").status_code == 403
        with httpx.Client(base_url=address) as other:
            assert other.post("/send", data={"form_token": token}).status_code == 403
            other.get("/page")
            assert other.post("/send", data={"form_token": token}).status_code == 403


def test_with_tokens_a_browser_signs_in_first(make, tmp_path):
    chosen = settings(tmp_path / "x.db", tokens=tokens_of(None, {"PLANNER_READ_TOKEN": WRITE}))
    with served(chosen) as address, httpx.Client(base_url=address) as browser:
        assert browser.get("/page").status_code == 401
        assert browser.post("/login", content="wrong").status_code == 401
        assert browser.post("/login", content=WRITE).status_code == 200
        token = browser.get("/page").text
        assert browser.get("/api/v1/plans").status_code == 200
        answer = browser.post("/send", data={"form_token": token})
        assert answer.status_code == 403  # it is a token for reading
        assert "reading" in answer.json()["detail"]
