"""The house rules that can be read off the source: who may import whom, sizes, docstrings, names."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "planner"
FILES = sorted(PACKAGE.rglob("*.py"))

LAYERS = (
    {"errors", "units", "num", "registry", "resources", "dtypes", "display", "records"},
    {"spec"},
    {"ops"},
    {"graph"},
    {"cost"},
    {"fusion"},
    {"capture"},
    {"plan"},
    {"serving"},
    {"charts"},
    {"store", "report", "importers", "lab", "calibrate"},
    {"desk"},
    {"service"},
    {"cli"},
    {"__init__", "__main__"},
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
BOTTOM = LAYERS[0]
"""The bottom modules are small enough to see each other."""

ONLY_IN = {
    "yaml": {"planner/spec"},
    "sqlalchemy": {"planner/store", "migrations"},
    "alembic": {"planner/store", "migrations"},
    "click": {"planner/cli"},
    "networkx": {"planner/graph", "planner/cost", "planner/fusion"},
    "fastapi": {"planner/service"},
    "jinja2": {"planner/service/pages"},
    "torch": {"planner/lab", "planner/importers/exported"},
    "onnx": {"planner/importers/exported"},
    "altair": {"planner/charts", "planner/calibrate"},
}
"""Packages, and the folders that alone may import them."""

PURE = ("ops", "graph", "cost", "fusion", "capture", "plan", "serving")
IMPURE = {
    "time", "os", "random", "datetime", "socket", "pathlib", "io", "subprocess", "shutil", "tempfile",
    "secrets", "uuid", "urllib", "http", "requests", "threading", "multiprocessing", "platform",
}  # fmt: skip
"""What reads clock, environment, network, disk or chance."""

MOST_LINES = 300
MOST_FUNCTION_LINES = 40


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8"), str(path)) for path in FILES}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.Module, inside: Path) -> Iterator[tuple[str, int]]:
    """Every module a file imports, wherever in it, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{inside}:{node.lineno}: imports are absolute"
            module = node.module or ""
            whole = module == "planner"
            yield from (
                (f"{module}.{alias.name}" if whole else module, node.lineno) for alias in node.names
            )


def uses(path: Path) -> Iterator[tuple[str, int]]:
    return imports(trees()[path], path)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_module_stands_in_a_layer():
    assert {layer(path) for path in FILES} <= RANK.keys()


def test_an_import_only_goes_down_and_neighbours_never_meet():
    upward = []
    for path in FILES:
        own = layer(path)
        for module, line in uses(path):
            if not module.startswith("planner."):
                continue
            other = module.split(".")[1]
            if other == "__version__" or (other not in RANK and own in LAYERS[-1]):
                continue  # a name that the package itself gives out
            same = other == own or (own in BOTTOM and other in BOTTOM)
            if not same and RANK.get(other, len(LAYERS)) >= RANK[own]:
                upward.append(f"{name(path)}:{line}: {own} imports {module}")
    assert not upward, "\n".join(upward)


def test_bottom_modules_do_not_import_each_other_in_a_circle():
    needs = {
        path.stem: {m.split(".")[1] for m, _ in uses(path) if m.startswith("planner.")}
        for path in FILES
        if layer(path) in BOTTOM
    }
    while free := {module for module, others in needs.items() if not others & needs.keys()}:
        needs = {module: others for module, others in needs.items() if module not in free}
    assert not needs


@pytest.mark.parametrize("package", ONLY_IN)
def test_a_package_is_imported_only_in_its_folders(package):
    found = []
    for path in [*FILES, *sorted((ROOT / "migrations").rglob("*.py"))]:
        tree = trees().get(path) or ast.parse(path.read_text("utf-8"))
        home = path.relative_to(ROOT).as_posix()
        if any(home.startswith(f"{folder}/") for folder in ONLY_IN[package]):
            continue
        found += [
            f"{home}:{line}"
            for module, line in imports(tree, path)
            if module.split(".")[0] == package
        ]
    assert not found


@pytest.mark.parametrize("folder", [folder for folder in PURE if (PACKAGE / folder).is_dir()])
def test_from_operators_to_serving_nothing_reads_clock_environment_network_or_disk(folder):
    found = []
    for path in FILES:
        if layer(path) != folder:
            continue
        found += [
            f"{name(path)}:{line}: {m}" for m, line in uses(path) if m.split(".")[0] in IMPURE
        ]
        found += [
            f"{name(path)}:{node.lineno}: open()"
            for node in ast.walk(trees()[path])
            if isinstance(node, ast.Call)
            and (
                (isinstance(node.func, ast.Name) and node.func.id in {"open", "print", "input"})
                or (
                    isinstance(node.func, ast.Attribute)
                    and node.func.attr in {"read_text", "write_text"}
                )
            )
        ]
    assert not found


def test_only_the_command_line_prints_or_exits():
    found = [
        f"{name(path)}:{node.lineno}"
        for path in FILES
        if layer(path) not in ("cli", "service", "lab", "__main__")
        for node in ast.walk(trees()[path])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"print", "exit", "quit"}
    ]
    assert not found


def test_files_stay_short(record_property):
    lines = {name(path): len(path.read_text("utf-8").splitlines()) for path in FILES}
    record_property("planner", f"{sum(lines.values())} lines in {len(lines)} files")
    assert not {file: n for file, n in lines.items() if n > MOST_LINES}


def test_functions_stay_short():
    long = {
        f"{name(path)}:{node.name}": node.end_lineno - node.lineno + 1
        for path in FILES
        for node in functions(trees()[path])
        if node.end_lineno - node.lineno + 1 > MOST_FUNCTION_LINES
    }
    assert not long


def test_every_module_says_what_it_is():
    assert not [name(path) for path, tree in trees().items() if not ast.get_docstring(tree)]


def test_every_public_function_and_class_has_a_docstring():
    """Methods that fill in an inherited, documented one need none of their own."""
    inherited = documented_methods()
    silent = []
    for path, tree in trees().items():
        for node, owner in definitions(tree):
            if node.name.startswith("_") or ast.get_docstring(node):
                continue
            if owner is not None and (owner.startswith("_") or node.name in inherited):
                continue
            silent.append(f"{name(path)}:{node.lineno}: {node.name}")
    assert not silent, "\n".join(silent)


def documented_methods() -> set[str]:
    """Names of methods that some class of the package documents."""
    return {
        node.name
        for tree in trees().values()
        for node, owner in definitions(tree)
        if owner is not None and ast.get_docstring(node)
    }


def definitions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | ast.ClassDef, str | None]]:
    """Functions and classes of a module, and methods with their class's name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node, None
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(
                    inner, ast.FunctionDef | ast.AsyncFunctionDef
                ) and not inner.name.startswith("__"):
                    yield inner, node.name


def test_no_file_is_a_drawer_for_everything():
    drawers = {"utils", "util", "helpers", "helper", "misc", "common_utils"}
    everything = [*FILES, *(ROOT / "tests").rglob("*.py")]
    assert not [path.name for path in everything if path.stem in drawers]


def test_test_files_have_names_of_their_own():
    """Without packages two modules of one name would shadow each other."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))
