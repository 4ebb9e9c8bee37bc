"""Where commands write. A reader that goes away (``| head``) ends the writing, not the command."""

from __future__ import annotations

import io
import os
import shutil
import sys
from typing import TYPE_CHECKING

from planner.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

NARROWEST, WIDEST = 80, 100
"""Columns of a report: as the terminal has, within these."""


def show(view: RenderableType) -> None:
    """Print a report."""
    from rich.console import Console

    columns = shutil.get_terminal_size((WIDEST, 0)).columns
    console = Console(
        file=io.StringIO(),
        force_terminal=sys.stdout.isatty(),
        width=min(WIDEST, max(NARROWEST, columns)),
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as captured:
        console.print(view)
    lines = captured.get().splitlines()
    write("".join(f"{line.rstrip()}\n" for line in lines))


def write(text: str) -> None:
    """Write to stdout at once. Raises UsageError where it takes no more, as a full disk."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        unwritten = no_more(error)
        if not isinstance(error, BrokenPipeError):
            raise unwritten from None


def no_more(error: OSError) -> UsageError:
    """Write nothing to stdout from here on, and say why."""
    # what is still buffered would raise again when the interpreter flushes on its way out
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    reason = f"the output cannot be written: {error.strerror}"
    return UsageError(reason, "what it was sent to is full or gone")
