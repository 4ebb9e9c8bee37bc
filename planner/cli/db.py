"""``planner db``: the database itself: its revision, a copy, and moving its content."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.common.options import db_option, example, json_option
from planner.errors import UsageError


@click.group(
    short_help="Copy the store, or move it to another database.",
    epilog=example("planner db export everything.jsonl"),
)
def command() -> None:
    """Look after the database: which revision it has, and all of it as JSON lines."""


@command.command(
    short_help="Print where the store is and its revision.", epilog=example("planner db current")
)
@db_option
@json_option
def current(*, db: str | None, as_json: bool) -> None:
    """Print where the store is and which revision of tables it has, upgraded as needed."""
    from planner.cli.common.output import write
    from planner.report.document import to_json
    from planner.store.database import open_store

    with open_store(db) as store:
        place, revision = store.place, store.revision()
    if as_json:
        write(to_json("store", {"place": place, "revision": revision}))
    else:
        write(f"{place}: revision {revision}\n")


@command.command(
    short_help="Write all of the store as JSON lines.",
    epilog=example("planner db export everything.jsonl"),
)
@click.argument("file", type=click.Path(path_type=Path))
@db_option
@json_option
def export(*, file: Path, db: str | None, as_json: bool) -> None:
    """Write every plan, run and baseline to FILE, which must not be there yet."""
    from planner.cli.common.output import write
    from planner.report.document import to_json
    from planner.store.database import open_store
    from planner.store.transfer import export_lines

    try:
        with open_store(db) as store, file.open("x", encoding="utf-8") as out:
            count = sum(1 for line in export_lines(store) if out.write(line)) - 1
    except OSError as error:
        raise UsageError(
            f"{file} cannot be written: {error.strerror}", "name a new file"
        ) from error
    if as_json:
        write(to_json("export", {"file": str(file), "lines": count}))
    else:
        write(f"{count} plans, runs and baselines written to {file}\n")


@command.command(
    "import",
    short_help="Take over what another store exported.",
    epilog=example("planner db import everything.jsonl"),
)
@click.argument("file", type=click.Path(path_type=Path))
@db_option
@json_option
def import_(*, file: Path, db: str | None, as_json: bool) -> None:
    """Keep the plans, runs and baselines in FILE. What is here already stays as it is."""
    from planner.cli.common.output import write
    from planner.report.document import to_json
    from planner.store.database import open_store
    from planner.store.transfer import import_lines

    try:
        with open_store(db) as store, file.open(encoding="utf-8") as lines:
            counts = import_lines(store, lines, str(file))
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no text", "name a file of `planner db export`") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "name a file") from error
    if as_json:
        body = {kind: {"new": new, "known": known} for kind, (new, known) in counts.items()}
        write(to_json("import", body))
    else:
        for kind, (new, known) in counts.items():
            write(f"{kind}s: {new} new, {known} already known\n")


@command.command(
    short_help="Copy a SQLite store to a new file.", epilog=example("planner db backup plans.bak")
)
@click.argument("file", type=click.Path(path_type=Path))
@db_option
@json_option
def backup(*, file: Path, db: str | None, as_json: bool) -> None:
    """Copy a SQLite store to FILE while others may use it; a server has tools of its own."""
    from planner.cli.common.output import write
    from planner.report.document import to_json
    from planner.store.database import open_store

    with open_store(db) as store:
        store.back_up(file)
    write(to_json("backup", {"file": str(file)}) if as_json else f"copied to {file}\n")
