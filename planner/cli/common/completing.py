"""What Tab offers: names of the catalogue, paths of ``--set``, ids of the store.

A completion prints nothing but its words: where the store or a folder cannot be read it has none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
from click.shell_completion import CompletionItem, get_completion_class

from planner import resources
from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.store.repository import Store

PROGRAM = "planner"
MOST_IDS = 200
"""The newest so many are offered."""

Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_BASH_WORD = "COMPREPLY+=($value)"
_NAMED = {"gpu": "gpus", "model": "models", "backend.name": "backends"}
"""Fields of a deployment whose values are names, by the catalogue's folder."""


def script(shell: str) -> str:
    """The script that a shell reads: it asks this program for every word."""
    kind = get_completion_class(shell)
    assert kind
    made = kind(click.Command(PROGRAM), {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    text = made.source_template % made.source_vars()
    # a path of --set goes on behind its sign, so no space may follow it
    onward = f"{_BASH_WORD}\n            [[ $value == *= ]] && compopt -o nospace"
    return text.replace(_BASH_WORD, onward).strip() + "\n"


def completer(words: Callable[[click.Context], Iterable[str]]) -> Completer:
    """Offers the words that go on from what was typed; of several joined by commas, the last."""

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del param
        before, comma, begun = incomplete.rpartition(",")
        try:
            found = [word for word in words(ctx) if word.startswith(begun)]
        except (PlannerError, OSError):
            return []
        return [CompletionItem(f"{before}{comma}{word}") for word in found]

    return complete


def named(folder: str) -> Completer:
    """Offers the names in a folder of the catalogue."""
    return completer(lambda ctx: _names(folder, ctx))


def _names(folder: str, ctx: click.Context) -> list[str]:
    """Names in the user's folders and in the catalogue that ships, without reading a file."""
    places = (*(ctx.params.get("catalogs") or ()), resources.folder("catalog"))
    return sorted({path.stem for place in places for path in Path(place).glob(f"{folder}/*.yaml")})


@completer
def kinds(ctx: click.Context) -> Iterable[str]:
    """The catalogue's kinds."""
    del ctx
    from planner.desk.catalogue import OPS
    from planner.spec.catalog import FOLDERS

    return (*FOLDERS.values(), OPS)


@completer
def entries(ctx: click.Context) -> Iterable[str]:
    """Entries of the kind that the word before says."""
    from planner.desk.catalogue import OPS, folder_of
    from planner.ops import OPERATORS

    folder = folder_of(ctx.params.get("kind") or "")
    return OPERATORS.names() if folder == OPS else _names(folder, ctx)


@completer
def spec_kinds(ctx: click.Context) -> Iterable[str]:
    """The kinds of spec that have a schema."""
    del ctx
    from planner.spec.types import KINDS

    return KINDS


def settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Paths of a deployment as ``PATH=``, and names behind those that take one."""
    path, equals, _ = incomplete.partition("=")
    if not equals:
        return completer(_paths)(ctx, param, incomplete)
    if path not in _NAMED:
        return []
    values = [f"{path}={name}" for name in _names(_NAMED[path], ctx)]
    return completer(lambda _: values)(ctx, param, incomplete)


def _paths(ctx: click.Context) -> Iterable[str]:
    from planner.spec.columns import deployment_paths

    for path in deployment_paths():
        if path == "backend.flags.NAME":
            yield from (f"backend.flags.{name}=" for name in _flags(ctx))
        elif "NAME" not in path:
            yield f"{path}="


def _flags(ctx: click.Context) -> list[str]:
    """Flags of all engines of the catalogue."""
    from planner.spec.catalog import Catalog
    from planner.spec.types import BackendSpec

    engines = Catalog.standard(ctx.params.get("catalogs") or ()).entries("backend")
    return sorted(
        {flag for each in engines if isinstance(each, BackendSpec) for flag in each.flags}
    )


def _of_store(read: Callable[[Store], Iterable[str]]) -> Completer:
    """Offers what an existing store holds; none is made for it."""

    def found(ctx: click.Context) -> Iterable[str]:
        from planner.store import address
        from planner.store.database import open_store

        url = ctx.params.get("db") or os.environ.get("PLANNER_DB")
        place = address.parse(url)
        if place.file and not place.file.exists():
            return ()
        with open_store(url) as store:
            return tuple(dict.fromkeys(read(store)))

    return completer(found)


plan_ids = _of_store(lambda store: (row.plan_id for row in store.plans(MOST_IDS)))
run_ids = _of_store(lambda store: (row.run_id for row in store.runs(MOST_IDS)))
baselines = _of_store(lambda store: (row.name for row in store.baselines()))


def plans_or_files(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Ids of plans and deployments in the folder; any file where there are neither."""
    folder = Path(incomplete).parent if "/" in incomplete else Path()
    files = sorted(path.as_posix() for path in folder.glob("*.yaml"))
    found = plan_ids(ctx, param, incomplete) + completer(lambda _: files)(ctx, param, incomplete)
    return found or [CompletionItem(incomplete, type="file")]
