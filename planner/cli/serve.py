"""``planner serve``: plans, runs and verdicts over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common.options import catalog_option, db_option, example
from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.service.settings import Settings

_PACKAGES = ("fastapi", "jinja2", "prometheus_client", "uvicorn")


@click.command(
    short_help="Serve plans, runs and verdicts over HTTP.",
    epilog=example(
        "planner serve",
        "planner serve --host 0.0.0.0 --token-file tokens.txt --db postgresql://planner@db/planner",
    ),
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="On which port; 0 takes any that is free.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="Lines `read TOKEN` or `write TOKEN`; beside PLANNER_READ_TOKEN and PLANNER_WRITE_TOKEN.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name under which it may be addressed without tokens. May be repeated.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="URL",
    help="An origin whose pages may change state, as of a proxy. May be repeated.",
)
@click.option(
    "--workers",
    type=click.IntRange(0, 64),
    help="Processes that plan; 0 plans in threads, without limits. One for each core, up to 4, by "
    "default.",
)
@catalog_option
@db_option
def command(
    *,
    host: str,
    port: int,
    token_file: Path | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    workers: int | None,
    catalogs: tuple[Path, ...],
    db: str | None,
) -> None:
    """Serve a REST interface under /api/v1 until SIGTERM or Ctrl-C.

    It listens on this machine alone unless --host says otherwise; then a token is needed.
    """
    import os
    from dataclasses import replace

    _check_packages()
    from planner.service.serve import opened, serve
    from planner.service.settings import Settings
    from planner.service.tokens import tokens_of
    from planner.store.database import open_store

    settings = Settings(db, catalogs, tokens_of(token_file, os.environ))
    settings = _guarded(settings, host, hosts, origins)
    if workers is not None:
        settings = replace(settings, workers=workers)
    with open_store(db) as store:  # so that a wrong one is told before anything listens
        if store.in_memory:
            raise UsageError("a store in memory cannot be served", "name a file with --db")
        place = store.place
    listening = opened(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}"
    serve(settings, listening, lambda: click.echo(f"planner serves {place} at {address}"))


def _check_packages() -> None:
    from importlib.util import find_spec

    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        hint = "pip install 'inference-planner[service]'"
        raise UsageError(f"planner serve needs {', '.join(missing)}", hint)


def _guarded(
    settings: Settings, host: str, hosts: tuple[str, ...], origins: tuple[str, ...]
) -> Settings:
    """With what guards it. Raises UsageError beyond loopback without tokens."""
    from dataclasses import replace

    from planner.service.serve import LOOPBACK

    settings = replace(settings, origins=frozenset(origins))
    if settings.tokens.needed:
        return settings
    if host not in LOOPBACK:
        hint = "give --token-file, or PLANNER_READ_TOKEN and PLANNER_WRITE_TOKEN"
        raise UsageError(f"beyond this machine, at {host}, a token is needed", hint)
    return replace(settings, hosts=LOOPBACK | {name.lower() for name in hosts})
