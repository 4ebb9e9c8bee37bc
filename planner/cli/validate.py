"""``planner validate``: how far predictions are from measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.common.inductor import inductor
from planner.cli.common.judged import judged
from planner.cli.common.options import (
    catalog_option,
    engines_option,
    example,
    families_option,
    gpus_option,
    json_option,
)
from planner.cli.common.silicon import silicon

if TYPE_CHECKING:
    from planner.calibrate.types import Pick


@click.command(
    short_help="Predictions beside measurements: kernels, or whole runs of a table.",
    epilog=example(
        "planner validate runs.csv --by backend.name,gpu -o judged.csv",
        "planner validate --family gemm --by gpu,variant",
        "planner validate --gpu h100-sxm --engine vllm --by family,band",
        "planner validate --family gemm --engine vllm --transfer",
        "planner validate --whole-models --gpu h100-sxm",
        "planner validate --source aiconfigurator --by engine,precision",
        "planner validate --source inductor --json",
    ),
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@families_option
@gpus_option
@engines_option
@click.option(
    "--by",
    help="What to group by: some of family, variant, gpu, engine, band (all but band by default); "
    "with FILE any of its columns, or figure (backend.name by default); with --source some of "
    "model, system, engine, version, precision, concurrency, lengths, gpus, source, limit, half.",
)
@click.option(
    "-o",
    "--out",
    metavar="CSV",
    type=click.Path(path_type=Path),
    help="With FILE or --source: write the rows there, with what is predicted of each.",
)
@click.option(
    "--source",
    type=click.Choice(["aiconfigurator", "inductor"]),
    help="Whole runs of others: the public serving measurements in the installed wheel. Or kernels"
    " of another: small models as TorchInductor compiles them here.",
)
@click.option(
    "--rows",
    type=click.Choice(["even", "odd", "all"]),
    help="With --source: of which half, by the SHA-1 of their ids. Mistakes are looked for in the"
    " even one, which is the default; the odd one is for figures alone.",
)
@click.option(
    "--limit", type=click.IntRange(1), help="With --source: so many rows of all kinds, or models."
)
@click.option(
    "--summary", is_flag=True, help="With --source and --json: errors alone, none of the rows."
)
@click.option(
    "--transfer",
    is_flag=True,
    help="Leave each GPU out: price it with the constants of others and its own datasheet.",
)
@click.option(
    "--shapes",
    is_flag=True,
    help="Leave shapes out: fit without the largest tenth, and without a fifth of model shapes.",
)
@click.option(
    "--roofline",
    is_flag=True,
    help="Errors of the bare roofline on the same kernels: GEMMs and attention.",
)
@click.option(
    "--whole-models",
    is_flag=True,
    help="Errors of the kernels that plans of catalogue models ask for, by family and by step.",
)
@click.option(
    "--plots",
    type=click.Path(path_type=Path),
    help="Folder to write residual plots to, a PNG per family and variant.",
)
@catalog_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    file: Path | None,
    by: str | None,
    out: Path | None,
    source: str | None,
    catalogs: tuple[Path, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Hold predictions against measurements.

    With FILE, a CSV table of whole runs: each row is planned and judged. Columns are the paths of
    a deployment (id, model, gpu, backend.name, step.decode.batch …) and measured.step_ms,
    measured.ttft_ms, measured.tpot_ms, measured.latency_s, measured.throughput_tok_s (output
    tokens a second over all GPUs). Other columns pass through. A row that is wrong is told and
    costs no other; the command then exits with 2. Runs of the same work are ranked too.

    With --source, 3,619 public serving measurements are planned as closed loops of users, faults of
    their labels marked by rule; nothing is fitted to them. Or small models are compiled here, and
    groupings of plans held against the compiler's.

    With neither the catalogue's constants are held against measured kernels that no fit has seen:
    the operator tables of the installed aiconfigurator-core
    (`pip install 'inference-planner[calibrate]'`). Errors are of the predicted time.
    """
    asked = {name: given.pop(name) for name in ("rows", "limit", "summary")}
    if file is not None:
        _refuse(given, "is for kernels, not for the runs in a FILE")
        _refuse({"source": source, **asked}, "is for measurements of its own, not for a FILE")
        ctx.exit(judged(file, catalogs, by=by or "backend.name", out=out, as_json=as_json))
    if source:
        _source(source, catalogs, given, asked | {"by": by, "out": out, "as_json": as_json})
    else:
        _refuse({"out": out}, "writes the rows of a FILE or of --source")
        _refuse(asked, "is for --source aiconfigurator")
        _kernels(catalogs, keys=_keys(by or _CELL), as_json=as_json, **given)


def _source(
    source: str, catalogs: Sequence[Path], given: Mapping[str, object], asked: dict[str, Any]
) -> None:
    """What others measured, or what another compiler makes of the same graphs."""
    if source == "inductor":
        limit, as_json = asked.pop("limit"), asked.pop("as_json")
        _refuse({**given, **asked}, "is not for --source inductor")
        inductor(catalogs, limit=limit, as_json=as_json)
    else:
        _refuse(given, "is for kernels, not for whole runs")
        silicon(catalogs, **asked)


_SPELT = {
    "families": "--family",
    "gpus": "--gpu",
    "engines": "--engine",
}
"""Options whose values go by another name."""
_CELL = "family,variant,gpu,engine"


def _kernels(
    catalogs: Sequence[Path],
    *,
    keys: tuple[str, ...],
    families: tuple[str, ...],
    gpus: tuple[str, ...],
    engines: tuple[str, ...],
    plots: Path | None,
    as_json: bool,
    **asked: bool,
) -> None:
    """Constants of the catalogue; ``asked`` are the experiments beyond their grids."""
    from planner.calibrate.families import FAMILIES
    from planner.calibrate.types import Pick
    from planner.resources import folder

    # a folder of overlays alone, as PLANNER_CATALOG may name one, has no constants to hold
    root = next(filter(_has_kernels, catalogs), folder("catalog")) / "calibrations"
    pick = Pick(frozenset(gpus), frozenset(engines))
    names = families or FAMILIES.names()
    if asked.pop("whole_models"):
        from planner.cli.common.whole_models import whole_models

        whole_models(root, catalogs, names, pick, as_json=as_json)
    elif any(asked.values()):
        _beyond(root, names, pick, asked=asked, as_json=as_json)
    else:
        _within(root, names, pick, keys=keys, plots=plots, as_json=as_json)


def _has_kernels(folder: Path) -> bool:
    from planner.spec.catalog import Catalog
    from planner.spec.types import CalibrationSpec

    entries = Catalog((folder,)).entries("calibration")
    return any(isinstance(spec, CalibrationSpec) and spec.kernels for spec in entries)


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Refuse options by the names of their values. Raises UsageError."""
    from planner.errors import UsageError

    for name, value in options.items():
        if value:
            spelt = _SPELT.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(f"{spelt} {why}", "planner validate --help")


def _within(
    root: Path,
    names: Sequence[str],
    pick: Pick,
    *,
    keys: tuple[str, ...],
    plots: Path | None,
    as_json: bool,
) -> None:
    """Rows of the grids that constants were fitted on."""
    from planner.calibrate.plots import plot_residuals
    from planner.calibrate.validate import held_back, tabulate
    from planner.cli.common.output import show, write
    from planner.plan.values import plain
    from planner.report.accuracy import errors_view
    from planner.report.document import to_json

    held = list(held_back(root, names, pick))
    errors = [plain(row) for row in tabulate(held, keys)]
    if plots:
        for path in plot_residuals(held, plots):
            click.echo(f"wrote {path}", err=True)
    if as_json:
        write(to_json("errors", {"by": list(keys), "rows": errors}))
    else:
        show(errors_view(errors, keys))


def _beyond(
    root: Path, names: Sequence[str], pick: Pick, *, asked: Mapping[str, bool], as_json: bool
) -> None:
    """GPUs and shapes that no fit has seen."""
    from planner.calibrate.experiments import bare_roofline, leave_gpu_out, leave_shapes_out
    from planner.cli.common.output import show, write
    from planner.plan.values import plain
    from planner.report.accuracy import beyond_view
    from planner.report.document import to_json

    found: list[object] = []
    for name in names:
        found += leave_gpu_out(root, name, pick) if asked["transfer"] else ()
        found += leave_shapes_out(name, pick) if asked["shapes"] else ()
    found += bare_roofline(names, pick) if asked["roofline"] else ()
    rows = [{key: plain(getattr(row, key)) for key in _SHOWN if hasattr(row, key)} for row in found]
    if as_json:
        write(to_json("beyond", {"rows": rows}))
    else:
        show(beyond_view(rows))


_SHOWN = ("family", "variant", "engine", "gpu", "donor", "rule", "errors", "within")
"""Fields of an experiment that are for people; a sample of residuals is not."""


def _keys(by: str) -> tuple[str, ...]:
    from planner.calibrate.validate import KEYS
    from planner.errors import UsageError
    from planner.registry import nearest

    keys = tuple(word.strip() for word in by.split(","))
    for word in keys:
        if word not in KEYS:
            guess = nearest(word, KEYS)
            hint = f"did you mean '{guess}'?" if guess else f"some of {', '.join(KEYS)}"
            raise UsageError(f"cannot group by '{word}'", hint)
    return keys
