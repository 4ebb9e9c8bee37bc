"""``planner simulate``: a deployment's requests, event by event."""

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
    from planner.serving.types import Sent
    from planner.spec.question import CostModel
    from planner.spec.types import DeploymentSpec


@click.command(
    short_help="Run a deployment's requests event by event: percentiles, queues.",
    epilog=example(
        "planner simulate specs/qwen2.5-7b-rtx4090.yaml"
        " --set 'workload={rate: 2, input: 1024, output: 128}'"
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@set_option
@catalog_option
@model_option
@click.option(
    "--requests",
    type=click.IntRange(1, 1_000_000),
    help="Requests that count; by default workload.requests, else 2,000. A trace has its own.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    help="Of arrivals and lengths; the same seed gives the same run.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    file: Path,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    cost_model: CostModel,
    requests: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Run the users, the rate or the trace of the deployment in FILE, request by request, and
    print what they saw: mean, P50, P95 and P99, beside the steady state that `planner plan` shows.

    Exits with 1 when the rate asked for is beyond what the deployment serves.
    """
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of
    from planner.plan.values import plain
    from planner.report.document import to_json
    from planner.report.simulation import simulation_view
    from planner.serving.simulation import simulate
    from planner.spec.load import load_deployment
    from planner.spec.question import ask

    deployment = load_deployment(file, sets)
    question = ask(deployment, catalog_of(catalogs), cost_model)
    found = simulate(question, requests=requests, seed=seed, trace=_trace(deployment))
    if as_json:
        write(to_json("simulation", plain(found)))
    else:
        show(simulation_view(found))
    ctx.exit(0 if found.stable else 1)


def _trace(deployment: DeploymentSpec) -> tuple[Sent, ...]:
    from planner.serving.types import Sent
    from planner.spec.trace import trace_of

    return tuple(Sent(row.at_s, row.input, row.output) for row in trace_of(deployment))
