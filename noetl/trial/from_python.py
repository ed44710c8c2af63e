"""Stand-ins as Python says them: as tests are written, or functions of the call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl.dsl.checks.trials import CallNames, find_faults
from noetl.dsl.document import PlaybookTest
from noetl.dsl.document.base import parts_of
from noetl.dsl.document.validation import read_as, unknown_keys
from noetl.dsl.problems import Finding
from noetl.dsl.read.report import ProblemReport
from noetl.dsl.read.source import Source
from noetl.errors import BadRequest
from noetl.net.model import KindInfo, Net
from noetl.trial.stand_ins import Answers


def answers_of(given: Mapping[str, Any], net: Net, kinds: Mapping[str, KindInfo]) -> Mapping[str, Answers]:
    """`given` (names of calls → stand-ins, lists of them, or functions) as what answers calls of
    `net`. Raises BadRequest with everything that is wrong with it."""
    data = {"name": "play", "stand_ins": {name: _without_functions(one) for name, one in given.items()}}
    report = ProblemReport(Source("stand_ins", "", data))
    found = read_as(PlaybookTest, data, report)
    test = found[0] if found is not None else PlaybookTest()
    for finding in _check(test, CallNames(net, report.names, kinds), report):
        report.keep(finding)
    if report.problems:
        said = (f"{one.message}{f' ({one.hint})' if one.hint else ''}" for one in report.problems)
        raise BadRequest(f"The stand-ins cannot be used: {'; '.join(said)}.")
    written: Mapping[str, Any] = test.stand_ins or {}
    return {name: _with_functions(written[name], one) for name, one in given.items()}


def _check(test: PlaybookTest, known: CallNames, report: ProblemReport) -> Iterator[Finding]:
    for part, path in parts_of(test):
        yield from unknown_keys(part, path, report.names)
    yield from find_faults([test], (), known)


def _without_functions(given: Any) -> Any:
    if callable(given):
        return {"run": True}
    return [_without_functions(one) for one in given] if isinstance(given, list) else given


def _with_functions(written: Any, given: Any) -> Any:
    if callable(given):
        return given
    if isinstance(given, list):
        return [_with_functions(one, said) for one, said in zip(written, given, strict=True)]
    return written
