"""Every page of the reference is found by following links, and `noetl --help` says where they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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


@pytest.mark.parametrize("start", ["README.md", "docs/quickstart.md"])
def test_the_pages_of_the_reference_are_one_link_away(start: str) -> None:
    page = ROOT / start
    links = {(page.parent / link).resolve() for link in _LINK.findall(page.read_text(encoding="utf-8"))}
    assert sorted(one.name for one in set((ROOT / "docs").glob("*.md")) - links - {page}) == []


def test_help_names_pages_that_there_are() -> None:
    pages = re.findall(r"\w+\.md", noetl.epilog or "")
    assert pages
    for name in pages:
        assert (ROOT / "docs" / name).exists() or (ROOT / name).exists()


def _complete(shell: str, words: str) -> str:
    """What the program answers to the shell that completes `words`. Fish sends the last word by itself."""
    typed = words.split(" ")
    position = typed[-1] if shell == "fish" else str(len(typed) - 1)
    asked = {"COMP_WORDS": words, "COMP_CWORD": position, "_NOETL_COMPLETE": f"{shell}_complete"}
    call = [sys.executable, "-c", "from noetl.cli.main import main; main()"]
    return subprocess.run(
        call, env={**os.environ, **asked}, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_completion_is_there_for_each_shell(shell: str) -> None:
    assert f"_NOETL_COMPLETE={shell}_source noetl" in (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    assert "validate" in _complete(shell, "noetl val")
    assert "sarif" in _complete(shell, "noetl validate --format sa")


def test_bash_reads_the_documented_line(tmp_path: Path) -> None:
    """In a real shell: the function that completes is there, and knows the command."""
    program = tmp_path / "noetl"
    program.write_text(f"#!{sys.executable}\nfrom noetl.cli.main import main\nmain()\n")
    program.chmod(0o755)
    script = (
        'eval "$(_NOETL_COMPLETE=bash_source noetl)"; COMP_WORDS=(noetl gra); COMP_CWORD=1; '
        'COMP_LINE="noetl gra"; _noetl_completion noetl; echo "${COMPREPLY[@]}"'
    )
    told = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout.strip() == "graph", told.stderr
