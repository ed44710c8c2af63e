"""Every line that installs NoETL, in documentation and in messages, names what there is to
install."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from pages import ROOT, files

from noetl.facts.distribution import DISTRIBUTION, install_line

_SETUP = configparser.ConfigParser()
_SETUP.read(ROOT / "setup.cfg")
EXTRAS = set(_SETUP["options.extras_require"])

#: What follows `pip install`: a text in quotes, or what has no space in it. Options are left out.
_LINE = re.compile(r"pip install (?:-\S+ )*('[^'\n]+'|[^\s`'\"]+)")
_EXTRA = re.compile(r"\bnoetl(-celery)?\[([\w,]+)\]")
_CLONE = re.compile(r"\.(\[(?P<extras>[\w,]+)\])?")


def sources() -> Iterator[tuple[str, str]]:
    """The name and the text of every page, and of every file of the program and of the examples."""
    programs = [file for folder in ("noetl", "examples") for file in (ROOT / folder).rglob("*.py")]
    for file in [*files(), *programs]:
        yield str(file.relative_to(ROOT)), Path(file).read_text(encoding="utf-8")


def fault(what: str) -> str:
    """Why `pip install WHAT` does not install NoETL, or what it depends on. Empty where it does."""
    clone = _CLONE.fullmatch(what)
    if clone is not None:
        extras = set(filter(None, (clone["extras"] or "").split(",")))
    else:
        found = Requirement(what.replace("GIT_URL", "https://git.example.org/noetl.git"))
        if not found.name.startswith("noetl"):
            return ""
        if found.name != DISTRIBUTION:
            return f"{found.name} is somebody else's"
        if found.url is None and not found.extras:
            return f"{DISTRIBUTION} is on no index"
        extras = found.extras
    return f"there is no extra {sorted(extras - EXTRAS)}" if extras - EXTRAS else ""


def test_every_line_that_installs_noetl_can_be_typed() -> None:
    lines = [
        (name, line.strip("'").rstrip(".,;:)") or ".")
        for name, text in sources()
        for line in _LINE.findall(text)
    ]
    assert {"'.'", "."} & {line for _, line in lines}
    assert len([line for _, line in lines if DISTRIBUTION in line]) >= 5
    # A name in braces is put in when it is known: what may be put in is looked at below.
    assert [
        f"{name}: {line}: {why}" for name, line in lines if "{" not in line and (why := fault(line))
    ] == []


def test_every_extra_that_is_named_exists_and_is_of_our_distribution() -> None:
    named = [(name, ours, extras) for name, text in sources() for ours, extras in _EXTRA.findall(text)]
    assert [name for name, ours, extras in named if not ours or set(extras.split(",")) - EXTRAS] == []


def test_messages_name_extras_that_exist() -> None:
    given = set()
    for name, text in sources():
        if "install_line" in text and name.endswith(".py"):
            calls = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call)]
            named = [one for one in calls if isinstance(one.func, ast.Name) and one.func.id == "install_line"]
            given |= {one.args[0].value for one in named if isinstance(one.args[0], ast.Constant)}
    assert given >= {"migrate", "qsim"}
    assert given <= EXTRAS
    assert not fault(install_line("migrate").removeprefix("pip install ").strip("'"))


def test_operations_lists_every_extra() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    table = text.split("## Install\n")[1].split("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)))) == EXTRAS
