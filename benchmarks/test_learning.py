"""What whole runs teach, on made-up machines: errors before, on runs left out, on steps never run.

Run with ``make bench``; ``python benchmarks/test_learning.py 30`` prints the table for 30 machines.

A machine is the planner's own plan under a hidden calibration: host time by step, sequence and
collective, efficiencies for all kernels or by family. *Plain* machines differ from their plans by
that and 3 % of noise. On *hard* ones each deployment is off by another 6 % that no parameter
explains, and one run in each lot is three times too slow.
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import dataclass, field, replace
from statistics import mean, median

import pytest

from planner.calibrate.from_runs import learn
from planner.calibrate.whole_runs import Recorded
from planner.plan.assemble import assemble
from planner.plan.runs import Metric, Run, Source
from planner.plan.types import Plan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Measured, Question, ask
from planner.spec.types import CalibrationSpec

CATALOG = Catalog.standard()
COUNTS = (3, 5, 10)
FRESH = 8
NOISE, UNEXPLAINED = 0.03, 0.06


def question(model: str, batch: int, context: int, tensor: int) -> Question:
    text = (
        f"model: {model}\ngpu: h100-sxm\nbackend: {{name: vllm}}\nparallel: {{tensor: {tensor}}}\n"
        f"step: {{decode: {{batch: {batch}, context: {context}}}}}\n"
    )
    return ask(load_text(text, "deploy.yaml", "deployment"), CATALOG)


POOL = [
    question(model, batch, context, tensor)
    for model in ("qwen2.5-0.5b-instruct", "qwen2.5-7b-instruct")
    for batch in (1, 8, 32, 128)
    for context in (512, 4096)
    for tensor in (1, 2)
]


def machine(rng: random.Random) -> CalibrationSpec:
    """Overheads and efficiencies as some machine may have them."""
    step = rng.choice([0, rng.uniform(0, 2e-3)])
    sequence = rng.choice([0, rng.uniform(0, 3e-5)])
    collective = rng.choice([0, rng.uniform(0, 1e-5)])
    families = ("gemm", "attention", "elementwise", "collective")
    ratios = {"all": math.exp(rng.gauss(0, 0.15))}
    if rng.random() < 0.5:
        ratios = {family: math.exp(rng.gauss(0, 0.12)) for family in families}
    return load_text(
        "kind: calibration\nname: machine\ntitle: M\ngpu: h100-sxm\nbackend: vllm\n"
        "date: a\nscript: b\n"
        f"host: {{step: {step!r} s, sequence: {sequence!r} s, collective: {collective!r} s}}\n"
        f"efficiency: {{{', '.join(f'{name}: {ratio!r}' for name, ratio in ratios.items())}}}\n",
        "machine.yaml",
        "calibration",
    )


def under(asked: Question, spec: CalibrationSpec) -> Plan:
    lender = Measured(spec, asked.gpu.architecture, asked.gpu.capability)
    return assemble(replace(asked, calibrations=(lender, *asked.calibrations)))


def recorded(plan: Plan, step_s: float) -> Recorded:
    run = Run(Source("value", "hand", "0" * 64, 1), (Metric("step", "mean", step_s),))
    return Recorded(plan.plan_id, plan, run, "2026-11-30")


@dataclass
class Table:
    """Medians of |log(measured / predicted)|, one for each machine."""

    before: list[float] = field(default_factory=list)
    left_out: list[float] = field(default_factory=list)
    fresh_before: list[float] = field(default_factory=list)
    fresh_after: list[float] = field(default_factory=list)
    covered: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        found = {name: mean(values) for name, values in vars(self).items()}
        pairs = zip(self.fresh_before, self.fresh_after, strict=True)
        found["fresh_worse"] = sum(after > before + 0.005 for before, after in pairs)
        pairs = zip(self.before, self.left_out, strict=True)
        found["left_out_worse"] = sum(after > before + 1e-12 for before, after in pairs)
        return found


def measure(count: int, machines: int, *, hard: bool, seed: int = 0) -> dict[str, float]:
    """Learn ``count`` plans on each machine, and try ``FRESH`` others."""
    rng = random.Random(f"{seed} {count} {hard}")
    table = Table()
    for _ in range(machines):
        spec, drawn = machine(rng), rng.sample(POOL, count + FRESH)
        off = math.hypot(NOISE, UNEXPLAINED if hard else 0)
        real = [under(asked, spec).step.time_s * math.exp(rng.gauss(0, off)) for asked in drawn]
        plans = [assemble(asked) for asked in drawn]
        runs = real[:count]
        if hard:
            runs[rng.randrange(count)] *= 3
        kept = [recorded(plan, time_s) for plan, time_s in zip(plans, runs, strict=False)]
        (learnt,) = learn(kept, CATALOG, date="2026-11-30", script="benchmark").learnt
        table.before.append(learnt.errors.before)
        table.left_out.append(learnt.errors.left_out)
        fresh = list(zip(drawn, plans, real, strict=True))[count:]
        again = [under(asked, learnt.calibration).step for asked, _, _ in fresh]
        table.fresh_before.append(
            median(abs(math.log(time_s / plan.step.time_s)) for _, plan, time_s in fresh)
        )
        logs = [
            abs(math.log(time_s / step.time_s))
            for (_, _, time_s), step in zip(fresh, again, strict=True)
        ]
        table.fresh_after.append(median(logs))
        table.covered.append(
            mean(
                step.low_s <= time_s <= step.high_s
                for (_, _, time_s), step in zip(fresh, again, strict=True)
            )
        )
    return table.summary()


@pytest.mark.parametrize("hard", [False, True], ids=["plain", "hard"])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.benchmark(group="learning")
def test_learning_from_runs(benchmark, count, hard):
    """Runs left out are never further off than before; steps never run are nearer."""
    found = benchmark.pedantic(measure, (count, 6), {"hard": hard}, rounds=1)
    benchmark.extra_info.update(found)
    assert found["left_out_worse"] == 0
    assert found["fresh_after"] < found["fresh_before"]


def main(machines: int) -> None:
    """One line for each kind of machine and number of runs."""
    for hard in (False, True):
        for count in COUNTS:
            found = measure(count, machines, hard=hard)
            shares = ("before", "left_out", "fresh_before", "fresh_after", "covered")
            shown = "  ".join(f"{name} {100 * found[name]:.1f} %" for name in shares)
            worse = (
                f"worse: {found['left_out_worse']:.0f} left out, {found['fresh_worse']:.0f} fresh"
            )
            kind = "hard" if hard else "plain"
            sys.stdout.write(f"{kind} {count:2} runs  {shown}  {worse} of {machines}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
