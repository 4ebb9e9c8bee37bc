"""What a store of 100,000 runs costs to ask, beside an almost empty one, in one run.

Run with ``make bench``. Commands are called in this process; the plan is a real one.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from planner.cli.main import main
from planner.plan.assemble import assemble
from planner.plan.runs import Metric, Run, Source
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask
from planner.store import runs, tables
from planner.store.database import open_store

COUNT = 100_000
AT_ONCE = 2_000
MOST_S = 0.3
SPEC = "model: qwen2.5-0.5b-instruct\ngpu: rtx-4090\nstep: {decode: {batch: 4, context: 1024}}\n"
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def measured(number: int, plan_id: str, step_s: float):
    source = Source("value", "by hand", f"{number:064x}", 12)
    samples = tuple(step_s * (1 + 0.001 * (each % 7 - 3)) for each in range(20))
    run = Run(source, (Metric("step", "mean", step_s),), {"step": samples}, {})
    at = FIRST + timedelta(seconds=number)
    return runs.recorded(run, b"step 1 ms\n", plan_id=plan_id, position=0, at=at)


def filled(file: Path, count: int) -> tuple[str, str]:
    """A store with so many runs of one plan and a baseline; the plan and the newest run."""
    from planner.desk.archive import stored

    asked = ask(load_text(SPEC.encode(), "deploy.yaml", "deployment"), Catalog.standard())
    plan = assemble(asked)
    newest = ""
    with open_store(str(file)) as store:
        store.save_plan(stored(plan, None))
        for start in range(0, count, AT_ONCE):
            size = min(AT_ONCE, count - start)
            made = [measured(start + n, plan.plan_id, plan.step.time_s) for n in range(size)]
            with store._writing() as connection:
                connection.execute(insert(tables.run), [runs._run_row(each) for each in made])
                rows = [row for each in made for row in runs._sample_rows(each)]
                connection.execute(insert(tables.sample), rows)
            newest = made[-1].run_id
        store.set_baseline("main", newest, "bench")
    return plan.plan_id, newest


def seconds(words, capsys) -> float:
    """The quickest of three calls, after one that loads what it needs."""
    taken = []
    for _ in range(4):
        began = time.perf_counter()
        with pytest.raises(SystemExit) as ended:
            main(words)
        taken.append(time.perf_counter() - began)
        assert ended.value.code == 0, capsys.readouterr().err
    capsys.readouterr()
    return min(taken[1:])


def test_asking_a_hundred_thousand_runs(tmp_path, capsys, benchmark):
    """``list``, ``history`` and ``accept``: each under 0.3 s; the ratio to two runs is printed."""
    stores = {count: tmp_path / f"{count}.db" for count in (2, COUNT)}
    runs_of = {count: filled(file, count) for count, file in stores.items()}
    lines = []
    for command in ("list", "history", "accept"):
        taken = {}
        for count, file in stores.items():
            plan_id, run_id = runs_of[count]
            words = {
                "list": ["list"],
                "history": ["history", "--plan", plan_id],
                "accept": ["accept", run_id],
            }[command]
            taken[count] = seconds([*words, "--db", str(file)], capsys)
        ratio = taken[COUNT] / taken[2]
        lines.append(f"{command}: {taken[COUNT] * 1e3:.0f} ms, {ratio:.2f} times two runs")
        assert taken[COUNT] < MOST_S
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
    benchmark(seconds, ["history", "--db", str(stores[COUNT])], capsys)
