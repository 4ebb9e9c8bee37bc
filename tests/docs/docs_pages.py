"""The pages of the documentation, and the blocks of code in them."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("changelog.d/*.md"))
)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def text(page: str) -> str:
    """A page's text."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The page's blocks of code in a language."""
    return [body for found, body in _BLOCK.findall(text(page)) if found == language]


def prose(page: str) -> str:
    """A page without its blocks of code."""
    return _BLOCK.sub("", text(page))


def headings(page: str) -> list[str]:
    """The page's headings without their signs."""
    return re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)


def commands(page: str) -> list[str]:
    """Lines of shell blocks, without comments."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    return [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]


def generator() -> ModuleType:
    """``docs/generate.py`` as a module."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
