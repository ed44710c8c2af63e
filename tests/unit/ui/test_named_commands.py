"""Commands that pages and messages name are there, with the options that they are named with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from noetl.cli.main import noetl as command_line

PACKAGE = Path(__file__).parents[3] / "noetl"
#: `noetl`, what follows, and options of it: as far as a command line goes.
LINE = re.compile(r"(?<!-A )\bnoetl((?: [a-z][\w-]*)+)((?: (?:--[a-z][\w-]*|[A-Z{/\"'.\w][^\s<`;|]*))*)")
#: What a text with such a line has in its file; to parse the others takes seconds.
NAMED = re.compile(r"""(?<!from )\bnoetl[ "']""")
#: Words that follow the name of the program, or of the package, in prose.
PROSE = frozenset({"are", "as", "belongs", "so"})


def find_texts() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.html")):
        yield str(path), path.read_text("utf-8")
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)) if NAMED.search(source) else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield str(path), node.value


def find_fault(words: list[str], options: list[str]) -> str:
    """What is wrong with a command line; empty where nothing is."""
    command: click.Command = command_line
    for word in words:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(command), word)
        if found is None:
            return f"{command.name} has no command {word!r}"
        command = found
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    missing = [one for one in options if one not in known]
    return f"{command.name} has no option {missing[0]}" if missing else ""


def test_every_command_that_is_named_exists() -> None:
    faults = {
        f"{place}: {found.group(0)[:80]}: {fault}"
        for place, text in find_texts()
        for found in LINE.finditer(text)
        if (words := found[1].split())[0] not in PROSE
        if (fault := find_fault(words, re.findall(r" (--[a-z][\w-]*)", found[2].partition(" and ")[0])))
    }
    assert sorted(faults) == []
