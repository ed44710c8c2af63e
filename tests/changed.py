"""`pytest --changed[=REV]`: only the files of tests that a change concerns, by who imports whom.

The change is what is different from REV, not committed or not even added included. Without REV it
is all that this branch has and `origin/main` has not.

A file of tests is concerned where it, a conftest above it, or something that one of them imports
has changed. What nobody imports (static files, playbooks, settings, migrations), or what is
imported by its name alone, concerns everything; prose concerns the tests that read it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Set
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pytest

from tests import imports

ROOT = Path(__file__).parents[1]
#: All tests run in what it makes with what it imports.
COMMON = "tests/conftest.py"


class Selection(NamedTuple):
    files: set[str]
    #: Of how many.
    total: int
    #: Why it is everything, where it is.
    why: str = ""

    def __str__(self) -> str:
        what = f"{len(self.files)} of {self.total} files of tests"
        return f"--changed: {what}{self.why and ': everything, because '}{self.why}"


CHOSEN = pytest.StashKey[Selection]()


def select(changed: Set[str], graph: imports.Imports) -> Selection:
    """The files of tests that a change of these files concerns."""
    tests = {file for file in graph.of if _is_test(file)}
    for file in sorted(changed):
        if why := _concerns_everything(file, graph):
            return Selection(tests, len(tests), why)
    start = {imports.PROSE if _is_prose(file) else file for file in changed}
    if any(file.startswith("tests/") for file in changed):
        # Its rules are about all of them.
        start |= {file for file in tests if file.startswith("tests/house/")}
    return Selection(graph.reaching(start) & tests, len(tests))


def _is_test(file: str) -> bool:
    return file.startswith("tests/") and PurePosixPath(file).name.startswith("test_")


def _is_prose(file: str) -> bool:
    return file.startswith("docs/") or file.endswith(".md")


def _concerns_everything(file: str, graph: imports.Imports) -> str:
    if _is_prose(file):
        return ""
    if file.startswith("tests/") and file in graph.reached_from(COMMON):
        return f"all tests run in what {file} makes"
    if file in graph.by_name:
        return f"{file} is loaded by its name"
    if file in graph.of or _is_test(file):
        return ""
    return f"who uses {file} stands in no import"


def changes(root: Path, revision: str) -> set[str]:
    """The files that are not as they were at a revision; without one, as they were where this
    branch left `origin/main`. Raises UsageError where Git cannot tell."""
    if not revision:
        try:
            revision = _git(root, "merge-base", "HEAD", "origin/main")[0].strip()
        except pytest.UsageError:
            revision = "HEAD"
    return {
        *_git(root, "diff", "--name-only", "--no-renames", "--relative", "-z", revision, "--"),
        *_git(root, "ls-files", "--others", "--exclude-standard", "-z"),
    }


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise pytest.UsageError(f"--changed: git {words[0]}: {done.stderr.strip()}")
    return [name for name in done.stdout.split("\0") if name]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed",
        nargs="?",
        const="",
        metavar="REV",
        help="run only the files of tests that a change since REV concerns (default: since origin/main)",
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Chooses once for a run: its workers are told."""
    revision = config.getoption("changed")
    if revision is None:
        return
    if hasattr(config, "workerinput"):
        files, total = config.workerinput["changed"]
        config.stash[CHOSEN] = Selection(set(files), total)
        return
    selection = select(changes(ROOT, revision), imports.read(ROOT))
    config.stash[CHOSEN] = selection
    config.get_terminal_writer().line(str(selection))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if selection := node.config.stash.get(CHOSEN, None):
        node.workerinput["changed"] = [sorted(selection.files), selection.total]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is not chosen is not even imported, but where it is named."""
    selection = config.stash.get(CHOSEN, None)
    if selection is None or not collection_path.is_relative_to(ROOT / "tests"):
        return None
    path = collection_path.relative_to(ROOT).as_posix()
    if collection_path.is_dir():
        chosen = any(file.startswith(f"{path}/") for file in selection.files)
    else:
        chosen = not _is_test(path) or path in selection.files
    return None if chosen else True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """That a change concerns no test is no failure."""
    if CHOSEN in session.config.stash and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
