"""``planner validate``: how far predictions are from measurements."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.common.options import catalog_option, example, json_option


@click.command(
    short_help="Errors of the kernel models against measured kernels.",
    epilog=example(
        "planner validate --family gemm --by gpu,variant",
        "planner validate --gpu h100-sxm --engine vllm --by family,band",
    ),
)
@click.option("--family", "families", multiple=True, help="Kernel family; by default all.")
@click.option("--gpu", "gpus", multiple=True, help="GPU by catalogue name; by default all.")
@click.option("--engine", "engines", multiple=True, help="Backend; by default all.")
@click.option(
    "--by",
    default="family,variant,gpu,engine",
    show_default=True,
    help="What to group by: some of family, variant, gpu, engine, band.",
)
@catalog_option
@json_option
def command(
    *,
    families: tuple[str, ...],
    gpus: tuple[str, ...],
    engines: tuple[str, ...],
    by: str,
    catalogs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Hold the catalogue's constants against measured kernels that no fit has seen.

    Reads the operator tables of the installed aiconfigurator-core
    (`pip install 'inference-planner[calibrate]'`). Errors are of the predicted time.
    """
    from planner.calibrate.types import Pick
    from planner.calibrate.validate import KEYS, validate_kernels
    from planner.cli.common.output import show, write
    from planner.errors import UsageError
    from planner.plan.values import plain
    from planner.registry import nearest
    from planner.report.accuracy import errors_view
    from planner.report.document import to_json
    from planner.resources import folder

    keys = tuple(word.strip() for word in by.split(","))
    for word in keys:
        if word not in KEYS:
            guess = nearest(word, KEYS)
            hint = f"did you mean '{guess}'?" if guess else f"some of {', '.join(KEYS)}"
            raise UsageError(f"cannot group by '{word}'", hint)
    root = (catalogs[0] if catalogs else folder("catalog")) / "calibrations"
    pick = Pick(frozenset(gpus), frozenset(engines))
    rows = validate_kernels(root, families, pick, by=keys)
    if as_json:
        write(to_json("errors", {"by": list(keys), "rows": plain(rows)}))
    else:
        show(errors_view([plain(row) for row in rows], keys))
