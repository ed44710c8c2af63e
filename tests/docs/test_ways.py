"""Every page of the reference is found by following links, and `noetl --help` says where they
are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl.cli.main import noetl

from .pages import ROOT

_LINK = re.compile(r"\]\(([^)#\s]+)")


def reached_from(start: Path) -> set[Path]:
    """The pages that links lead to; a link to a directory leads to its pages."""
    seen: set[Path] = set()
    todo = [start]
    while todo:
        page = todo.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        if page.is_dir():
            todo += page.glob("*.md")
        elif page.suffix == ".md":
            links = _LINK.findall(page.read_text(encoding="utf-8"))
            todo += [(page.parent / link).resolve() for link in links if "://" not in link]
    return seen


@pytest.mark.parametrize("start", ["README.md", "docs/quickstart.md"])
def test_every_page_of_the_reference_is_reached(start: str) -> None:
    missing = set((ROOT / "docs").rglob("*.md")) - reached_from(ROOT / start)
    assert sorted(str(page.relative_to(ROOT)) for page in missing) == []


@pytest.mark.parametrize("start", ["README.md", "docs/README.md"])
def test_the_pages_of_the_reference_are_one_link_away(start: str) -> None:
    page = ROOT / start
    links = {(page.parent / link).resolve() for link in _LINK.findall(page.read_text(encoding="utf-8"))}
    assert sorted(one.name for one in set((ROOT / "docs").glob("*.md")) - links - {page}) == []


def test_help_names_pages_that_there_are() -> None:
    pages = re.findall(r"\w+\.md", noetl.epilog or "")
    assert pages
    for name in pages:
        assert (ROOT / "docs" / name).exists() or (ROOT / name).exists()
