"""The documentation as a site: pages keep their places in the repository, so that links hold.

``mkdocs.yml`` names this file. The site has README.md and the other pages of the repository's root
beside ``docs/``, and what else pages link to: specs, measured tables, scripts.
"""

# ruff: noqa: INP001 - a script beside the pages it builds
from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
_STYLE = "docs/site.css"
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)\s#:]+)(?P<rest>(?:#[^)\s]*)?)\)")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    """Headings get the names that GitHub gives them, which links use."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def slug(heading: str, separator: str) -> str:
    """GitHub's name of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_files(files: Files, *, config: Any) -> Files:
    """The theme's own files, the pages, and what they link to."""
    themed = [file for file in files if file.src_dir != config.docs_dir]
    pages = [*_TOP, *sorted(_uri(path) for path in (ROOT / "docs").rglob("*.md"))]
    linked = sorted({target for page in pages for target in _linked(page)} - set(pages))
    ours = [
        File.generated(config, uri, abs_src_path=str(ROOT / uri))
        for uri in (*pages, *linked, _STYLE)
    ]
    return Files([*themed, *ours])


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """A link to a folder leads to its README; where it has none it is text alone."""
    here = PurePosixPath(page.file.src_uri).parent

    def leads(found: re.Match[str]) -> str:
        target = ROOT / here / found["path"]
        if not target.is_dir():
            return found[0]
        if not (target / "README.md").exists():
            return found["text"]
        return f"[{found['text']}]({found['path'].rstrip('/')}/README.md{found['rest']})"

    return _LINK.sub(leads, markdown)


def _linked(page: str) -> set[str]:
    """Files in the repository that a page links to."""
    path = ROOT / page
    text = _FENCED.sub("", path.read_text(encoding="utf-8"))
    targets = ((path.parent / found["path"]).resolve() for found in _LINK.finditer(text))
    return {_uri(target) for target in targets if target.is_file()}


def _uri(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
