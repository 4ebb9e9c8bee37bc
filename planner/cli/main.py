"""``planner``: finds the commands by their files, and alone turns errors into exit codes."""

from __future__ import annotations

import errno
import gc
import importlib
import io
import pkgutil
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from planner import __version__, cli
from planner.cli.common.options import example
from planner.errors import PlannerError
from planner.registry import nearest

STOPPED = 130
"""128 + SIGINT, as shells count."""

_OWN_NAME = __name__.rpartition(".")[2]


class LazyGroup(click.Group):
    """Commands are the modules beside this one, imported when asked for; each holds ``command``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, sorted."""
        del ctx
        modules = pkgutil.iter_modules(cli.__path__)
        return sorted(m.name for m in modules if not m.ispkg and m.name != _OWN_NAME)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, or None."""
        if cmd_name not in self.list_commands(ctx):
            return None
        found: click.Command = importlib.import_module(f"{cli.__name__}.{cmd_name}").command
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click does, with the nearest name where there is no such command."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = nearest(name, self.list_commands(ctx))
            hint = f"did you mean {near!r}?" if near else "`planner --help` lists them"
            ctx.fail(f"there is no command {name!r} ({hint})")
        return super().resolve_command(ctx, args)


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(
    cls=LazyGroup,
    context_settings=_SETTINGS,
    epilog=example("planner plan specs/qwen2.5-7b-rtx4090.yaml"),
)
@click.version_option(__version__, prog_name="planner", message="%(prog)s %(version)s")
def root() -> None:
    """Plan an LLM deployment before renting the hardware.

    A YAML file says what is to run; a plan says how fast each operator runs and why, which kernels
    fuse, what CUDA Graphs save, whether it fits, and what to change.

    Exit codes: 0 fine, 1 the answer is no (it does not fit), 2 the question is wrong.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit. Errors of the input are printed; a bug keeps its traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal without × or a file name that is no UTF-8 must not end in a traceback
            stream.reconfigure(errors="replace")
    # imports make many objects and little garbage: looking for it costs 7 % of a short command
    gc.set_threshold(100_000)
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = root.main(args=arguments, prog_name="planner", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("stopped", err=True)
        return STOPPED
    except PlannerError as error:
        return _told(error)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        from planner.cli.common.output import no_more

        return _told(no_more(error))  # of help texts, which click writes
    return code or 0


def _told(error: PlannerError) -> int:
    click.echo(str(error), err=True)
    return error.exit_code
