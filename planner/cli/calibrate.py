"""``planner calibrate``: constants of kernel models, fitted to measurements."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.common.options import (
    engines_option,
    example,
    families_option,
    gpus_option,
    json_option,
)

if TYPE_CHECKING:
    from planner.calibrate.fit import Fit


@click.group(
    short_help="Fit kernel models to measurements.",
    epilog=example("planner calibrate fit"),
)
def command() -> None:
    """Fit the constants of kernel models to measured kernels."""


@command.command(
    short_help="Fit constants to measured kernels.",
    epilog=example(
        "planner calibrate fit --gpu h100-sxm --engine vllm --out my-catalog/calibrations",
        "planner calibrate fit --source kernels.csv --out my-catalog/calibrations",
    ),
)
@families_option
@gpus_option
@engines_option
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    help="A CSV file of your own kernels, or a folder of operator tables; by default those of the "
    "installed aiconfigurator-core.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("calibrations"),
    show_default=True,
    help="Folder the calibration files are written to, one for each GPU and engine.",
)
@click.option("--date", help="The day to print in the files; by default today.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the fitted fifth.")
@json_option
def fit(
    *,
    families: tuple[str, ...],
    gpus: tuple[str, ...],
    engines: tuple[str, ...],
    source: Path | None,
    out: Path,
    date: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Fit constants on a seeded fifth of measured kernels and score them on the rest.

    Prints each cell's errors on the rows held back. Rows that cannot be right are flagged and
    counted in the files. Needs `pip install 'inference-planner[calibrate]'`.
    """
    from planner.calibrate.run import run_fit
    from planner.calibrate.types import Pick
    from planner.cli.common.output import show, write
    from planner.report.accuracy import fits_view
    from planner.report.document import to_json

    cells = run_fit(
        families,
        Pick(frozenset(gpus), frozenset(engines)),
        out,
        date=date or datetime.now(UTC).date().isoformat(),
        seed=seed,
        data=source,
        progress=lambda line: click.echo(line, err=True),
    )
    rows = [_row(cell.gpu, cell.engine, fit) for cell in cells for fit in cell.fits]
    if as_json:
        write(to_json("fits", {"out": str(out), "fits": rows}))
    else:
        show(fits_view(rows, str(out)))


def _row(gpu: str, engine: str, fit: Fit) -> dict[str, Any]:
    errors = fit.errors
    return {
        "gpu": gpu,
        "engine": engine,
        "kernel": f"{fit.rows.family}.{fit.rows.variant}",
        "rows": errors.rows,
        "median": errors.median,
        "mean": errors.mean,
        "bias": errors.bias,
        "coverage": errors.coverage,
    }
