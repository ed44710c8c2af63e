"""`pytest --changed`: a change runs the tests that it may break, and few others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import imports
from tests.changed import ROOT, changes, select
from tests.imports import PROSE, Imports

GRAPH = Imports(
    {
        "noetl/__init__.py": set(),
        "noetl/base.py": {"noetl/__init__.py"},
        "noetl/leaf.py": {"noetl/base.py"},
        "noetl/other.py": {"noetl/base.py"},
        "noetl/tool.py": {"noetl/base.py"},
        "noetl/registry.py": {"noetl/tool.py"},
        "subprocess": {"noetl/__init__.py", "noetl/base.py", "noetl/leaf.py", "noetl/other.py", "noetl/tool.py"},
        "tests/budget.py": set(),
        "tests/conftest.py": {"tests/budget.py", "noetl/other.py"},
        "tests/helper.py": {"noetl/leaf.py"},
        "tests/house/test_rules.py": set(),
        "tests/area/conftest.py": {"noetl/other.py"},
        "tests/area/test_area.py": {"tests/area/conftest.py"},
        "tests/test_base.py": {"noetl/base.py"},
        "tests/test_helped.py": {"tests/helper.py"},
        "tests/test_manual.py": {PROSE},
        "tests/test_process.py": {"subprocess"},
        "tests/test_tools.py": {"noetl/registry.py"},
    },
    by_name={"noetl/tool.py"},
)  # fmt: skip
ALL = {file for file in GRAPH.of if "test_" in file}


def chosen(*changed: str) -> set[str]:
    return {Path(file).stem.removeprefix("test_") for file in select(set(changed), GRAPH).files}


@pytest.mark.parametrize(
    ("changed", "files"),
    [
        (["noetl/leaf.py"], {"helped", "process"}),
        (["noetl/other.py"], {"area", "process"}),
        (["noetl/leaf.py", "noetl/other.py"], {"area", "helped", "process"}),
        (["noetl/base.py"], {"area", "base", "helped", "process", "tools"}),
        (["noetl/registry.py"], {"tools"}),
        (["tests/helper.py"], {"helped", "rules"}),
        (["tests/area/conftest.py"], {"area", "rules"}),
        (["tests/test_base.py"], {"base", "rules"}),
        (["tests/test_that_is_gone.py"], {"rules"}),
        (["docs/quickstart.md", "CHANGELOG.md", "noetl/README.md"], {"manual"}),
        ([], set()),
    ],
)
def test_a_change_chooses_what_reaches_it(changed: list[str], files: set[str]) -> None:
    assert chosen(*changed) == files


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ("noetl/tool.py", "noetl/tool.py is loaded by its name"),
        ("noetl/gone.py", "who uses noetl/gone.py stands in no import"),
        ("noetl/ui/static/site.css", "who uses noetl/ui/static/site.css stands in no import"),
        ("tests/playbooks/loops.yaml", "who uses tests/playbooks/loops.yaml stands in no import"),
        ("migrations/versions/0001_first.py", "who uses migrations/versions/0001_first.py stands in no import"),
        ("setup.cfg", "who uses setup.cfg stands in no import"),
        ("tests/conftest.py", "all tests run in what tests/conftest.py makes"),
        ("tests/budget.py", "all tests run in what tests/budget.py makes"),
    ],
)  # fmt: skip
def test_what_no_import_tells_of_chooses_everything_and_says_why(changed: str, why: str) -> None:
    selection = select({changed, "noetl/leaf.py"}, GRAPH)
    assert selection.files == ALL
    assert str(selection) == f"--changed: 7 of 7 files of tests: everything, because {why}"


def test_it_says_how_many_files_of_how_many() -> None:
    assert str(select({"noetl/leaf.py"}, GRAPH)) == "--changed: 2 of 7 files of tests"


@pytest.fixture(scope="module")
def ours() -> Imports:
    return imports.read(ROOT)


#: Reading all imports takes seconds, which a run should pay once.
READS_ALL = pytest.mark.full("6 s: reads all imports")


@READS_ALL
def test_a_leaf_of_noetl_concerns_its_tests_and_not_those_that_cannot_reach_it(ours: Imports) -> None:
    selected = select({"noetl/expressions/text_filters.py"}, ours).files
    assert {"tests/unit/expressions/test_filters.py", "tests/unit/dsl/test_checks.py"} <= selected
    assert {"tests/unit/facts/test_nearest.py", "tests/unit/test_effort.py"}.isdisjoint(selected)
    assert {file for file in ours.of if file.startswith("tests/acceptance/test_")} <= selected


@READS_ALL
def test_a_tool_that_entry_points_name_is_reached_by_who_runs_playbooks(ours: Imports) -> None:
    assert {
        "noetl/tools/http/tool.py",
        "noetl/cli/plan.py",
        "noetl/wsgi.py",
        "noetl/celery.py",
    } <= ours.by_name
    assert "noetl/tools/http/request.py" in ours.reached_from("tests/playbooks/test_playbooks.py")
    assert "noetl/cli/plan.py" in ours.reached_from("tests/integration/cli/test_cli_plan.py")


@READS_ALL
@pytest.mark.parametrize("test", ["tests/unit/test_zygote.py", "tests/acceptance/test_up.py"])
def test_what_starts_processes_reaches_all_of_noetl(test: str, ours: Imports) -> None:
    product = {file for file in ours.of if file.startswith("noetl/")}
    assert product <= ours.reached_from(test)
    assert not product <= ours.reached_from("tests/conftest.py")


@READS_ALL
def test_everything_that_tests_import_beside_them_is_found(ours: Imports) -> None:
    assert "tests/properties/books.py" in ours.of["tests/properties/promises.py"]
    assert "tests/conftest.py" in ours.of["tests/contract/test_store.py"], "it takes a store of the conftest"
    assert "tests/conftest.py" not in ours.of["tests/unit/test_gates.py"]


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_a_change_is_what_was_committed_since_what_is_edited_and_what_is_new(tmp_path: Path) -> None:
    git(tmp_path, "init", "-b", "main")
    for name in ("kept", "edited", "moved", "removed", "committed"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("ignored\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    (tmp_path / "committed").write_text("again")
    git(tmp_path, "commit", "-am", "second")
    git(tmp_path, "mv", "moved", "there")
    (tmp_path / "removed").unlink()
    for name in ("edited", "new", "ignored"):
        (tmp_path / name).write_text("another")
    uncommitted = {"edited", "moved", "there", "removed", "new"}
    assert changes(tmp_path, "") == uncommitted | {"committed"}
    assert changes(tmp_path, "HEAD") == uncommitted
    with pytest.raises(pytest.UsageError, match="--changed: git diff: fatal: bad revision 'tests/unit'"):
        changes(tmp_path, "tests/unit")


def test_without_a_branch_of_a_server_a_change_is_what_is_not_committed(tmp_path: Path) -> None:
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    (tmp_path / "new").touch()
    assert changes(tmp_path, "") == {"new"}
