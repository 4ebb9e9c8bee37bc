"""The site's settings: every page is in its navigation. `make site` builds it, strictly."""

import fnmatch

import yaml
from docs_pages import PAGES, ROOT

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def pages(part):
    """Pages of a part of the navigation, as they stand there."""
    if isinstance(part, str):
        return [part]
    inner = part.values() if isinstance(part, dict) else part
    return [page for each in inner for page in pages(each)]


def test_every_page_is_in_the_navigation_once():
    """Records of decisions are reached from their list; changelog fragments are no pages."""
    aside = SITE["not_in_nav"].split()
    wanted = {
        page
        for page in PAGES
        if not page.startswith("changelog.d/")
        and not any(fnmatch.fnmatch(page, pattern) for pattern in aside)
    }
    shown = pages(SITE["nav"])
    assert len(shown) == len(set(shown))
    assert set(shown) == wanted


def test_nothing_of_the_site_comes_from_a_network():
    """No fonts, and style sheets of our own alone."""
    assert SITE["theme"]["font"] is False
    assert all((ROOT / sheet).is_file() for sheet in SITE["extra_css"])
    assert "extra_javascript" not in SITE


def test_ci_builds_the_site_strictly():
    """A page left out or a link that leads nowhere fails it."""
    assert "mkdocs build --strict" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "make site" in (ROOT / ".ci/run").read_text(encoding="utf-8")
    checks = {**SITE["validation"]["links"], **SITE["validation"]["nav"]}
    assert set(checks.values()) == {"warn"}
