"""The reference of the command line, from click's own help."""

from __future__ import annotations

import click

from planner.cli.main import root

_WIDTH = 96


def all_commands() -> dict[str, click.Command]:
    """Every command by the words that call it, as ``catalog list``; groups stand before theirs."""
    found: dict[str, click.Command] = {}
    context = click.Context(root, info_name="planner")
    _walk(root, context, (), found)
    return found


def _walk(
    group: click.Group,
    context: click.Context,
    words: tuple[str, ...],
    found: dict[str, click.Command],
) -> None:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        path = (*words, name)
        found[" ".join(path)] = command
        if isinstance(command, click.Group):
            inner = click.Context(command, info_name=name, parent=context)
            _walk(command, inner, path, found)


def reference() -> str:
    """Help of ``planner`` and of every command, as a terminal of fixed width shows it."""
    parts = ["## planner", _fenced(_help(root, ()))]
    for words, command in all_commands().items():
        parts += [f"## planner {words}", _fenced(_help(command, tuple(words.split())))]
    return "\n\n".join(parts)


def _help(command: click.Command, words: tuple[str, ...]) -> str:
    context = click.Context(
        command,
        info_name=" ".join(("planner", *words)),
        max_content_width=_WIDTH,
        terminal_width=_WIDTH,
    )
    # the group's settings reach its commands through the parent that calls them
    context.help_option_names = ["-h", "--help"]
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"
