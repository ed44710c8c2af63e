"""The plug-in for pytest: where NoETL is installed, files of tests are collected; nothing else
changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import zygote

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sum, path: tests/sum}
workflow: [{step: start, tool: {kind: http, url: "https://example.invalid"}}]
"""
TESTS = """\
tests:
  - {name: it passes, stand_ins: {start: {result: 3}}, expect: {result: 3}}
  - {name: it fails, stand_ins: {start: {result: 3}}, expect: {result: 4}}
"""
IN_PYTHON = """\
import pytest

from noetl.errors import BadRequest, ToolError
from noetl.testing import play


def test_from_python():
    def busy(call):
        raise ToolError("server_error", f"Busy at attempt {call.attempt}.")

    assert play("sum.yaml", stand_ins={"start": {"result": 3}}).result == 3
    run = play("sum.yaml", stand_ins={"http": [busy]})
    assert (run.status, run.path, run.error["message"]) == ("failed", ["start"], "Busy at attempt 1.")
    assert [call["config"]["url"] for call in run.calls_of("start")] == ["https://example.invalid"]
    with pytest.raises(AssertionError, match="Nothing stands in for the http call of 'start.task_0'"):
        play("sum.yaml")
    with pytest.raises(BadRequest, match=r"did you mean 'result'\\?.*did you mean 'start'\\?"):
        play("sum.yaml", stand_ins={"strat": {"result": 1}, "start": {"reslt": 1}})
"""


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    # As in a project of somebody else's: without the settings of this one.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return zygote.run(
        ["pytest", "-q", "-p", "no:cacheprovider", *argv],
        cwd=folder,
        env=environ | {"NOETL_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("sum.yaml", PLAYBOOK), ("sum.test.yaml", TESTS), ("test_sum.py", IN_PYTHON)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    # That of another tool.
    (tmp_path / "other.test.yaml").write_text("tests: [{vars: {a: 1}}]\n", encoding="utf-8")
    return tmp_path


def test_files_of_tests_are_collected_and_failures_read_as_those_of_noetl_test(folder: Path) -> None:
    ended = run(folder)
    assert "1 failed, 2 passed" in ended.stdout, ended.stdout + ended.stderr
    assert f"{folder}/sum.test.yaml:3:72: result: expected 4, got 3\nran: start (done)\n" in ended.stdout
    assert "Traceback" not in ended.stdout
    assert "1 passed, 1 deselected" in run(folder, "-k", "passes", "sum.test.yaml").stdout


def test_a_slip_is_an_error_of_collection_and_the_plug_in_can_be_turned_off(folder: Path) -> None:
    (folder / "sum.test.yaml").write_text(TESTS.replace("expect", "expct"), encoding="utf-8")
    ended = run(folder, "sum.test.yaml")
    assert ended.returncode == 2
    assert "the key 'expct' means nothing here (did you mean 'expect'?)" in ended.stdout
    assert "1 passed" in run(folder, "-p", "no:noetl").stdout


def test_who_has_no_such_files_waits_for_nothing() -> None:
    code = "import sys, noetl.pytest_plugin; print(sum(name.startswith('noetl') for name in sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The package, its version and the plug-in.
    assert int(ended.stdout) <= 3
