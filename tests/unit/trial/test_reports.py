"""What is made of many tests: coverage, JUnit, and files that are brought up to date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from noetl.tools.kit.registry import kinds
from noetl.trial.coverage import Coverage
from noetl.trial.junit import junit_text
from noetl.trial.running import run_test
from noetl.trial.stage import TrialStage
from noetl.trial.suites import read_suite
from noetl.trial.updating import update_text

from .conftest import Trial

BOOK = """
workflow:
  - step: start
    spec: {policy: {admit: {rules: [{when: "{{ ctx.never }}", then: {allow: false}}, {else: {then: {allow: true}}}]}}}
    tool:
      name: ask
      kind: http
      url: "https://x"
      spec:
        policy:
          rules:
            - {when: "{{ error.retryable }}", then: {do: retry, attempts: 2}}
            - {else: {then: {do: continue}}}
    next:
      arcs:
        - {step: many, when: "{{ start.n > 1 }}"}
        - {step: few}
  - {step: many, tool: {kind: noop}}
  - {step: few, tool: {kind: noop}}
"""
TESTS = """\
# What stands here stays.
tests:
  - name: few   # behind the name
    stand_ins: {start: {result: {n: 1}}}
    expect: {path: [start, many], not_run: [few], result: null}  # behind it
  - name: as it goes
    stand_ins: {start: [{error: {kind: timeout}}, {result: {n: 1}}]}

  # Before the third.
  - name: with an error
    stand_ins: {start: {result: {n: a}}}
    expect:
      # Nobody knows.
      status: failed
      calls: {start: [{config: {url: "~ ^https"}, attempt: 2}]}
"""


def test_coverage_says_what_no_test_met(trial: Trial) -> None:
    coverage = Coverage()
    first, second, _ = trial(BOOK, TESTS)
    coverage.know(first.suite.net)
    assert coverage.percent == 0
    coverage.add(first.played.traces)
    (book,) = coverage.playbooks.values()
    assert (book.count("steps"), book.count("arcs"), book.count("rules")) == ((2, 3), (1, 2), (2, 4))
    assert [(part.line, part.missed) for part in book.missed()] == [
        (6, "rule 1 of the admission to 'start' (when {{ ctx.never }}) never matched"),
        (8, "rule 1 of task 'start.ask' (when {{ error.retryable }}) never matched"),
        (19, "the arc from 'start' to 'many' (when {{ start.n > 1 }}) was never taken"),
        (21, "step 'many' never ran"),
    ]
    coverage.add(second.played.traces)
    assert (book.count("rules"), round(coverage.percent)) == ((3, 4), 67)


def test_junit_has_a_case_for_each_and_the_failures_as_text(trial: Trial) -> None:
    root = ElementTree.fromstring(junit_text(trial(BOOK, TESTS)))
    assert (root.get("tests"), root.get("failures")) == ("3", "2")
    (suite,) = root
    assert [case.get("name") for case in suite] == ["few", "as it goes", "with an error"]
    assert [case.get("line") for case in suite] == ["3", "6", "10"]
    assert "path[1]: expected" in (suite[0][0].text or "")
    assert list(suite[1]) == []


def test_what_came_is_written_in_the_place_of_what_was_expected(
    trial: Trial, write: Callable[[str, str], Path], stage: TrialStage
) -> None:
    first = trial(BOOK, TESTS)
    text = update_text([first[0], first[1], first[2]])
    fresh = "    expect:\n      status: completed\n      path:\n        - start\n        - few\n      result: {}\n"
    expected = TESTS
    for was, now in (
        # A comment stays in its column, as far as there is room.
        ("[start, many], not_run: [few], result: null}", "[start, few], not_run: [], result: {}}      "),
        ("{n: 1}}]}\n\n", "{n: 1}}]}\n" + fresh + "\n"),
        ("attempt: 2", "attempt: 1"),
    ):
        assert was in expected
        expected = expected.replace(was, now)
    assert text == expected
    suite = read_suite(write(BOOK, text), kinds())
    assert [run_test(stage, suite, index).passed for index in range(3)] == [True] * 3
