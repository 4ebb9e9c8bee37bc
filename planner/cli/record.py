"""``planner record``: a measured run, kept beside the plan it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planner.cli.common import completing
from planner.cli.common.options import db_option, example, json_option
from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.plan.runs import Run
    from planner.plan.types import Plan
    from planner.store.types import StoredRun


@click.command(
    short_help="Keep a measured run beside its plan.",
    epilog=example(
        "planner record 3f2a benchmark.json",
        "planner record 3f2a benchmark.json --set backend.version=0.26.1",
        "planner record 3f2a --value 12.3ms --metric step",
    ),
)
@click.argument("plan_id", metavar="PLAN", shell_complete=completing.plan_ids)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--value", metavar="QUANTITY", help="One figure with its unit, in place of a file.")
@click.option(
    "--metric",
    default="step",
    show_default=True,
    metavar="NAME",
    help="What the figure of --value is, as in tpot, or tpot.p99 for another statistic than mean.",
)
@click.option(
    "--set",
    "sets",
    metavar="PATH=VALUE",
    multiple=True,
    help="What ran, as in backend.version=0.26.1, where the file is silent. May be repeated.",
)
@db_option
@json_option
def command(
    *,
    plan_id: str,
    file: Path | None,
    value: str | None,
    metric: str,
    sets: tuple[str, ...],
    db: str | None,
    as_json: bool,
) -> None:
    """Keep the runs in FILE, or one figure, beside the stored plan whose id begins with PLAN.

    The file's format is known by its content, and the file is kept whole. What it does not say of
    the circumstances is taken from the plan; where it contradicts the plan, it is refused.
    """
    from planner.cli.common.output import show, write
    from planner.desk.measured import record, run_document, settings
    from planner.report.document import to_json
    from planner.report.verdicts import recorded_view
    from planner.store.database import open_store

    raw, runs = _read(file, value, metric)
    said = settings(sets)
    with open_store(db) as store:
        plan, kept = record(store, plan_id, raw, [_with(run, said) for run in runs])
    documents = [run_document(stored) | {"new": new} for stored, new in kept]
    if not as_json:
        show(recorded_view(documents, plan.name, [_kernels(stored, plan) for stored, _ in kept]))
    elif len(documents) == 1:
        write(to_json("run", documents[0]))
    else:
        write(to_json("runs", {"runs": documents}))


def _read(file: Path | None, value: str | None, metric: str) -> tuple[bytes, tuple[Run, ...]]:
    if (file is None) == (value is None):
        raise UsageError("record takes a file or --value", "planner record --help")
    from planner import importers

    if value is not None:
        return _typed(importers.from_value(metric, value), f"{metric} = {value}\n")
    assert file is not None
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "name a file") from error
    return raw, importers.read(raw, str(file))


def _kernels(stored: StoredRun, plan: Plan) -> list[str]:
    """What its kernels say against the plan's; nothing where there are none."""
    from planner.plan.kernel_match import match
    from planner.report.kernel_match import summary_lines

    if not stored.run.kernels:
        return []
    try:
        return list(summary_lines(match(stored.run, plan), stored.run_id))
    except UsageError as error:
        return [str(error)]  # a run is a fact whether or not its plan fits it


def _typed(run: Run, text: str) -> tuple[bytes, tuple[Run, ...]]:
    """A figure typed by hand, and a file that stands for it: 12 ms of two metrics are two."""
    import hashlib
    from dataclasses import replace

    raw = text.encode()
    source = replace(run.source, sha256=hashlib.sha256(raw).hexdigest(), size_bytes=len(raw))
    return raw, (replace(run, source=source),)


def _with(run: Run, said: dict[str, Any]) -> Run:
    """The run with what the user says of it, which stands over what the file says."""
    from dataclasses import replace

    if not said:
        return run
    note = f"said by hand: {', '.join(f'{path} = {value}' for path, value in said.items())}"
    return replace(run, context={**run.context, **said}, notes=(*run.notes, note))
