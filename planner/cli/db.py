"""``planner db``: the database itself: what it holds, a copy, moving and removing content."""

from __future__ import annotations

from pathlib import Path

import click

from planner.cli.common.options import db_option, example, json_option
from planner.errors import UsageError


@click.group(
    short_help="Copy, move or prune the store.",
    epilog=example("planner db export everything.jsonl"),
)
def command() -> None:
    """Look after the database: what it holds, a copy, all of it as JSON lines, a smaller one."""


@command.command(
    short_help="Print where the store is and what it holds.", epilog=example("planner db current")
)
@db_option
@json_option
def current(*, db: str | None, as_json: bool) -> None:
    """Print where the store is, which revision of tables it has, and how much it holds.

    A store of an earlier revision is upgraded first, as by every command, after a copy was made.
    """
    from planner.cli.common.output import show, write
    from planner.report.document import to_json
    from planner.report.storage import store_view
    from planner.store.database import open_store

    with open_store(db) as store:
        body = {"place": store.place, "revision": store.revision(), **vars(store.contents())}
    if as_json:
        write(to_json("store", body))
    else:
        show(store_view(body))


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
    from planner.store.transfer import export_lines, write_lines

    with open_store(db) as store:
        count = write_lines(file, export_lines(store)) - 1
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


@command.command(
    short_help="Remove old plans and runs that nothing refers to.",
    epilog=example(
        "planner db prune --older-than 90d",
        "planner db prune --older-than 90d --yes",
        "planner db prune --yes --archive pruned.jsonl",
    ),
)
@click.option(
    "--older-than",
    "age",
    default="90d",
    show_default=True,
    metavar="AGE",
    help="The least age of what goes, in h, d or w.",
)
@click.option("--yes", is_flag=True, help="Remove; without it nothing is changed.")
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to keep what is removed, as JSON lines; by default beside a SQLite file.",
)
@click.option(
    "--backups",
    is_flag=True,
    help="Remove too the copies that upgrades left beside a SQLite file, all but the newest.",
)
@db_option
@json_option
def prune(
    *, age: str, yes: bool, archive: Path | None, backups: bool, db: str | None, as_json: bool
) -> None:
    """Say which plans and runs could go, and with --yes remove them.

    A run goes that no baseline stands for or ever stood for. A plan goes that no remaining run
    belongs to; of a plan with runs, results that a newer one has replaced. What goes is written to
    a new file first, which `planner db import` takes back.
    """
    from planner.cli.common.output import show, write
    from planner.cli.common.pruning import pruned
    from planner.report.document import to_json
    from planner.report.storage import prune_view

    body = pruned(db, age, archive, yes=yes, backups=backups)
    if as_json:
        write(to_json("prune", body))
    else:
        show(prune_view(body))
