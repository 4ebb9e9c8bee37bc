"""``planner diff``: two plans, or one deployment on several GPUs."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.common.options import catalog_option, db_option, json_option, set_option
from planner.errors import UsageError


@click.command(short_help="Compare two plans, or one deployment on several GPUs.")
@click.argument("a")
@click.argument("b", required=False)
@click.option("--gpu", "gpus", metavar="G,G,…", help="GPUs to plan the deployment A on.")
@set_option
@catalog_option
@db_option
@json_option
def command(
    a: str,
    b: str | None,
    gpus: str | None,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    db: str | None,
    as_json: bool,
) -> None:
    """Compare plans A and B, each a file or the beginning of a stored plan's id.

    With --gpu, plan the one deployment A on several GPUs side by side. A price in the file counts
    for its own GPU alone. --set changes every file that is planned.

    \b
    Example:
      planner diff 3f2a 91c0
      planner diff before.yaml after.yaml
      planner diff specs/qwen2.5-7b-rtx4090.yaml --gpu rtx-4090,l40s,h100-sxm,h200-sxm
    """
    if (b is None) == (gpus is None):
        raise UsageError("diff takes two plans, or one deployment with --gpu", "planner diff --help")
    if gpus is not None:
        _gpus(Path(a), gpus, sets, catalogs, as_json)
        return
    assert b is not None
    _two(a, b, sets, catalogs, db, as_json)


def _two(
    a: str,
    b: str,
    sets: tuple[str, ...],
    catalogs: tuple[Path, ...],
    db: str | None,
    as_json: bool,
) -> None:
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of, named_plan
    from planner.plan.diff import diff
    from planner.plan.values import plain
    from planner.report.diff import diff_view
    from planner.report.document import to_json

    catalog = catalog_of(catalogs)
    change = diff(named_plan(a, sets, catalog, db), named_plan(b, sets, catalog, db))
    if as_json:
        write(to_json("diff", plain(change)))
    else:
        show(diff_view(change))


def _gpus(
    file: Path, gpus: str, sets: tuple[str, ...], catalogs: tuple[Path, ...], as_json: bool
) -> None:
    from planner.cli.common.output import show, write
    from planner.cli.common.planning import catalog_of, plans_on
    from planner.plan.diff import side_by_side
    from planner.plan.values import plain
    from planner.report.diff import gpus_view
    from planner.report.document import to_json

    catalog = catalog_of(catalogs)
    plans = plans_on(file, gpus.split(","), sets, catalog)
    columns = side_by_side(plans, {name: catalog.find("gpu", name) for name in plans})
    if as_json:
        write(to_json("gpus", {"gpus": plain(columns)}))
    else:
        show(gpus_view(columns))
