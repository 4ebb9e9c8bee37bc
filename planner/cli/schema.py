"""``planner schema``: JSON Schema of specs, for editors."""

from __future__ import annotations

import click


@click.command(short_help="Print the JSON Schema of a kind of spec.")
@click.argument("kind")
def command(kind: str) -> None:
    r"""Print the JSON Schema of a KIND of spec.

    KIND is deployment, model, block, gpu, backend, calibration or prices. With it, editors check
    and complete a file.

    \b
    Example:
      planner schema deployment > deployment.schema.json
    """
    import json

    from planner.cli.common.output import write
    from planner.spec.schema import json_schema

    write(json.dumps(json_schema(kind), indent=2) + "\n")
