"""Tokens, hosts, origins, sessions and the headers of every answer."""

from __future__ import annotations

import httpx
import pytest
from service_examples import DECODE, YAML, served, settings

from planner.errors import UsageError
from planner.service.sessions import Sessions
from planner.service.tokens import Access, tokens_of

READ, WRITE = "r" * 20, "w" * 20


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "tokens").write_text(f"# who\nread {READ}\n\nwrite {WRITE} # ann\n")
    tokens = tokens_of(folder / "tokens", {})
    chosen = settings(folder / "plans.db", tokens=tokens, hosts=None)
    with served(chosen) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_without_a_token_nothing_of_the_store_is_told(guarded):
    for path in ("/api/v1/plans", "/metrics", "/api/v1/openapi.json", "/api/v1/nothing", "/"):
        answer = guarded.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert guarded.get("/healthz").status_code == 200
    assert guarded.get("/readyz").status_code == 200
    assert guarded.get("/api/v1/plans", headers=bearer("x" * 20)).status_code == 401
    assert (
        guarded.get("/api/v1/plans", headers={"authorization": f"Basic {WRITE}"}).status_code == 401
    )
    assert guarded.get("/api/v1/plans", params={"token": WRITE}).status_code == 401


def test_a_reading_token_reads_and_a_writing_token_does_both(guarded):
    assert guarded.get("/api/v1/plans", headers=bearer(READ)).status_code == 200
    refused = guarded.post("/api/v1/plans", content=DECODE, headers={**YAML, **bearer(READ)})
    assert refused.status_code == 403
    made = guarded.post("/api/v1/plans", content=DECODE, headers={**YAML, **bearer(WRITE)})
    assert made.status_code == 201
    assert guarded.get(made.headers["location"], headers=bearer(READ)).status_code == 200


def test_tokens_come_from_a_file_or_the_environment_and_are_not_kept(tmp_path):
    file = tmp_path / "tokens"
    file.write_text(f"read {READ}\n")
    tokens = tokens_of(file, {"PLANNER_WRITE_TOKEN": WRITE})
    assert tokens.access(READ) is Access.READ
    assert tokens.access(WRITE) is Access.WRITE
    assert tokens.access("") is Access.NONE
    assert READ not in repr(tokens)
    assert WRITE not in repr(vars(tokens))
    assert not tokens_of(None, {}).needed


@pytest.mark.parametrize(
    "text", ["read short\n", "admin " + "a" * 20, "read " + "é" * 20, "", "read\n", "read a b\n"]
)
def test_a_file_that_is_none_of_tokens_is_refused_without_telling_it(tmp_path, text):
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        tokens_of(file, {})
    assert "short" not in str(refused.value)
    assert "aaaa" not in str(refused.value)


def test_a_missing_file_of_tokens_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        tokens_of(tmp_path / "none", {})


def test_a_name_that_was_made_to_point_here_is_refused(client):
    assert client.get("/api/v1/plans", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/api/v1/plans", headers={"host": "localhost"}).status_code == 200
    assert client.get("/api/v1/plans", headers={"host": "LOCALHOST:99"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://[bad"},
        {"origin": "file://127.0.0.1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_other_sites_change_nothing(client, headers):
    answer = client.post("/api/v1/plans", content=DECODE, headers={**YAML, **headers})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_pages_of_its_own_do(client, address):
    own = {**YAML, "origin": address, "sec-fetch-site": "same-origin"}
    assert client.post("/api/v1/plans", content=DECODE, headers=own).status_code in (200, 201)
    assert client.options("/api/v1/plans", headers={"origin": "https://x"}).status_code == 405


def test_every_answer_carries_the_headers_that_keep_browsers_safe(client):
    for path in ("/api/v1/plans", "/nowhere", "/api/v1/plans/zz", "/healthz"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert "server" not in headers


def test_a_session_is_signed_ends_and_carries_its_own_form_token(monkeypatch):
    sessions, others = Sessions(), Sessions()
    cookie = sessions.issue(Access.READ)
    assert sessions.access(cookie) is Access.READ
    assert others.access(cookie) is Access.NONE
    assert sessions.access("2" + cookie[1:]) is Access.NONE
    assert sessions.access("é.é.é.é") is Access.NONE
    assert sessions.access(None) is Access.NONE
    token = sessions.form_token(cookie)
    assert sessions.form_is_own(cookie, token)
    assert not sessions.form_is_own(sessions.issue(Access.READ), token)
    assert not sessions.form_is_own(cookie, None)
    assert not sessions.form_is_own(None, token)
    monkeypatch.setattr("planner.service.sessions.time.time", lambda: 4e9)
    assert sessions.access(cookie) is Access.NONE
