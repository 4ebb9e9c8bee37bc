"""``make load``: many clients against a real service, on SQLite and on PostgreSQL.

1. Alone: one plan at a time, nothing else: the single time.
2. Closed loop: 64 clients, each asking again as soon as it is answered: the saturation rate.
3. Open loop: requests at random moments at 60 % of that rate, whether or not earlier ones are
   answered, so that waiting is counted in full.
Every write that was acknowledged is looked for in the store afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tests" / "store"), str(ROOT)]

from planner.store.database import open_store  # noqa: E402

COMMAND = [sys.executable, "-c", "from planner.cli.main import main; main()", "serve"]
YAML = {"content-type": "application/yaml"}
BYTES = {"content-type": "application/octet-stream"}
DEPLOYMENT = """\
name: load {number}
model: qwen2.5-7b-instruct
gpu: {gpu}
backend: {{name: vllm, version: "0.26"}}
workload: {{batch: {batch}, input: {input}, output: 128}}
"""
GPUS = ("rtx-4090", "l40s", "h100-sxm", "h200-sxm")
MIX = {"plan": 0.3, "read": 0.5, "upload": 0.2}


@dataclass
class Tally:
    """What clients saw."""

    times_s: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in MIX})
    errors: Counter = field(default_factory=Counter)
    plans: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    @property
    def count(self):
        return sum(len(times) for times in self.times_s.values())


class Client:
    """Sends one kind of request after another, each write a new one."""

    def __init__(self, http, seed, tally):
        self.http, self.random, self.tally = http, random.Random(seed), tally

    async def one(self, kind=None, begun=None):
        kind = kind or self.random.choices(list(MIX), list(MIX.values()))[0]
        begun = begun or time.perf_counter()
        try:
            answer = await getattr(self, kind)()
        except httpx.HTTPError as error:
            self.tally.errors[f"{kind}: {type(error).__name__}"] += 1
            return
        self.tally.times_s[kind].append(time.perf_counter() - begun)
        if answer.status_code not in (200, 201):
            self.tally.errors[f"{kind}: {answer.status_code}"] += 1

    async def plan(self):
        text = DEPLOYMENT.format(
            number=self.random.randrange(10**9), gpu=self.random.choice(GPUS),
            batch=self.random.randint(1, 64), input=self.random.randint(128, 4096),
        )  # fmt: skip
        answer = await self.http.post("/api/v1/plans", content=text, headers=YAML)
        if answer.status_code in (200, 201):
            self.tally.plans.append(answer.json()["plan_id"])
        return answer

    async def upload(self):
        times = [self.random.gauss(2, 0.02) for _ in range(30)]
        body = {"avg_latency": sum(times) / 30, "latencies": times, "percentiles": {"50": 2.0}}
        plan = self.random.choice(self.tally.plans)
        answer = await self.http.post(
            "/api/v1/runs", content=json.dumps(body), headers=BYTES, params={"plan": plan}
        )
        if answer.status_code in (200, 201):
            self.tally.runs += [run["run_id"] for run in answer.json()["runs"]]
        return answer

    async def read(self):
        runs, plans = self.tally.runs, self.tally.plans
        paths = ["/api/v1/plans?limit=20", f"/api/v1/plans/{self.random.choice(plans)}"]
        paths += [f"/api/v1/runs?plan={self.random.choice(plans)}", "/api/v1/catalog/gpus"]
        if runs:
            paths.append(f"/api/v1/runs/{self.random.choice(runs)}/verdict")
        return await self.http.get(self.random.choice(paths))


def share(times, part):
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None


async def alone(http, tally, count):
    client = Client(http, 1, tally)
    for _ in range(count):
        await client.one("plan")
    return share(tally.times_s["plan"][count // 4 :], 0.5)


async def closed(http, tally, clients, seconds):
    until = time.perf_counter() + seconds

    async def go(seed):
        client = Client(http, seed, tally)
        while time.perf_counter() < until:
            await client.one()

    begun = time.perf_counter()
    await asyncio.gather(*(go(seed) for seed in range(clients)))
    return tally.count / (time.perf_counter() - begun)


async def opened(http, tally, rate, seconds):
    client, tasks = Client(http, 7, tally), []
    begun = due = time.perf_counter()
    while due < begun + seconds:
        due += client.random.expovariate(rate)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(client.one(begun=due)))
    await asyncio.gather(*tasks)


def times(tally):
    return {
        kind: {
            "count": len(each),
            "p50_s": share(each, 0.5),
            "p99_s": share(each, 0.99),
            "most_s": max(each, default=None),
        }
        for kind, each in tally.times_s.items()
    }


async def measured(address, options):
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as http:
        before = Tally()
        single_s = await alone(http, before, 24)
        busy = Tally(plans=list(before.plans))
        rate = await closed(http, busy, options.clients, options.seconds)
        paced = Tally(plans=list(before.plans))
        await opened(http, paced, 0.6 * rate, options.seconds)
    tallies = (before, busy, paced)
    p99_s = share(paced.times_s["plan"], 0.99)
    return tallies, {
        "single_plan_s": single_s,
        "saturation_per_s": rate,
        "saturated": times(busy),
        "open_loop_per_s": 0.6 * rate,
        "open_loop": times(paced),
        "p99_over_single": p99_s / single_s,
        "errors": dict(sum((tally.errors for tally in tallies), Counter())),
    }


@contextmanager
def serving(db, log):
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*COMMAND, "--port", "0", "--db", db], stdout=subprocess.PIPE, stderr=stream, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            yield process.stdout.readline().split(" at ")[1].strip()
        finally:
            process.terminate()
            process.wait(60)


def lost(db, tallies):
    """Acknowledged writes that are not in the store."""
    plans = {plan for tally in tallies for plan in tally.plans}
    runs = {run for tally in tallies for run in tally.runs}
    with open_store(db) as store:
        kept = {plan.plan_id for plan in store.every_plan()}
        found = {run.run_id for run in store.every_run()}
    return {
        "plans": len(plans), "runs": len(runs),
        "lost_plans": len(plans - kept), "lost_runs": len(runs - found),
    }  # fmt: skip


def on(name, db, folder, options):
    with serving(db, folder / f"{name}.log") as address:
        tallies, figures = asyncio.run(measured(address, options))
    return {**figures, "written": lost(db, tallies)}


def postgresql(folder, options):
    import store_postgresql

    # a server as it would run: what it acknowledges is on the disk
    store_postgresql._SETTINGS |= {"fsync": "on", "full_page_writes": "on", "autovacuum": "on"}
    with store_postgresql.running() as server:
        return on("postgresql", server.fresh_schema(), folder, options)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--store", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", action="store_true", help="keep the other store's figures")
    parser.add_argument("--note", default="", help="of the circumstances, for the page")
    options = parser.parse_args(arguments)
    found = json.loads(options.out.read_text())["stores"] if options.again else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.store != "postgresql":
            found["sqlite"] = on("sqlite", str(folder / "plans.db"), folder, options)
        if options.store != "sqlite":
            found["postgresql"] = postgresql(folder, options)
    document = {
        "command": "make load",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "load_average": os.getloadavg()[0],
        "note": options.note,
        "clients": options.clients,
        "seconds": options.seconds,
        "mix": MIX,
        "stores": found,
    }
    text = json.dumps(rounded(document), indent=2) + "\n"
    if options.out:
        options.out.write_text(text)
    sys.stdout.write(text)
    return int(any(failed(figures) for figures in found.values()))


def rounded(value):
    """Four digits: the next run differs in the second."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def failed(figures):
    written = figures["written"]
    return figures["errors"] or written["lost_plans"] or written["lost_runs"]


if __name__ == "__main__":
    sys.exit(main())
