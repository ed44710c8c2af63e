"""Runs the tests of a file, and says in lines what became of each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noetl.dsl.document import PlaybookTest
from noetl.dsl.problems import format_path
from noetl.facts import json
from noetl.facts.json import Json
from noetl.trial.matching import Mismatch
from noetl.trial.play import Played, play, scenario_of
from noetl.trial.stage import TrialStage
from noetl.trial.suites import TESTS, Suite
from noetl.trial.verdicts import judge

#: Lines of one sort, of one test.
_SHOWN = 10
#: Characters of a value in a line.
_SHORT = 300


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """What became of test number `index` of a suite."""

    suite: Suite
    index: int
    played: Played
    mismatches: Sequence[Mismatch]
    seconds: float

    @property
    def test(self) -> PlaybookTest:
        return self.suite.tests[self.index]

    @property
    def name(self) -> str:
        return self.test.name or ""

    @property
    def passed(self) -> bool:
        return not self.mismatches and not self.played.faults

    @property
    def line(self) -> int:
        """Where the test begins in its file."""
        return self.suite.source.mark((TESTS, self.index)).line


def run_test(stage: TrialStage, suite: Suite, index: int) -> TrialVerdict:
    """Runs one test. Raises PlaybookInvalid where its playbook cannot be run."""
    began = time.perf_counter()
    test = suite.tests[index]
    played = play(stage, suite.text, suite.playbook, scenario_of(test))
    found = judge(test.expect, played)
    return TrialVerdict(suite, index, played, found, time.perf_counter() - began)


def explain_failure(verdict: TrialVerdict) -> Iterator[str]:
    """Why a test failed: what was expected and what came, each with its place; what the execution
    says of itself; and what ran."""
    played = verdict.played
    yield from _first([f"{verdict.suite.file}:{verdict.line}: {fault}" for fault in played.faults])
    yield from _first([f"{_place(verdict, one)}: {_describe(one)}" for one in verdict.mismatches])
    if played.error is not None and not played.faults:
        yield _error(verdict)
    yield from played.waits
    yield f"ran: {_ran(played)}"


def _first(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_SHOWN]
    if (more := len(lines) - _SHOWN) > 0:
        yield f"and {more} more"


def _place(verdict: TrialVerdict, mismatch: Mismatch) -> str:
    mark = verdict.suite.source.mark((TESTS, verdict.index, "expect", *mismatch.path))
    return f"{verdict.suite.file}:{mark.line}:{mark.column}"


def _describe(mismatch: Mismatch) -> str:
    if mismatch.path[0] == "not_run":
        return f"step {mismatch.expected!r} was not to run: {mismatch.got}"
    name = format_path(mismatch.path)
    return f"{name}: expected {shorten(mismatch.expected)}, got {shorten(mismatch.got)}"


def shorten(value: Json) -> str:
    """A value on one line."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def _error(verdict: TrialVerdict) -> str:
    error = verdict.played.error or {}
    line = f":{error['line']}" if error.get("line") else ""
    step = f" (step {error['step']})" if error.get("step") else ""
    return f"{verdict.suite.playbook}{line}: {error.get('kind')}: {error.get('message')}{step}"


def _ran(played: Played) -> str:
    shown = [f"{step} ({played.steps.get(step, {}).get('status')})" for step in played.path]
    return " → ".join(shown) or "nothing"
