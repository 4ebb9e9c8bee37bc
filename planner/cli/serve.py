"""``planner serve``: plans, runs and verdicts over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from planner.cli.common.options import catalog_option, db_option, example
from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.service.settings import Settings


@click.command(
    short_help="Serve plans, runs and verdicts over HTTP.",
    epilog=example(
        "planner serve",
        "planner serve --host 0.0.0.0 --token-file tokens.txt --db postgresql://planner@db/planner",
    ),
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
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
    import logging
    import os
    from dataclasses import replace

    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        hint = "pip install 'inference-planner[service]'"
        raise UsageError("planner serve needs more packages", hint) from None
    from planner.service.serve import opened, serve
    from planner.service.settings import Settings
    from planner.service.tokens import tokens_of
    from planner.store.database import open_store

    settings = Settings(db, catalogs, tokens_of(token_file, os.environ))
    settings = _guarded(settings, host, hosts, origins)
    if workers is not None:
        settings = replace(settings, workers=workers)
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(message)s")
    with open_store(db) as store:  # so that a wrong one is told before anything listens
        place = store.place
    listening = opened(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}"
    serve(settings, listening, lambda: click.echo(f"planner serves {place} at {address}"))


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
