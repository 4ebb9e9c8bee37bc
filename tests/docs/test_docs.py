"""The documentation: generated parts are current, nothing is missing, links lead somewhere."""

import inspect
import re

import pytest
from docs_pages import PAGES, ROOT, commands, generator, headings, prose, text

from planner.fusion.groups import OWN_FACTS
from planner.ops import OPERATORS
from planner.plan.engines import engine_of
from planner.plan.precision import scheme_of
from planner.spec import types
from planner.spec.catalog import Catalog
from planner.spec.load import load_deployment
from planner.spec.question import ask

GENERATE = generator()
COMMAND_FILES = sorted(
    path.stem
    for path in (ROOT / "planner/cli").glob("*.py")
    if path.stem not in {"__init__", "main"}
)
SPEC_CLASSES = sorted(
    name
    for name, kind in inspect.getmembers(types, inspect.isclass)
    if issubclass(kind, types.Spec) and kind not in {types.Spec, types.CatalogSpec}
)
KINDS = {kind: spec.__name__ for kind, spec in types.KINDS.items()}


@pytest.mark.parametrize("page", GENERATE.PAGES)
def test_generated_parts_are_current(page):
    """`python docs/generate.py` would change nothing."""
    assert GENERATE.refreshed(text(page)) == text(page)


def test_every_command_has_its_help_in_the_reference():
    """A file in planner/cli is a command, and docs/cli.md has a section on it."""
    assert COMMAND_FILES
    assert {f"planner {name}" for name in COMMAND_FILES} <= set(headings("docs/cli.md"))


def test_every_command_is_shown_in_the_readme():
    """A newcomer meets each command once."""
    assert [name for name in COMMAND_FILES if f"planner {name}" not in text("README.md")] == []


def test_every_help_text_has_an_example():
    """Help shows a command line that begins with `planner`, and no formatting sign of click."""
    sections = re.split(r"^## ", text("docs/cli.md"), flags=re.MULTILINE)[1:]
    assert [part.splitlines()[0] for part in sections if "Example:\n    planner" not in part] == []


@pytest.mark.parametrize("page", ["docs/specs.md", "docs/model.md"])
def test_every_operator_is_described(page):
    """The tables name each registered operator."""
    assert [name for name in OPERATORS.names() if f"| `{name}` |" not in text(page)] == []


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_spec_has_a_section_and_a_table(kind):
    """A section by the kind's name, and the table of its fields."""
    assert kind in headings("docs/specs.md")
    assert f"<!-- generated: fields {KINDS[kind]} -->" in text("docs/specs.md")


@pytest.mark.parametrize("name", [name for name in SPEC_CLASSES if name not in KINDS.values()])
def test_every_part_of_a_spec_has_a_section_of_its_name(name):
    """Tables link to the sections of the values that fields hold."""
    assert name in headings("docs/specs.md")
    assert f"<!-- generated: fields {name} -->" in text("docs/specs.md")


@pytest.mark.parametrize("name", sorted(GENERATE.plan_json.classes()))
def test_every_value_of_the_json_has_a_section(name):
    """Plans, advice, diffs and intensity tables are all described."""
    assert name in headings("docs/json.md")
    assert f"<!-- generated: json {name} -->" in text("docs/json.md")


def test_words_kept_beside_the_code_are_needed():
    """None for a field that is gone or that its own class describes."""
    words = GENERATE.specs.FIELDS
    for name, field in (key.split(".") for key in words if "." in key):
        schema = getattr(types, name).model_json_schema(by_alias=True)
        assert GENERATE.specs.own_text(schema["properties"][field]) == "", f"{name}.{field}"
    for name, fields in GENERATE.plan_json.WORDS.items():
        kind = GENERATE.plan_json.classes()[name]
        assert fields.keys() <= kind.__dataclass_fields__.keys()
        assert not fields.keys() & GENERATE.plan_json.field_texts(kind).keys()


def test_the_facts_of_conditions_are_those_the_engine_knows():
    """The table of facts has each name that a condition may ask of it or of a node, and no other."""
    deployment = load_deployment(ROOT / "specs/qwen2.5-7b-rtx4090.yaml")
    question = ask(deployment, Catalog.standard())
    used = scheme_of(question).formats
    engine = engine_of(question, used, "decode")
    facts = {*engine.facts, *OWN_FACTS}
    section = text("docs/specs.md").split("## Conditions")[1].split("## Operators")[0]
    cells = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    told = {name for cell in cells for name in re.findall(r"`(.+?)`", cell)}
    assert told == {n for n in facts if not n.startswith("flag.")} | {"flag.NAME"}


def test_make_targets_of_the_pages_exist():
    """What README and CONTRIBUTING tell to make is in the Makefile."""
    targets = set(re.findall(r"^(\w+):", text("Makefile"), re.MULTILINE))
    told = [
        line.split()[1]
        for page in ("README.md", "CONTRIBUTING.md")
        for line in commands(page)
        if line.startswith("make ")
    ]
    assert {"plan", "test"} <= set(told)
    assert set(told) <= targets


def anchors(page):
    """Where links into a page may lead: GitHub's names of its headings, and ids."""
    named = re.findall(r'<a id="(.+?)">', text(page))
    slugs = [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in headings(page)]
    return {*named, *slugs}


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_project_lead_somewhere(page):
    """The file is there, and so is the heading."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        inside = not anchor or anchor in anchors(file.resolve().relative_to(ROOT).as_posix())
        if not file.exists() or not inside:
            broken.append(target)
    assert broken == []


def linked(page):
    """Pages that a page links to."""
    targets = re.findall(r"\]\(([^)\s#]+\.md)", prose(page))
    places = ((ROOT / page).parent / target for target in targets if "://" not in target)
    return {place.resolve().relative_to(ROOT).as_posix() for place in places}


def test_the_readme_leads_to_every_page_of_the_documentation():
    """Directly: a page that only another one mentions is found by nobody."""
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert pages - linked("README.md") == set()


def test_decisions_are_numbered_in_turn_and_listed():
    """Records are 0001, 0002, …; each has its three parts and its line in the list."""
    records = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
    numbers = [int(record.name[:4]) for record in records]
    assert numbers == list(range(1, len(records) + 1))
    for record in records:
        body = record.read_text(encoding="utf-8")
        assert all(f"**{part}.**" in body for part in ("Context", "Decision", "Consequences"))
        assert record.name in text("docs/decisions/README.md")


def test_changelog_fragments_have_a_kind():
    """A fragment is WORDS.KIND.md with something in it."""
    for fragment in (ROOT / "changelog.d").glob("*"):
        if fragment.name != "README.md":
            assert re.fullmatch(r"[a-z0-9-]+\.(added|changed|fixed|removed)\.md", fragment.name)
            assert fragment.read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("page", PAGES)
def test_pages_hold_no_path_of_somebodys_machine(page):
    """Outputs in the pages come from a run elsewhere."""
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", text(page))
