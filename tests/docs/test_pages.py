"""Links lead somewhere, examples compile, and nothing is left unfinished."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from pages import HEADER, ROOT, bare, blocks, files, page, playbooks, sections, steps

from noetl.dsl import Code, compile_playbook
from noetl.net.model import KindInfo
from noetl.tools.kit.registry import kinds

# --- examples ------------------------------------------------------------------------------------

PAGES = playbooks()


@cache
def known() -> Mapping[str, KindInfo]:
    """The installed kinds, and the one that a page teaches to write."""
    code = next(block for block in blocks("python") if block.place.startswith("docs/how-to/write-a-tool.md"))
    page = ModuleType("noetl_checksum")
    sys.modules[page.__name__] = page  # pydantic looks names up there
    exec(compile(code.text, code.place, "exec"), vars(page))
    return {**kinds(), "checksum": page.Checksum.info()}


PARTS = steps()
#: Pages that show older spellings.
OLDER = ("docs/dialects.md", "docs/how-to/migrate-an-older-playbook.md")


def _expected(place: str) -> set[Code]:
    """Older spellings are shown on the pages about them, and what they mean since."""
    return {Code.DEPRECATED, Code.CHANGED} if place.startswith(OLDER) else set()


def problems(text: str, place: str) -> list[str]:
    compiled = compile_playbook(text, file=place, kinds=known())
    # Parts read a workload that they do not show.
    expected = {Code.UNDEFINED, *_expected(place)}
    return [str(problem) for problem in compiled.problems if problem.code not in expected]


def test_every_playbook_of_the_documentation_compiles(subtests: pytest.Subtests) -> None:
    for block in PAGES:
        with subtests.test(block.place):
            found = compile_playbook(block.text, file=block.place, kinds=known()).problems
            assert [str(one) for one in found if one.code not in _expected(block.place)] == []


def test_every_list_of_steps_in_the_documentation_compiles(subtests: pytest.Subtests) -> None:
    for block in PARTS:
        with subtests.test(block.place):
            assert problems(HEADER + block.text, block.place) == []


def test_examples_are_found() -> None:
    assert len(PAGES) >= 5
    assert len(PARTS) >= 10


def test_every_yaml_block_is_yaml(subtests: pytest.Subtests) -> None:
    for block in blocks("yaml"):
        with subtests.test(block.place):
            assert yaml.safe_load(block.text) is not None


# --- links ---------------------------------------------------------------------------------------

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(file: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", bare(file.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere(subtests: pytest.Subtests) -> None:
    for file in files():
        with subtests.test(str(file.relative_to(ROOT))):
            for link in _LINK.findall(bare(file.read_text(encoding="utf-8"))):
                if re.match(r"[a-z]+:", link):
                    continue
                path, _, anchor = link.partition("#")
                target = (file.parent / path).resolve() if path else file
                assert target.exists(), f"{link} leads nowhere"
                assert target.is_relative_to(ROOT), f"{link} leads out of the repository"
                if anchor:
                    assert anchor in anchors(target), f"{link} names no section"


# --- words ---------------------------------------------------------------------------------------

#: Directories of one machine, and words of pages that are not finished.
_UNFIT = re.compile(
    r"/(?:root|work|opt/\w+-dev|home/\w+|Users/\w+)/|\b(?:TODO|TBD|FIXME|XXX|WIP|lorem ipsum)\b"
)


def test_pages_are_finished_and_belong_to_no_machine(subtests: pytest.Subtests) -> None:
    for file in files():
        with subtests.test(str(file.relative_to(ROOT))):
            text = file.read_text(encoding="utf-8")
            assert [found[0] for found in _UNFIT.finditer(text)] == []
            assert "\t" not in text
            assert text.endswith("\n")
            assert text.startswith("# ")


def test_decisions_have_a_number_a_status_and_three_parts(subtests: pytest.Subtests) -> None:
    for file in sorted((ROOT / "docs/decisions").glob("*.md")):
        with subtests.test(str(file.relative_to(ROOT))):
            name = f"docs/decisions/{file.name}"
            assert page(name).startswith(f"# {int(file.name[:4])}. ")
            assert "\nStatus: accepted.\n" in page(name)
            parts = list(sections(name))[2:]
            assert parts == ["Context", "Decision", "Consequences"]
