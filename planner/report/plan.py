"""A plan as text: the answer first, then the ledgers it follows from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType

from planner.plan.advice import Advice
from planner.plan.splits import Split
from planner.plan.types import Plan, StepTime
from planner.report.cells import bullets, facts, gain, heading, rate, small, table, words
from planner.report.headline import headline, nearest_fit, question
from planner.report.kernels import kernel_table, node_table
from planner.report.ledgers import fusion_ledger, launch_ledger, memory_ledger, rule_sets
from planner.report.parts import PARTS
from planner.report.serving import serving_view
from planner.units import show_seconds

_FIXED = {
    "launch": "host time of a launch",
    "replay": "host time of a graph replay",
    "kernel": "GPU time to start a launched kernel",
    "graph_node": "GPU time to start a kernel of a graph",
    "step": "host time of a step that nothing hides",
    "sequence": "the same for each of its sequences",
    "collective": "GPU time of a collective beyond its constants",
}


def plan_view(
    plan: Plan,
    advice: Sequence[Advice] | None = None,
    *,
    explain: bool = False,
    splits: Sequence[Split] = (),
    only: Sequence[str] = PARTS,
) -> RenderableType:
    """Everything a plan says, or `only` some of `PARTS`. ``advice`` is None where none was asked
    for.
    """
    parts: list[RenderableType] = [headline(plan)]
    if not plan.memory.fits:
        parts.append(nearest_fit(plan.memory))
    if plan.serving and "serving" in only:
        parts.append(serving_view(plan.serving))
    parts += [words(""), question(plan)]
    parts += [part for name, part in _ledgers(plan, explain=explain) if name in only]
    if advice is not None and "advice" in only:
        parts.append(advice_view(advice))
    if plan.notes and "notes" in only:
        parts += [heading("Notes"), bullets(plan.notes)]
    if explain:
        parts.append(explanation(plan))
    if splits:
        parts.append(splits_view(splits))
    return Group(*parts)


def _ledgers(plan: Plan, *, explain: bool) -> Iterator[tuple[str, RenderableType]]:
    yield "kernels", kernel_table(plan, explain=explain)
    yield "intensity", node_table(plan, explain=explain)
    yield "fusion", fusion_ledger(plan)
    yield "launch", launch_ledger(plan)
    yield "groupings", rule_sets(plan)
    yield "memory", memory_ledger(plan)


def advice_view(advice: Sequence[Advice]) -> RenderableType:
    """Changes worth making, each planned for what it really buys."""
    title = heading("What to change, by what it buys (each was planned in full)")
    if not advice:
        return Group(title, small("nothing that was tried buys one percent"))
    found = table(("tokens/s", "step", "change (--set) and why", ""), left=(2, 3))
    for row in advice:
        change = words(row.change, "bold")
        change.append_text(words(f"\n{row.why}", "not bold dim"))
        remarks = [] if row.fits else ["does not fit"]
        remarks += [] if row.lossless else ["lowers precision"]
        found.add_row(gain(row.gain), show_seconds(row.step_s), change, words("\n".join(remarks)))
    return Group(title, found)


def splits_view(found: Sequence[Split]) -> RenderableType:
    """Every split that was tried, those that fit first."""
    headers = ("tensor", "pipeline", "expert", "GPUs", "step", "tokens/s", "per GPU", "")
    rows = table(headers, left=(7,))
    for split in found:
        ways = (split.tensor, split.pipeline, split.expert, split.gpus)
        rates = (rate(split.tokens_per_s), rate(split.tokens_per_s_per_gpu))
        remark = "" if split.fits else "does not fit"
        if split.context > 1:
            remark = f"each context over {split.context} ranks"
        rows.add_row(*map(str, ways), show_seconds(split.step_s), *rates, remark)
    return Group(heading("Splits that were planned, by tokens a second and GPU"), rows)


def explanation(plan: Plan) -> RenderableType:
    """Why rules did not run, where fixed costs come from, what the plan's id stands for."""
    step = plan.step
    fixed = [
        (said, _fixed(step, name)) for name, said in _FIXED.items() if f"{name}_s" in step.fixed_s
    ]
    identity = [(part, f"{plan.parts[part][:12]}  {plan.described[part]}") for part in plan.parts]
    parts: list[RenderableType] = [heading("Why other fused kernels do not run")]
    parts.append(
        bullets(plan.refusals) if plan.refusals else small("every rule of the engine runs")
    )
    parts += [heading("Fixed costs and their sources"), facts(fixed)]
    if plan.captured_sizes:
        sizes = " ".join(map(str, plan.captured_sizes))
        parts += [heading("Captured batch sizes"), words(sizes)]
    parts += [heading("What the plan's id stands for"), facts(identity)]
    return Group(*parts)


def _fixed(step: StepTime, name: str) -> str:
    return f"{show_seconds(step.fixed_s[f'{name}_s'])}, {step.fixed_sources.get(name, 'no source')}"
