"""What nobody should send: each is refused with a reason, none is an error of the service."""

from __future__ import annotations

import json
import socket

import httpx
import pytest
from service_examples import BYTES, DECODE, YAML, latency_file, limits, post_plan, served, settings

LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
ODD_TEXTS = {
    "nothing": b"",
    "a space": b" ",
    "deep lists": b"a: " + b"[" * 100_000,
    "deep mappings": b"a: " + b"{a: " * 50_000,
    "deep blocks": b"\n".join(b" " * n + b"a:" for n in range(1000)),
    "laughs": LAUGHS.encode(),
    "aliases of itself": b"a: &a [*a]\n",
    "a NUL": b"model: a\0b\n",
    "a NUL, escaped": b'{"model": "a\\u0000b", "gpu": "x"}',
    "UTF-16": DECODE.encode("utf-16"),
    "latin-1": "name: caf\xe9\n".encode("latin-1"),
    "cut UTF-8": b"name: \xe2\x82",
    "half a surrogate": b'{"name": "\\ud800"}',
    "a BOM": b"\xef\xbb\xbf" + DECODE.encode(),
    "only a BOM": b"\xef\xbb\xbf",
    "tags": b"!!python/object/apply:os.system ['true']\n",
    "merge": b"a: &a {b: 1}\n<<: *a\n",
    "two documents": DECODE.encode() + b"---\n" + DECODE.encode(),
    "a list": b"[1, 2]",
    "a scalar": b"42",
    "a long key": b"a" * 500_000 + b": 1\n",
    "many keys": b"\n".join(b"k%d: 1" % n for n in range(5_000)),
    "twice": b"model: a\nmodel: b\n",
    "ESC": b"name: \x1b[31m\n",
    "vertical": "name: a\u2028b\n".encode(),
    "a path": b"model: ../../../../etc/passwd\n",
    "a directive": b"%YAML 99.9\n---\na: 1\n",
}  # fmt: skip
ODD_VALUES = {
    "step.decode.batch": ["9" * 5000, "-1", "0", "1e400", ".nan", ".inf", "0x" + "f" * 4000, "true", "1_0",
                          str(2**63), str(2**1000)],
    "step.decode.context": [str(10**18), "-5", "1.5", str(2**200)],
    "parallel.tensor": ["0", "3", str(2**40), "-8"],
    "parallel": ["{tensor: 1000000, pipeline: 1000000, data: 1000000}"],
    "memory.utilization": ["0", "1e-300", ".nan", "-1"],
    "price": ["1e308 USD/h", "nan USD/h", "-1 USD/h", "0"],
    "host.launch": ["1e300 s", "0 s", "-1 us", "1 TB"],
    "name": ['"' + "n" * 100_000 + '"', '"\\x00"', '"\\uD800"', "../../x", "<script>alert(1)</script>"],
    "backend.version": ['"9.9.9"', '"' + "9" * 3000 + '"', "[]"],
    "backend.flags": ["{max_num_seqs: 99999999999999999999}", "{a: {b: {c: 1}}}", "[]"],
    "workload": ["{batch: 1000000000, input: 1000000000, output: 1000000000}",
                 "{rate: 1e308, input: 1, output: 1}", "{concurrency: 999999999, input: 1, output: 1}"],
    "a.b.c.d.e.f.g.h.i.j": ["1"],
    "step.decode.batch.x": ["1"],
    "": ["1"],
}  # fmt: skip


def refused(answer):
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:500])
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    return answer


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_odd_texts_are_refused_at_their_place(client, name):
    answer = post_plan(client, ODD_TEXTS[name])
    if name in ("a BOM", "UTF-16"):
        assert answer.status_code in (200, 201, 422)
    else:
        refused(answer)


@pytest.mark.parametrize("path", ODD_VALUES)
def test_odd_values_never_break_the_service(client, path):
    for value in ODD_VALUES[path]:
        answer = post_plan(client, DECODE, set=f"{path}={value}"[:500], save="false")
        assert answer.status_code < 500, (path, value[:80], answer.text[:500])


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_odd_files_are_refused_as_runs(client, plan, name):
    query = {"plan": plan["plan_id"]}
    refused(client.post("/api/v1/runs", content=ODD_TEXTS[name], params=query, headers=BYTES))


@pytest.mark.parametrize(
    "raw",
    [
        b"SQLite format 3\x00" + bytes(200_000),
        b"\x1f\x8b" + b"\xff" * 1000,
        b'{"avg_latency": 1e999, "latencies": [], "percentiles": {}}',
        b'{"avg_latency": NaN, "latencies": [NaN], "percentiles": {"50": Infinity}}',
        b'{"avg_latency": -1, "latencies": [-1], "percentiles": {}}',
        b'{"avg_latency": ' + b"9" * 10_000 + b', "latencies": [], "percentiles": {}}',
        b'{"avg_latency": "1", "latencies": {}, "percentiles": []}',
        b'{"a":' * 20_000,
        b"[" * 100_000,
        b'{"traceEvents": [{"ph": "X", "ts": "x"}]}',
        b"a,b,c\n" + b'"' * 100_000,
    ],
)
def test_damaged_measurements_are_refused(client, plan, raw):
    query = {"plan": plan["plan_id"]}
    answer = client.post("/api/v1/runs", content=raw, params=query, headers=BYTES)
    assert answer.status_code < 500, answer.text[:500]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/plans/..%2f..%2fetc%2fpasswd",
        "/api/v1/plans/%00",
        "/api/v1/plans/%0d%0aX-Injected:%201",
        "/api/v1/catalog/gpus/..%2f..%2fpyproject.toml",
        "/api/v1/catalog/%2e%2e/%2e%2e",
        "/api/v1/schema/../../etc/passwd",
        "/static/../../../etc/passwd",
        "/static/..%2f..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/api/v1/plans?name=%00",
        "/api/v1/plans?name=%ff%fe",
        "/api/v1/plans?after=%27%20OR%201=1--",
        "/api/v1/plans?limit=99999999999999999999",
        "/api/v1/plans?limit=1&limit=2&model[]=x",
        "/api/v1/runs?plan=zz",
        "/api/v1/baselines/" + "x" * 5000,
        "/api/v1/baselines/%F0%9F%92%A9",
        "/api/v1/sweeps/000000000000/events",
        "/api/v1/plans?" + "&".join(f"a{n}=1" for n in range(2000)),
    ],
)
def test_odd_addresses_never_break_the_service(address, path):
    """Sent as they are: a client library would tidy them up."""
    status, text = raw_request(
        address, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    )
    assert 200 <= status < 500, text[:300]
    assert "x-injected" not in text.lower().partition("\r\n\r\n")[0]
    assert "root:" not in text


def raw_request(address, text, wait_s=60.0):
    """The status of an answer, and all of it."""
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=wait_s) as line:
        line.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
        found = b""
        while part := line.recv(65536):
            found += part
    return int(found.split(b" ", 2)[1]), found.decode("latin-1")


@pytest.mark.parametrize(
    "head",
    [
        "POST /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        "POST /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /api/v1/plans HTTP/1.1\r\n\r\n",
        "GET /api/v1/plans HTTP/9.9\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        "NONSENSE\r\n\r\n",
        "GET /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
        + "a" * 100_000
        + "\r\nConnection: close\r\n\r\n",
        "BREW /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        "GET /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: =;;=\x80\r\nConnection: close\r\n\r\n",
    ],
)
def test_odd_heads_never_break_the_service(address, head):
    status, text = raw_request(address, head)
    assert 200 <= status < 500, text[:300]


def test_too_large_a_body_is_refused_before_it_is_read(address, client):
    port = int(address.rpartition(":")[2])
    head = "POST /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/yaml\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(f"{head}Content-Length: {2**40}\r\n\r\n".encode())
        # of whose body nothing is ever sent
        assert line.recv(100).startswith(b"HTTP/1.1 413")
    parts = (b"#" * 65536 for _ in range(32))
    answer = client.post("/api/v1/plans", content=parts, headers=YAML)
    assert answer.status_code == 413


def test_slow_clients_are_cut_off_and_harm_nobody(tmp_path):
    """Limits of half a second: nothing, half a head, half a body. Those of a service are 10 s and 60."""
    quick = limits(header_s=0.5, body_s=0.5, send_s=0.5, upload_bytes=1000, buffered_bytes=1500)
    with served(settings(tmp_path / "plans.db", limits=quick)) as address:
        port = int(address.rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=60) as silent,
            socket.create_connection(("127.0.0.1", port), timeout=60) as half_a_head,
            socket.create_connection(("127.0.0.1", port), timeout=60) as half_a_body,
            httpx.Client(base_url=address, timeout=60) as other,
        ):
            half_a_head.sendall(b"GET / HT")
            half_a_body.sendall(
                b"POST /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: application/yaml\r\nContent-Length: 100\r\n\r\nmodel:"
            )
            assert other.get("/healthz").status_code == 200
            assert half_a_body.recv(100).startswith(b"HTTP/1.1 408")
            assert silent.recv(100) == b""
            assert half_a_head.recv(100) == b""
        # on a connection of its own: the one before is being closed just now
        assert httpx.get(f"{address}/readyz", timeout=60).status_code == 200


def test_clients_that_hang_up_leave_nothing_behind(address, client):
    """Forty that send half a plan and go, then a plan as ever."""
    port = int(address.rpartition(":")[2])
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
            line.sendall(
                b"POST /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: application/yaml\r\nContent-Length: 100\r\n\r\nmodel:"
            )
    assert post_plan(client, DECODE).status_code in (200, 201)


def test_what_a_client_writes_is_not_in_the_log(address, client, caplog):
    caplog.set_level("DEBUG")
    headers = {"authorization": "Bearer my-secret-token-123456"}
    client.get("/api/v1/plans", params={"name": "query-secret"}, headers=headers)
    client.post("/api/v1/plans", content="model: body-secret", headers=YAML)
    own = [r.getMessage() for r in caplog.records if r.name.startswith(("planner", "uvicorn"))]
    assert own
    assert not [text for text in own if "secret" in text]


def test_json_bodies_that_are_odd_are_refused(client):
    for raw in (
        b"", b"{", b"[]", b"null", b'"x"', b"[" * 100_000, b'{"deployment": 1}', b"\xff\xfe{}",
        b'{"deployment": "a: \\ud800", "over": ["batch=1"]}',
        b'{"deployment": "a\\u0000", "over": ["batch=1"]}',
        json.dumps({"deployment": DECODE, "over": ["\0"]}).encode(),
        json.dumps({"deployment": DECODE, "over": ["batch=" + "1" * 1990]}).encode(),
        json.dumps({"deployment": DECODE, "over": ["batch=1"], "top": 10**400}).encode(),
    ):  # fmt: skip
        answer = client.post(
            "/api/v1/sweeps", content=raw, headers={"content-type": "application/json"}
        )
        assert answer.status_code < 500, raw[:80]
    put = client.put(
        "/api/v1/baselines/x",
        content=b'{"run_id": "\\ud800"}',
        headers={"content-type": "application/json"},
    )
    refused(put)


def test_a_run_of_many_samples_is_kept_and_judged(client, plan):
    raw = latency_file([1 + n / 1e6 for n in range(5_000)])
    query = {"plan": plan["plan_id"]}
    made = client.post("/api/v1/runs", content=raw, params=query, headers=BYTES)
    assert made.status_code == 201
    run_id = made.json()["runs"][0]["run_id"]
    assert client.get(f"/api/v1/runs/{run_id}/verdict").status_code == 200
