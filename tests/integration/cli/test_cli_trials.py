"""`noetl test` and `noetl execution fixture`, from where people stand."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .conftest import ROOT, Cli

ASKING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asking, path: tests/asking}
workflow:
  - step: start
    tool: {kind: http, url: "https://example.invalid/{{ workload.day | default('now') }}"}
    next: [{step: end, when: "{{ start.open }}"}]
  - step: end
    tool: {kind: python, input: {rows: "{{ start.rows }}"}, code: "result = sum(rows)"}
"""
TESTS = """\
tests:
  - name: rows are summed
    stand_ins: {start: {result: {open: true, rows: [1, 2]}}, end: {run: true}}
    expect: {path: [start, end], result: 3}
  - name: nothing is summed where it is closed
    stand_ins: {start: {result: {open: false}}}
    expect: {not_run: [end]}
"""


@pytest.fixture
def folder() -> Path:
    """The working directory, with a playbook and its tests."""
    Path("asking.yaml").write_text(ASKING, encoding="utf-8")
    Path("asking.test.yaml").write_text(TESTS, encoding="utf-8")
    return Path()


def test_tests_are_found_and_run_and_say_one_line_each(cli: Cli, folder: Path) -> None:
    ended = cli("test")
    assert (ended.code, [line.rpartition(" (")[0] for line in ended.out.splitlines()]) == (
        0,
        [
            "asking.test.yaml: rows are summed: ok",
            "asking.test.yaml: nothing is summed where it is closed: ok",
        ],
    )
    assert ended.err.startswith("2 tests: 2 ok (")
    for named in (
        ("asking.yaml",),
        ("asking.test.yaml", "."),
        (".", "-k", "SUMMED"),
        (str(folder.absolute()),),
    ):
        assert cli("test", *named).err.startswith("2 tests: 2 ok")
    assert cli("test", "-k", "closed").err.startswith("1 test: 1 ok")


def test_a_failure_is_said_with_places_and_counts(cli: Cli, folder: Path) -> None:
    Path("asking.test.yaml").write_text(TESTS.replace("result: 3", "result: 4"), encoding="utf-8")
    ended = cli("test", "--junit", "out/junit.xml", "--min-coverage", "100")
    assert ended.code == 1
    assert (
        "  asking.test.yaml:4:42: result: expected 4, got 3\n  ran: start (done) → end (done)\n" in ended.out
    )
    assert ended.err.startswith("2 tests: 1 ok, 1 failed")
    assert ElementTree.parse("out/junit.xml").getroot().get("failures") == "1"
    said = json.loads(cli("test", "--json", "--coverage").out)
    assert (said["ok"], said["passed"], said["failed"]) == (False, 1, 1)
    assert said["tests"][0]["failure"][0].endswith("result: expected 4, got 3")
    assert said["coverage"]["percent"] == 100


def test_coverage_is_shown_and_demanded(cli: Cli, folder: Path) -> None:
    shown = cli("test", "-k", "closed", "--coverage")
    assert (shown.code, shown.out.splitlines()[1:]) == (
        0,
        [
            "asking.yaml: 1 of 2 steps, 0 of 1 arcs, 0 of 0 rules",
            "  asking.yaml:7: the arc from 'start' to 'end' (when {{ start.open }}) was never taken",
            "  asking.yaml:8: step 'end' never ran",
            "coverage: 33 %",
        ],
    )
    assert cli("test", "-k", "closed", "--min-coverage", "33").code == 0
    below = cli("test", "-k", "closed", "--min-coverage", "34")
    assert (below.code, "coverage: 33 %" in below.out) == (1, True)


def test_a_called_playbook_is_covered_once_whoever_calls_it(cli: Cli, folder: Path) -> None:
    caller = ASKING.replace("tests/asking", "tests/caller").partition("workflow:")[0]
    text = f"{caller}workflow: [{{step: start, tool: {{kind: playbook, path: tests/asking}}}}]\n"
    Path("caller.yaml").write_text(text, encoding="utf-8")
    tests = "tests: [{name: it, stand_ins: {http: {result: {open: true, rows: []}}, python: {result: 0}}}]"
    Path("caller.test.yaml").write_text(tests, encoding="utf-8")
    ended = cli("test", "-k", "caller", "--coverage")
    assert ended.out.splitlines()[1:] == [
        "asking.yaml: 2 of 2 steps, 1 of 1 arcs, 0 of 0 rules",
        "caller.yaml: 1 of 1 steps, 0 of 0 arcs, 0 of 0 rules",
        "coverage: 100 %",
    ]


def test_update_writes_what_came_and_the_next_run_passes(cli: Cli, folder: Path) -> None:
    file = Path("asking.test.yaml")
    file.write_text(TESTS.replace("result: 3}", "result: 4}  # a sum"), encoding="utf-8")
    ended = cli("test", "--update")
    assert (ended.code, "1 updated" in ended.err) == (0, True)
    assert file.read_text(encoding="utf-8") == TESTS.replace("result: 3}", "result: 3}  # a sum")
    file.write_text("tests: [{name: it}]\n", encoding="utf-8")
    assert cli("test", "--update").code == 1
    assert file.read_text(encoding="utf-8") == "tests: [{name: it}]\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("nowhere",), "error: There is no file 'nowhere'; name a playbook, its tests, or a directory."),
        (("sum.yaml",), "error: sum.yaml has no tests, and none stand beside it: write sum.test.yaml."),
        (("-k", "absent"), "error: No test has 'absent' in its name or file."),
        (("empty",), "error: There are no tests (*.test.yaml, or a playbook with tests:) below 'empty'."),
        (("--min-coverage", "101"), "error: Invalid value for '--min-coverage'"),
    ],
)
def test_wrong_input_is_one_sentence(cli: Cli, folder: Path, argv: tuple[str, ...], said: str) -> None:
    Path("empty").mkdir()
    ended = cli("test", *argv)
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith(said)


def test_a_file_with_a_slip_is_said_and_the_others_run(cli: Cli, folder: Path) -> None:
    Path("a.yaml").write_text(ASKING.replace("tests/asking", "tests/a"), encoding="utf-8")
    Path("a.test.yaml").write_text(TESTS.replace("not_run", "not_rum"), encoding="utf-8")
    ended = cli("test")
    assert ended.code == 2
    said, summary = ended.err.splitlines()
    assert said == (
        "a.test.yaml:7:14: error[NOETL212]: the key 'not_rum' means nothing here (did you mean 'not_run'?)"
    )
    assert summary.startswith("2 tests: 2 ok, 1 problem in a file that was not run")
    assert json.loads(cli("test", "--json").out)["problems"][0]["line"] == 7


def test_validate_checks_tests_too(cli: Cli, folder: Path) -> None:
    text = ASKING + TESTS.replace("not_run: [end]", "not_run: [ende]")
    Path("asking.yaml").write_text(text, encoding="utf-8")
    ended = cli("validate", "asking.yaml")
    assert (ended.code, "the playbook has no step 'ende' (did you mean 'end'?)" in ended.out) == (2, True)
    Path("asking.yaml").write_text(ASKING + TESTS.replace("result: 3", "result: 4"), encoding="utf-8")
    assert cli("validate", "asking.yaml", "--strict").code == 0
    assert cli("test", "asking.yaml", "--update").err.startswith("4 tests: 3 ok, 1 updated")
    assert Path("asking.yaml").read_text(encoding="utf-8") == ASKING + TESTS
    assert cli("validate", ".").err == "5 playbooks: no problems.\n"
    Path("asking.test.yaml").write_text(TESTS.replace("expect", "expct", 1), encoding="utf-8")
    for named in ("asking.test.yaml", "."):
        ended = cli("validate", named)
        assert (ended.code, ended.out.count("the key 'expct' means nothing here")) == (2, 1)


def test_a_step_called_like_a_kind_is_the_step(cli: Cli, folder: Path) -> None:
    Path("asking.yaml").write_text(ASKING.replace("step: end", "step: http"), encoding="utf-8")
    tests = "tests: [{name: it, stand_ins: {http: {result: 1}, start: {result: {open: true}}}, expect: {calls: {http: 1}}}]"
    Path("asking.test.yaml").write_text(tests, encoding="utf-8")
    assert cli("test").code == 0
    Path("asking.test.yaml").write_text(tests.replace("start: {result: {open: true}}", ""), encoding="utf-8")
    assert "Nothing stands in for the http call of 'start.task_0'" in cli("test").out


def test_what_cannot_be_read_is_a_problem_of_that_file(cli: Cli, folder: Path) -> None:
    Path("b.test.yaml").write_bytes(b"tests: [\xff]")
    Path("b.yaml").touch()
    ended = cli("test")
    assert (ended.code, ended.err.splitlines()[0]) == (
        2,
        "b.test.yaml:1:9: error[NOETL102]: byte 0xFF is not UTF-8 (save the document as UTF-8)",
    )
    assert "2 tests: 2 ok" in ended.err


def test_an_execution_passes_the_test_that_is_made_of_it(cli: Cli) -> None:
    for name, status in (("sum", "completed"), ("failing", "failed")):
        ran = json.loads(
            cli("run", f"{name}.yaml", "--json", *(["--set", "a=5"] if name == "sum" else [])).out
        )
        made = cli("execution", "fixture", ran["execution_id"])
        assert (made.code, made.err) == (0, "")
        Path(f"{name}.test.yaml").write_text(made.out, encoding="utf-8")
        assert ran["status"] == status
        assert cli("test", f"{name}.test.yaml").code == 0
    # It says something: with other numbers it fails.
    file = Path("sum.test.yaml")
    file.write_text(file.read_text(encoding="utf-8").replace("a: 5", "a: 6", 1), encoding="utf-8")
    assert cli("test", "sum.test.yaml").code == 1
    assert cli("execution", "fixture", "1").err.startswith("error: There is no execution")


def test_the_tests_of_the_examples_pass(cli: Cli) -> None:
    ended = cli("test", str(ROOT / "examples"))
    assert (ended.code, ended.err.partition(" test")[0]) == (0, str(len(ended.out.splitlines()))), ended.out
    assert "weather.test.yaml" in ended.out


def test_it_is_a_program(program: Callable[..., subprocess.Popen[str]], folder: Path) -> None:
    process = program("test", "asking.yaml")
    out, err = process.communicate()
    assert (process.returncode, out.count(": ok (")) == (0, 2), err
