"""Checks are independent: each is in the list once, and says the same alone as with the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

import pytest

from noetl.dsl import Compiled, checks
from noetl.dsl.checks.registry import OF_DOCUMENTS, OF_NETS
from noetl.dsl.checks.subject import Check, Subject
from noetl.dsl.compile.context import Context
from noetl.dsl.compile.document import compile_document
from noetl.dsl.problems import Code
from noetl.dsl.read.report import ProblemReport
from noetl.net.model import KindInfo
from tests.unit.dsl.conftest import HEADER

CHECKS = (*OF_DOCUMENTS, *OF_NETS)

FAULTY = """\
workload: {a: "{{ b }}", b: "{{ a }}", password: hunter2hunter2}
workflow:
- step: start
  outptu: 1
  tool:
    kind: postgres
    command: select '{{ nobody }}'
    spec: {policy: {rules: [{when: "{{ x }} == 1", then: {do: retry, attempts: 1}}]}}
  next: [{step: end, oddly: 1}]
- step: end
- step: lost
"""


def subject_of(compiled: Compiled, kinds: Mapping[str, KindInfo]) -> Subject:
    """What the checks were asked about when `compiled` was made."""
    assert compiled.document is not None
    report = ProblemReport(compiled.source)
    context = Context(compiled.document, report, kinds)
    net = compile_document(context)
    return replace(
        Subject(compiled.document, report.source, kinds, report.names), net=net, notes=context.notes
    )


def test_every_check_of_the_room_is_in_the_list_once() -> None:
    modules = [import_module(f"{checks.__name__}.{one.name}") for one in iter_modules(checks.__path__)]
    # Parts of another check, which say of what.
    parts = {"check_built_in_names"}
    found = {
        f"{module.__name__}.{name}"
        for module in modules
        for name, value in vars(module).items()
        if name.startswith("check_") and value.__module__ == module.__name__ and name not in parts
    }
    listed = [f"{check.__module__}.{check.__name__}" for check in CHECKS]
    assert sorted(listed) == sorted(found)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_check_says_alone_what_it_says_among_others(
    check: Check, compiled: Callable[..., Compiled], kinds: Mapping[str, KindInfo]
) -> None:
    whole = compiled(HEADER + FAULTY)
    report = ProblemReport(whole.source)
    for finding in check(subject_of(whole, kinds)):
        report.keep(finding)
    # What has errors has no notes.
    assert {one for one in report.problems if one.severity != "note"} <= set(whole.problems)


def test_together_they_find_what_is_wrong(compiled: Callable[..., Compiled]) -> None:
    found = {problem.code for problem in compiled(HEADER + FAULTY).problems}
    assert found >= {
        *(Code.CIRCLE, Code.IN_PLAIN_TEXT, Code.MISSPELT_KEY, Code.UNKNOWN_KEY, Code.GUARD_IS_TEXT),
        *(Code.RETRY_ONCE, Code.UNDEFINED, Code.SQL_INTERPOLATION, Code.UNREACHABLE),
    }
