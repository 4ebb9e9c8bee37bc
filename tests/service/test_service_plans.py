"""Plans over HTTP are the plans of the command line; faults come with their places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from service_examples import DECODE, YAML, post_plan

from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask


def test_a_deployment_becomes_the_plan_that_python_makes_of_it(client):
    text = DECODE.replace("batch: 4", "batch: 5")
    plan = plan_question(ask(load_text(text, "x", "deployment"), Catalog.standard()))
    made = post_plan(client, text)
    assert made.status_code == 201
    found = made.json()
    assert made.headers["content-type"] == "application/json"
    assert (found["format"], found["kind"], found["plan_id"]) == (1, "plan", plan.plan_id)
    assert found["step"]["time_s"] == plan.step.time_s
    assert found["advice"] is None
    again = post_plan(client, text)
    assert (again.status_code, again.json()) == (200, found)
    assert made.headers["location"] == f"/api/v1/plans/{plan.plan_id}"
    assert client.get(made.headers["location"]).json() == found
    assert client.get(f"/api/v1/plans/{plan.plan_id[:8]}").json() == found


def test_json_is_a_deployment_too_and_settings_change_it(client):
    text = '{"model": "qwen2.5-0.5b-instruct", "gpu": "rtx-4090",\n "backend": {"name": "vllm"},\n'
    text += ' "step": {"decode": {"batch": 1, "context": 1024}}}'
    answer = client.post(
        "/api/v1/plans",
        content=text,
        headers={"content-type": "application/json; charset=utf-8"},
        params={"set": ["step.decode.batch=8", "name=eight"], "save": "false"},
    )
    assert answer.status_code == 200
    assert answer.json()["name"] == "eight"
    assert "location" not in answer.headers
    assert client.get(f"/api/v1/plans/{answer.json()['plan_id']}").status_code == 404


def test_advice_comes_where_it_is_asked_for(client):
    assert isinstance(post_plan(client, DECODE, advice="true", save="false").json()["advice"], list)


def test_every_fault_stands_at_its_line_and_column_with_a_hint(client):
    """`contxt` begins in column 1 of line 2, `minus` in column 32 of line 6."""
    answer = post_plan(
        client, DECODE.replace("name: chat", "name: chat\ncontxt: 4").replace("1024", "minus")
    )
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == 422
    first, second = problem["faults"]
    assert (first["file"], first["line"], first["column"]) == ("deployment.yaml", 2, 1)
    assert first["message"] == "contxt: unknown field"
    assert first["text"] == "contxt: 4"
    assert (second["line"], second["column"]) == (6, DECODE.splitlines()[4].index("1024") + 1)
    assert post_plan(client, DECODE.replace("rtx-4090", "rtx-409O")).json()["hint"] == (
        "did you mean 'rtx-4090'?"
    )


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("model: ./secret.yaml", 2),
        ("model: ../../etc/passwd.json", 2),
        ("model: /etc/passwd", 2),
        ("gpu: /dev/zero/", 3),
        ("calibration: ./x.yaml", 6),
        ("backend: {name: ./b.yaml}", 4),
        ("speculation: {tokens: 3, acceptance: 0.7, draft: ./draft.yaml}", 6),
    ],
)
def test_no_path_of_a_request_is_opened(client, tmp_path, monkeypatch, field, line):
    """Not even to say that there is no such file: opening anything fails the test."""
    name = field.partition(":")[0]
    lines = [each for each in DECODE.splitlines() if not each.startswith(f"{name}:")]
    lines.insert(line - 1, field)
    opened = []
    real = Path.open

    def spied(self, *rest, **named):
        opened.append(str(self))
        return real(self, *rest, **named)

    monkeypatch.setattr(Path, "open", spied)
    answer = post_plan(client, "\n".join(lines))
    assert answer.status_code == 422
    (fault,) = answer.json()["faults"]
    assert fault["line"] == line
    assert "is a path" in fault["message"]
    assert not [path for path in opened if "catalog" not in path]


def test_paths_are_refused_in_settings_sweeps_pools_and_traces_too(client):
    assert post_plan(client, DECODE, set="gpu=./x.yaml").status_code == 422
    pools = DECODE.partition("step")[0] + (
        "workload: {concurrency: 8, input: 128, output: 16}\n"
        "pools: {prefill: {replicas: 1, gpu: ./a.yaml}, decode: {replicas: 1}}\n"
    )
    answer = post_plan(client, pools)
    assert answer.status_code == 422, answer.text
    trace = DECODE.partition("step")[0] + "workload: {trace: /etc/passwd}\n"
    assert "trace" in post_plan(client, trace).json()["detail"]


def test_another_type_than_yaml_or_json_is_refused(client):
    answer = client.post("/api/v1/plans", content=DECODE, headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    assert "application/yaml" in answer.json()["hint"]


def test_plans_are_listed_newest_first_a_page_at_a_time(client):
    names = [f"page-{number}" for number in range(5)]
    for number, name in enumerate(names):
        post_plan(client, DECODE, set=[f"step.decode.context={2048 + number}", f"name={name}"])
    seen, query = [], {"limit": 2, "gpu": "rtx-4090"}
    while True:
        page = client.get("/api/v1/plans", params=query).json()
        assert len(page["plans"]) <= 2
        seen += [row["name"] for row in page["plans"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert [name for name in seen if name in names] == names[::-1]
    (one,) = client.get("/api/v1/plans", params={"name": "page-3"}).json()["plans"]
    assert one["name"] == "page-3"
    assert client.get("/api/v1/plans", params={"gpu": "none"}).json()["plans"] == []
    assert client.get("/api/v1/plans", params={"after": "nowhere"}).status_code == 422
    assert client.get("/api/v1/plans", params={"after": "aa.bb"}).status_code == 422
    assert client.get("/api/v1/plans", params={"limit": 0}).status_code == 422


def test_two_plans_and_one_deployment_on_gpus_are_compared(client):
    a = post_plan(client, DECODE).json()
    b = post_plan(client, DECODE, set="gpu=h100-sxm").json()
    diff = client.get("/api/v1/diffs", params={"a": a["plan_id"], "b": b["plan_id"]}).json()
    assert diff["kind"] == "diff"
    assert "device" in [change["part"] for change in diff["parts"]]
    assert client.get("/api/v1/diffs", params={"a": a["plan_id"], "b": "ffff"}).status_code == 404
    query = {"gpu": ["rtx-4090", "h100-sxm"]}
    found = client.post("/api/v1/diffs", content=DECODE, headers=YAML, params=query).json()
    assert [column["gpu"] for column in found["gpus"]] == query["gpu"]
    many = {"gpu": ["rtx-4090"] * 17}
    answer = client.post("/api/v1/diffs", content=DECODE, headers=YAML, params=many)
    assert answer.status_code == 422


def test_the_catalogue_and_schemas_are_those_of_the_command_line(client):
    kinds = client.get("/api/v1/catalog").json()["entries"]
    assert {row["kind"] for row in kinds} >= {"gpus", "models", "ops"}
    gpus = client.get("/api/v1/catalog/gpus").json()["entries"]
    assert len(gpus) == next(row["entries"] for row in kinds if row["kind"] == "gpus")
    entry = client.get("/api/v1/catalog/gpus/rtx-4090").json()
    assert entry["entry"]["name"] == "rtx-4090"
    assert entry["figures"]["file"] == "rtx-4090.yaml"
    assert client.get("/api/v1/catalog/gpu/rtx-4090").status_code == 200
    for missing in (
        "gpus/rtx-4091",
        "gpus/rtx-4090.yaml",
        "gpus/..%2Fx",
        "nothing",
        "gpus/%2e%2e%2fx",
    ):
        assert client.get(f"/api/v1/catalog/{missing}").status_code in (404, 422), missing
    schema = client.get("/api/v1/schema/deployment").json()
    assert schema["title"] == "planner deployment"
    assert client.get("/api/v1/schema/nothing").json()["status"] == 404


def test_openapi_has_examples_that_work(client):
    document = client.get("/api/v1/openapi.json").json()
    assert all(
        path.startswith(("/api/v1/", "/healthz", "/readyz", "/metrics"))
        for path in document["paths"]
    )
    content = document["paths"]["/api/v1/plans"]["post"]["requestBody"]["content"]
    assert (
        post_plan(client, content["application/yaml"]["example"], save="false").status_code == 200
    )
    as_json = json.dumps(content["application/json"]["example"])
    assert post_plan(client, as_json, save="false").status_code == 200
    assert "Problem" in document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            assert route["summary"], (method, path)


def test_metrics_and_health(client):
    client.get("/api/v1/plans/not-an-id-of-any-kind")
    text = client.get("/metrics").text
    assert (
        'planner_requests_total{method="GET",route="/api/v1/plans/{plan_id}",status="422"}' in text
    )
    assert "not-an-id" not in text
    assert client.get("/healthz").text == "ok\n"
    assert client.get("/readyz").text == "ready\n"
