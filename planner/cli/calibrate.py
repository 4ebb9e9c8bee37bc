"""``planner calibrate``: constants of kernel models, fitted to measurements."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.common import completing
from planner.cli.common.options import (
    catalog_option,
    db_option,
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
    epilog=example(
        "planner calibrate fit",
        "planner calibrate from-runs",
        "planner calibrate spread runs.csv",
    ),
)
def command() -> None:
    """Fit kernel models to measured kernels, and plans and their intervals to whole runs."""


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


@command.command(
    short_help="Learn overheads and efficiencies from recorded runs.",
    epilog=example(
        "planner calibrate from-runs --gpu h100-sxm --engine vllm --dry-run",
        "planner calibrate from-runs --catalog my-catalog",
        "planner calibrate from-runs --source runs.csv --catalog my-catalog",
    ),
)
@click.option(
    "--plan",
    "plans",
    metavar="ID",
    multiple=True,
    shell_complete=completing.plan_ids,
    help="Runs of this plan; by default of all.",
)
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    help="A table of cases with measured columns, in place of the store.",
)
@gpus_option
@engines_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder the calibrations are written to; by default calibrations/ of the first --catalog, "
    "else of the working directory.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@click.option("--date", help="The day to print in the files; by default today.")
@catalog_option
@db_option
@json_option
def from_runs(
    *,
    plans: tuple[str, ...],
    source: Path | None,
    gpus: tuple[str, ...],
    engines: tuple[str, ...],
    out: Path | None,
    dry_run: bool,
    date: str | None,
    catalogs: tuple[Path, ...],
    db: str | None,
    as_json: bool,
) -> None:
    """Learn host times and efficiencies of a GPU and engine from whole runs of at least 3 plans.

    Runs are those in the store, or rows of a table. Each plan's are predicted from the others' too:
    what does not help there is not kept. Plans of that GPU and engine use the calibration once
    --catalog or PLANNER_CATALOG names its folder.
    """
    from planner.cli.common.learning import Wanted, learned, learning_document, written
    from planner.cli.common.output import show, write
    from planner.report.document import to_json
    from planner.report.learning import learning_view

    day = date or datetime.now(UTC).date().isoformat()
    found = learned(Wanted(plans, source, gpus, engines, day), catalogs, db)
    folder = out or (catalogs[0] if catalogs else Path()) / "calibrations"
    document = learning_document(found, {} if dry_run else written(found, folder))
    if as_json:
        write(to_json("learning", document))
    else:
        show(learning_view(document))


@command.command(
    short_help="How far whole runs lie from their plans, for intervals.",
    epilog=example(
        "planner calibrate spread docs/measured/public-runs.csv docs/measured/served-runs.csv"
        " docs/measured/static-runs.csv",
        "planner calibrate spread runs.csv --out my-catalog/spreads",
    ),
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("spreads"),
    show_default=True,
    help="Folder the spread is written to.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@click.option("--date", help="The day to print in the file; by default today.")
@catalog_option
@json_option
def spread(
    *,
    files: tuple[Path, ...],
    out: Path,
    dry_run: bool,
    date: str | None,
    catalogs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Estimate what whole runs scatter about their plans beyond kernels and host times.

    FILES are tables as `planner validate` takes them. A column report says whose run a row is (else
    source). Figures of one report, and of one machine, engine, model and precision in it, count for
    as many as they are independent. Learnt from are reports that tell all: where a column basis
    says version, the engine's version is ours, and they join where fewer than five tell all; where
    it says load, rows are judged and not learnt from. Cards of makers none of whose kernels are
    measured have a spread of their own. Left out are rows whose basis is trap or
    whose learn is no. Plans widen their 80 % intervals by the spread of the first catalogue that
    has one.
    """
    from planner.calibrate.spread_file import write as write_file
    from planner.cli.common.output import show, write
    from planner.cli.common.spreading import (
        gathered,
        measured_vendors,
        spread_document,
        spread_spec,
    )
    from planner.report.document import to_json
    from planner.report.spread import spread_view

    found, skipped = gathered(files, catalogs)
    day = date or datetime.now(UTC).date().isoformat()
    spec = spread_spec(found, files, day, measured_vendors(catalogs))
    file = None if dry_run else write_file(out, spec)
    document = spread_document(spec, found, skipped, file)
    if as_json:
        write(to_json("spread", document))
    else:
        show(spread_view(document))
