"""Files of tests: what is wrong with one is said with its place, and what was meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.dsl import compile_playbook
from noetl.errors import PlaybookInvalid
from noetl.net.codec import digest
from noetl.tools.kit.registry import kinds
from noetl.trial.running import run_test
from noetl.trial.stage import TrialStage
from noetl.trial.suites import has_tests, is_meant, read_suite

from .conftest import HEAD

BOOK = """
workflow:
  - step: fetch
    tool:
      - {name: page, kind: http, url: "https://x"}
      - {name: clean, kind: python, code: pass}
    next: end
  - {step: end, tool: {kind: noop}}
  - {step: route, next: end}
"""
Write = Callable[[str, str], Path]


def faults(file: Path) -> list[str]:
    with pytest.raises(PlaybookInvalid) as caught:
        read_suite(file, kinds())
    return [str(one).replace(f"{file.parent}/", "") for one in caught.value.problems]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  stand_ins: {fetch.pgae: {result: 1}}", "3:15: error[NOETL303]: step 'fetch' has no task 'pgae' (did you mean 'fetch.page'?)"),
        ("  stand_ins: {fetsch: {result: 1}}", "3:15: error[NOETL301]: no step, task or kind of tool of the playbook is called 'fetsch' (did you mean 'fetch'?)"),
        ("  stand_ins: {htpp: {result: 1}}", "3:15: error[NOETL301]: no step, task or kind of tool of the playbook is called 'htpp' (did you mean 'http'?)"),
        ("  stand_ins: {route: {result: 1}}", "3:15: error[NOETL301]: step 'route' has no task, so that nothing is called"),
        ("  stand_ins: {fetch: {reslt: 1}}", "3:23: error[NOETL212]: the key 'reslt' means nothing here (did you mean 'result'?)"),
        ("  stand_ins: {fetch: {}}", "3:15: error[NOETL202]: the stand-in does not say what comes of the call (add one of result, recorded, error, run)"),
        ("  stand_ins: {fetch: {result: 1, error: a}}", "3:34: error[NOETL209]: the stand-in says `result` and `error`, which exclude one another (keep one of them)"),
        ("  stand_ins: {fetch: {error: {kind: tiemout}}}", "3:37: error[NOETL203]: `kind` is 'tiemout', not one of template, python, shell, sql, connection, timeout, rate_limit, server_error, auth, client_error, limit, join, router, child, cancelled, internal (did you mean 'timeout'?)"),
        ("  stand_ins: {fetch: {result: '{{ 1 + }}'}}", "3:31: error[NOETL401]: The template `{{ 1 + }}`"),
        ("  stand_ins: {fetch: 3}", "3:22: error[NOETL201]: `fetch` must be a stand-in (a mapping with result, recorded, error or run) or a list of them, not 3"),
        ("  expects: {status: failed}", "3:3: error[NOETL212]: the key 'expects' means nothing here (did you mean 'expect'?)"),
        ("  wanted: 1", "3:3: error[NOETL250]: the key 'wanted' means nothing here (known here: name,"),
        ("  expect: {status: done}", "3:20: error[NOETL203]: `status` is 'done', not one of completed, failed, partial, waiting, paused, cancelled, refused"),
        ("  expect: {path: [fetch, ende]}", "3:26: error[NOETL301]: the playbook has no step 'ende' (did you mean 'end'?)"),
        ("  expect: {not_run: [ende]}", "3:22: error[NOETL301]: the playbook has no step 'ende' (did you mean 'end'?)"),
        ("  expect: {steps: {ende: {}}}", "3:20: error[NOETL301]: the playbook has no step 'ende' (did you mean 'end'?)"),
        ("  expect: {calls: {fetch.pag: 1}}", "3:20: error[NOETL303]: step 'fetch' has no task 'pag' (did you mean 'fetch.page'?)"),
        ("  expect: {calls: {fetch: [{arg: 1}]}}", "3:29: error[NOETL212]: the key 'arg' means nothing here (did you mean 'args'?)"),
        ("  expect: {result: {a: ['~ (']}}", "3:25: error[NOETL203]: '(' is no regular expression: missing ), unterminated subpattern"),
        ("  clock: noon", "3:10: error[NOETL203]: `clock` is no instant: it"),
        ("- name: it", "3:9: error[NOETL204]"),
        ("- expect: {}", "3:3: error[NOETL202]: the test has no name (add name: what it shows)"),
    ],
)  # fmt: skip
def test_a_slip_is_said_in_one_sentence(write: Write, line: str, said: str) -> None:
    said = said.replace("NOETL204]", "NOETL205]: another test is called 'it', too")
    (fault,) = faults(write(BOOK, f"tests:\n- name: it\n{line}\n"))
    assert fault.startswith(f"book.test.yaml:{said}")


def test_all_of_them_are_said_at_once(write: Write) -> None:
    file = write(BOOK, "tests:\n- name: it\n  expct: {}\n  stand_ins: {a: {result: 1}, b: {rslt: 1}}\n")
    assert len(faults(file)) == 4


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ("playbook: bock.yaml\ntests: []\n", "book.test.yaml:1:11: error[NOETL114]: the playbook 'bock.yaml' is not there"),
        ("playbook: book.yaml\n", "book.test.yaml:1:1: error[NOETL202]: the file has no tests"),
        ("tests: {a: 1}\n", "book.test.yaml:1:1: error[NOETL201]: `tests` must be a list, not a mapping"),
        ("tests: [\n", "book.test.yaml:"),
        ("", "book.test.yaml:1:1: error[NOETL112]: the document is empty"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_refused(write: Write, tests: str, said: str) -> None:
    assert faults(write(BOOK, tests))[0].replace(str(write(BOOK, tests).parent) + "/", "").startswith(said)


def test_the_faults_of_its_playbook_are_said(write: Write) -> None:
    file = write("workflow: [{step: a, tool: {kind: pyhton}}]", "tests: [{name: it}]")
    assert faults(file)[0].startswith("book.yaml:4:")


IN_PLACE = """
workflow: [{step: start, tool: {kind: http, url: "https://x"}}]
tests:
  - {name: it, stand_ins: {start: {result: 3}}, expect: {result: 3, path: [start]}}
"""


def test_tests_stand_in_the_playbook_as_well_and_change_nothing_of_it(
    tmp_path: Path, stage: TrialStage
) -> None:
    file = tmp_path / "book.yaml"
    file.write_text(HEAD + IN_PLACE, encoding="utf-8")
    suite = read_suite(file, kinds())
    assert run_test(stage, suite, 0).passed
    without = compile_playbook(HEAD + IN_PLACE.split("tests:")[0], file=str(file), kinds=kinds())
    assert without.net is not None
    assert digest(suite.net) == digest(without.net)
    assert compile_playbook(HEAD + IN_PLACE, file=str(file), kinds=kinds()).problems == ()
    file.write_text(HEAD + IN_PLACE.replace("path: [start]", "path: [strat]"), encoding="utf-8")
    assert faults(file)[0].startswith("book.yaml:7:76: error[NOETL301]: the playbook has no step 'strat'")


@pytest.mark.parametrize(
    ("text", "beside", "meant"),
    [
        ("tests: []", True, True),
        ("tests: []", False, False),
        ("playbook: other.yaml\ntests: []", False, True),
        ("cases: []", True, False),
        ("a: {tests: 1}\nplaybook: x", True, False),
    ],
)
def test_files_of_others_that_are_called_alike_are_left_alone(
    tmp_path: Path, text: str, beside: bool, meant: bool
) -> None:
    file = tmp_path / "a.test.yaml"
    file.write_text(text, encoding="utf-8")
    if beside:
        (tmp_path / "a.yaml").touch()
    assert is_meant(file) is meant
    assert has_tests(tmp_path / "missing.yaml")
