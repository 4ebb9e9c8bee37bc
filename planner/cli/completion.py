"""``planner completion``: what a shell reads to complete this program's words."""

from __future__ import annotations

import click

from planner.cli.common.options import example


@click.command(
    short_help="Print a shell's completion script.",
    epilog=example(
        "planner completion bash > ~/.local/share/bash-completion/completions/planner",
        "planner completion zsh > ~/.zfunc/_planner",
        "planner completion fish > ~/.config/fish/completions/planner.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print what SHELL reads to complete commands, options, names, paths of --set and ids.

    SHELL is bash, zsh or fish. Names are those of the catalogue, ids those of the store.
    """
    from planner.cli.common.completing import script
    from planner.cli.common.output import write

    write(script(shell))
