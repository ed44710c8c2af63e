"""The documentation as data: pages, sections, rows of tables, fenced blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Where the pages about the language are.
LANGUAGE = "docs/reference"

#: What makes a playbook of a list of steps.
HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: example, path: docs/example}\nworkflow:\n"

# Examples of what is wrong are `yaml bad`: another language than `yaml`.
_FENCE = re.compile(r"^```(\w*(?: \w+)*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it begins (`docs/page.md:12`), its language, its text."""

    place: str
    language: str
    text: str


@cache
def files() -> tuple[Path, ...]:
    """Every page of the repository; not those of environments and of what runs left behind."""
    folders = [one for one in ROOT.iterdir() if one.is_dir() and not one.name.startswith(".")]
    below = [file for folder in folders for file in folder.rglob("*.md")]
    return tuple(sorted([*ROOT.glob("*.md"), *(file for file in below if "site-packages" not in file.parts)]))


@cache
def page(name: str) -> str:
    """The text of a page, named from the root of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def bare(text: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", text)


@cache
def sections(name: str) -> dict[str, str]:
    """Heading (without backticks) → what stands below it, up to the next heading of any level."""
    found: dict[str, list[str]] = {"": []}
    lines = found[""]
    fenced = False
    for line in page(name).splitlines():
        fenced ^= line.startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        title = heading[2].replace("`", "")
        assert title not in found, f"{name} has two sections called {title!r}"
        lines = found[title] = []
    return {title: "\n".join(body) for title, body in found.items()}


@cache
def language() -> dict[str, str]:
    """The sections of all pages about the language."""
    found: dict[str, str] = {}
    for file in sorted((ROOT / LANGUAGE).glob("*.md")):
        if file.name != "README.md":
            new = {title: text for title, text in sections(f"{LANGUAGE}/{file.name}").items() if title}
            assert not new.keys() & found.keys(), f"{file.name} has a section of another page"
            found |= new
    return found


def rows(text: str) -> list[list[str]]:
    """The cells of every table row of `text`, headers and rules left out."""
    found: list[list[str]] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        follows = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and not line.startswith("|--") and not follows.startswith("|--"):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def keys(text: str) -> list[str]:
    """What the first cells of all rows name, without backticks."""
    return [cells[0].strip("`") for cells in rows(text)]


def blocks(language: str) -> list[Block]:
    """The fenced blocks of that language, on all pages."""
    found: list[Block] = []
    for file in files():
        text = file.read_text(encoding="utf-8")
        for fence in _FENCE.finditer(text):
            if fence[1] == language:
                line = text.count("\n", 0, fence.start()) + 1
                found.append(Block(f"{file.relative_to(ROOT)}:{line}", language, fence[2]))
    return found


@cache
def playbooks() -> tuple[Block, ...]:
    """Blocks that are a whole playbook."""
    return tuple(block for block in blocks("yaml") if "workflow:" in block.text)


@cache
def steps() -> tuple[Block, ...]:
    """Blocks that are a list of steps; the rest of their playbook is left to the reader."""
    return tuple(block for block in blocks("yaml") if block.text.startswith("- step:"))
