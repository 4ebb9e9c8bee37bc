"""``planner list``: the plans in the store."""

from __future__ import annotations

import click

from planner.cli.common import completing
from planner.cli.common.options import db_option, example, json_option


@click.command(
    short_help="List stored plans.", epilog=example("planner list --gpu rtx-4090 --limit 5")
)
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="The most plans to list.",
)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=completing.named("models"),
    help="Only plans of this model.",
)
@click.option(
    "--gpu", metavar="NAME", shell_complete=completing.named("gpus"), help="Only plans on this GPU."
)
@click.option(
    "--backend",
    metavar="NAME",
    shell_complete=completing.named("backends"),
    help="Only plans with this engine.",
)
@click.option("--name", metavar="NAME", help="Only plans of deployments of this name.")
@db_option
@json_option
def command(
    *,
    limit: int,
    model: str | None,
    gpu: str | None,
    backend: str | None,
    name: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """List stored plans, the newest first."""
    from planner.cli.common.output import show, write
    from planner.report.document import to_json
    from planner.report.tables import plans_view
    from planner.store.database import open_store

    with open_store(db) as store:
        rows = [vars(row) for row in store.plans(limit, model, gpu, backend, name)]
    if as_json:
        write(to_json("plans", {"plans": rows}))
    else:
        show(plans_view(rows))
