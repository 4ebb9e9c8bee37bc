"""``make service-fuzz``: schemathesis against a real service with a few plans and runs in it.

A request that the OpenAPI document allows or forbids must never be answered with 5xx, and every
answer must be as the document says.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
from service_examples import BYTES, DECODE, STATIC, latency_file, post_plan
from test_service_process import start

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance,unsupported_method,use_after_free"
)


def filled(address):
    """Something to find."""
    with httpx.Client(base_url=address, timeout=60) as client:
        post_plan(client, DECODE)
        plan = post_plan(client, STATIC).json()
        raw = latency_file([plan["workload"]["latency_s"] * (1 + n / 1e4) for n in range(30)])
        query = {"plan": plan["plan_id"]}
        run = client.post("/api/v1/runs", content=raw, params=query, headers=BYTES).json()
        client.put("/api/v1/baselines/main", json={"run_id": run["runs"][0]["run_id"]})


def main(options):
    with tempfile.TemporaryDirectory() as folder:
        process = start("--port", 0, "--db", Path(folder) / "plans.db", log=Path(folder) / "log")
        try:
            address = process.stdout.readline().split(" at ")[1].strip()
            filled(address)
            program = Path(sys.executable).with_name("schemathesis")
            document = f"{address}/api/v1/openapi.json"
            run = [program, "run", document, "--checks", CHECKS, *options]
            code = subprocess.run(run, check=False).returncode
            log = (Path(folder) / "log").read_text()
            sys.stdout.write(log[log.find(" ERROR ") :] if " ERROR " in log else "")
            return code
        finally:
            process.terminate()
            process.wait(60)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
