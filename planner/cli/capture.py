"""``planner capture``: which batch sizes to capture as CUDA Graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common.options import (
    catalog_option,
    example,
    json_option,
    model_option,
    set_option,
)

if TYPE_CHECKING:
    from planner.spec.question import CostModel, Question


@click.command(
    short_help="The best batch sizes to capture, for batches as they come.",
    epilog=example(
        "planner capture specs/qwen2.5-7b-rtx4090.yaml --batches 1:10,3:40,17:20,60:5",
        "planner capture specs/llama-3.1-8b-h100-rate.yaml --simulate",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--batches",
    metavar="BATCHES",
    help="Running batches with their weights, as 1:10,8:50, or a file: YAML, CSV of batch,weight, "
    "or a log of vLLM or SGLang.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="A trace of requests to run through the deployment.",
)
@click.option("--simulate", is_flag=True, help="Run the deployment's own workload.")
@click.option(
    "--graphs",
    type=click.IntRange(1, 512),
    help="Sizes to choose; by default as few as are no slower than the engine's own list, and "
    "within 0.1 % of the best.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="Of the run.")
@set_option
@catalog_option
@model_option
@json_option
def command(
    *,
    file: Path,
    batches: str | None,
    trace: Path | None,
    simulate: bool,
    graphs: int | None,
    seed: int,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    cost_model: CostModel,
    as_json: bool,
) -> None:
    """Find the batch sizes that the engine of FILE should capture, for the batches that it runs:
    given, or those of a run of requests. Prints the flag to paste, and what padding costs with it,
    with the lists of the engine's versions, and with every shorter list.
    """
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of
    from planner.plan.captured import capture_search
    from planner.plan.values import plain
    from planner.report.captured import captured_view
    from planner.report.document import to_json
    from planner.spec.batches import read_batches
    from planner.spec.load import load_deployment
    from planner.spec.question import ask

    _one_of(batches, trace, simulate)
    if trace is not None:
        sets = (*sets, "step=null", f"workload={{trace: {trace.resolve()}}}")
    question = ask(load_deployment(file, sets), catalog_of(catalogs), cost_model)
    weights = read_batches(batches) if batches else _run(question, seed)
    found = capture_search(question, weights, graphs)
    if as_json:
        write(to_json("capture", plain(found)))
    else:
        show(captured_view(found))


def _one_of(batches: str | None, trace: Path | None, simulate: bool) -> None:
    from planner.errors import UsageError

    if sum((batches is not None, trace is not None, simulate)) != 1:
        raise UsageError(
            "say where the batches come from", "one of --batches, --trace and --simulate"
        )


def _run(question: Question, seed: int) -> dict[int, float]:
    """Decode steps of a run of requests, by their batch."""
    from planner.errors import UsageError
    from planner.serving.simulation import decoded
    from planner.serving.types import Sent
    from planner.spec.trace import trace_of

    trace = tuple(Sent(row.at_s, row.input, row.output) for row in trace_of(question.deployment))
    found = decoded(question, seed=seed, trace=trace)
    if not found:
        raise UsageError("not one step of the run decodes without prompts beside it")
    return {batch: float(steps) for batch, steps in found.items()}
