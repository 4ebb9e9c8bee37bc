"""Every command explains itself and shows how it is used."""

import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import planner
from planner.cli.main import root
from planner.resources import folder
from planner.spec.types import KINDS


def commands(
    group: click.Group, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield (*path, name), found
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))


COMMANDS = dict(commands(root, ()))
NO_TABLES = {("schema",), ("lab", "job"), ("completion",), ("serve",)}
"""What these print is JSON already, a shell's script, or nothing."""


def examples(words: tuple[str, ...], run) -> list[str]:
    """The command lines below `Example:` in a command's help."""
    _, found, rest = run(*words, "--help").out.partition("Example:\n")
    assert found
    lines = [line.strip() for line in rest.partition("\n\n")[0].splitlines()]
    return [line for line in lines if line]


def test_commands_are_the_files_of_their_folder():
    files = {path.stem for path in (Path(planner.__file__).parent / "cli").glob("*.py")}
    assert {words[0] for words in COMMANDS} == files - {"__init__", "main"}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_has_help_with_an_example_of_itself(words, run):
    outcome = run(*words, "--help")
    assert outcome.code == 0
    found = examples(words, run)
    assert found
    assert all(
        line.startswith(" ".join(("planner", *words))) or words == ("catalog",) for line in found
    )


@pytest.mark.parametrize("words", [w for w in COMMANDS if w != ("catalog",)], ids=" ".join)
def test_the_options_of_an_example_exist(words, run):
    params = COMMANDS[words].params
    known = {option for param in params for option in (*param.opts, *param.secondary_opts)}
    for line in examples(words, run):
        used = {word for word in shlex.split(line) if word.startswith("--")}
        assert used <= known


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_is_explained(words):
    for param in COMMANDS[words].params:
        if isinstance(param, click.Option):
            assert param.help


@pytest.mark.parametrize(
    "words", [w for w, c in COMMANDS.items() if not isinstance(c, click.Group)], ids=" ".join
)
def test_every_command_answers_in_json(words):
    options = {option for param in COMMANDS[words].params for option in param.opts}
    assert "--json" in options or words in NO_TABLES


def test_the_whole_help_lists_every_command(run):
    shown = run("--help").out
    assert all(f"\n  {words[0]} " in shown for words in COMMANDS)


def test_help_needs_no_heavy_package():
    heavy = "{'pydantic', 'rich', 'numpy', 'sqlalchemy', 'networkx', 'yaml', 'alembic'}"
    program = (
        "import sys\n"
        "from planner.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    print('heavy:', sorted(" + heavy + " & sys.modules.keys()))\n"
    )
    for words in (["--help"], ["plan", "--help"], ["catalog", "list", "--help"], ["--version"]):
        ended = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
        )
        assert ended.stdout.endswith("heavy: []\n")


def test_the_library_is_cheap_to_import():
    program = "import sys, planner; print('pydantic' in sys.modules, 'numpy' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "False False\n"


def test_version_is_that_of_the_package(run):
    project = tomllib.loads((folder("specs").parent / "pyproject.toml").read_text("utf-8"))
    assert run("--version").out == f"planner {project['project']['version']}\n"


def test_help_of_schema_names_every_kind(run):
    shown = " ".join(run("schema", "--help").out.split())
    assert all(kind in shown for kind in KINDS)


def test_a_misspelt_command_is_a_question_put_wrong(run):
    outcome = run("pln")
    assert outcome.code == 2
    assert "there is no command 'pln' (did you mean 'plan'?)" in outcome.err


def test_an_unknown_option_is_a_question_put_wrong(run):
    outcome = run("list", "--lmit", "3")
    assert outcome.code == 2
    assert "--lmit" in outcome.err
