"""An execution passes the test that is made of it: of the corpus each case, run with its tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl.config import Settings
from noetl.tools.kit.registry import kinds
from noetl.trial.running import explain_failure, run_test
from noetl.trial.simulation import Outside, Simulation
from noetl.trial.stage import open_stage
from noetl.trial.suites import read_suite
from noetl.usecases.fixtures import make_fixture
from tests.budget import budget

from .corpus import cases

HEAD = "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: test, path: corpus/test}\n"
#: Without those that are refused, that call others, that read what a tool says beside its outcome,
#: and those whose slow branch is withdrawn, or looks for what another one writes: a simulation does
#: one thing after another, and waits. Nor those in which a wait at the head of a pipeline orders
#: two branches: the test that is made gives its outcome at once, and the order is another.
_APART = re.compile(r"sleep[ (]\d\d|os\.path\.exists|tool: \[\{kind: wait, condition:")
RUNS = [
    case
    for case in cases()
    if case.expected["status"] is not None
    and not case.others
    and "meta." not in case.body
    and not _APART.search(case.body)
]
SOME = RUNS[:: budget("NOETL_TEST_CASES_APART", quick=24, full=16, long=1)]


def test_an_execution_passes_the_test_that_is_made_of_it(subtests: pytest.Subtests, tmp_path: Path) -> None:
    book, tests = tmp_path / "book.yaml", tmp_path / "book.test.yaml"
    with open_stage(Settings(home=tmp_path / "home")) as stage:
        stage.directories = (tmp_path,)
        for case in SOME:
            with subtests.test(case.name):
                book.write_text(HEAD + case.body, encoding="utf-8")
                outside = Outside(tools=stage.tools, results=stage.results)
                simulation = Simulation(book.read_text(), kinds=kinds(), file="book.yaml", outside=outside)
                run = simulation.start(case.payload, **case.overrides)
                simulation.rest()
                fixture = make_fixture(simulation.rt, run)
                simulation.rt.store.close()
                tests.write_text(fixture.as_yaml(), encoding="utf-8")
                verdict = run_test(stage, read_suite(tests, kinds()), 0)
                # What was left out is said, and then the test need not pass.
                assert verdict.passed or fixture.notes, list(explain_failure(verdict))
