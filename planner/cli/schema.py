"""``planner schema``: JSON Schema of specs, for editors."""

from __future__ import annotations

import click

from planner.cli.common import completing
from planner.cli.common.options import example


@click.command(
    short_help="Print the JSON Schema of a kind of spec.",
    epilog=example("planner schema deployment > deployment.schema.json"),
)
@click.argument("kind", shell_complete=completing.spec_kinds)
def command(kind: str) -> None:
    """Print the JSON Schema of a KIND of spec.

    KIND is deployment, model, block, gpu, backend, calibration, prices or spread. With it, editors
    check and complete a file.
    """
    import json

    from planner.cli.common.output import write
    from planner.spec.schema import json_schema

    write(json.dumps(json_schema(kind), indent=2) + "\n")
