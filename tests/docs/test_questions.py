"""The page of questions: all are there, each with one command that answers, and its specs."""

import re

import pytest
from docs_pages import ROOT, generator, text

from planner.spec.load import load_deployment

GENERATE = generator()
PAGE = "docs/questions.md"
COMMANDS = GENERATE.questions.commands()
NUMBER = 18
SPECS = sorted((ROOT / "docs/examples/questions").glob("*.yaml"))


def test_every_question_has_one_command():
    """Numbered in turn; a section without an output would take over the next one's."""
    assert list(COMMANDS) == list(range(1, NUMBER + 1))
    assert len(re.findall(r"^## .+\?$", text(PAGE), re.MULTILINE)) == NUMBER
    assert text(PAGE).count("<!-- output: planner ") == NUMBER
    assert len(set(COMMANDS.values())) == NUMBER


@pytest.mark.parametrize("number", range(1, NUMBER + 1))
def test_each_command_answers(number):
    """It ends with 0, and says something."""
    done = GENERATE.outputs.printed(COMMANDS[number], ROOT)
    assert (done.code, bool(done.out)) == (0, True)


def test_figures_belong_to_questions():
    """The table has a row of each, in the order of the questions."""
    numbers = [figure.question for figure in GENERATE.questions.FIGURES]
    assert numbers == sorted(numbers)
    assert set(numbers) <= set(COMMANDS)
    assert set(COMMANDS) - set(numbers) == {5, 14, 15}


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_specs_of_the_page_are_asked_for(spec):
    """Each says what it is, has its file's name, and stands in a command."""
    assert load_deployment(spec).name == spec.stem
    assert spec.read_text(encoding="utf-8").startswith("# ")
    assert any(spec.name in command for command in COMMANDS.values())
