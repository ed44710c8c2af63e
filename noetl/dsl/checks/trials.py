"""Tests of a playbook: names that it does not have, stand-ins and expectations that say nothing."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.document import Expectation, PlaybookTest, StandIn
from noetl.dsl.document.base import parts_of
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.dsl.read.report import DottedNames
from noetl.expressions import Broken, check
from noetl.expressions.instants import instant
from noetl.net.model import Net

#: Before the name of a step in a called playbook: `billing/charge:pay`.
IN_CALLED: Final = ":"
#: What a text begins with that is a regular expression.
PATTERN: Final = "~ "
_PLAYBOOK: Final = "playbook"
#: What a stand-in says, one of them.
WAYS: Final = ("result", "recorded", "error", "run")


def check_tests(subject: Subject) -> Iterator[Finding]:
    """The tests under the playbook's own key."""
    if subject.net is not None and subject.document.tests:
        known = CallNames(subject.net, subject.names, subject.kinds)
        yield from find_faults(subject.document.tests, ("tests",), known)


def find_faults(tests: Sequence[PlaybookTest], path: Path, known: CallNames) -> Iterator[Finding]:
    """What is wrong with `tests`, which stand at `path`."""
    given: set[str] = set()
    for index, test in enumerate(tests):
        at = (*path, index)
        yield from _check_name(test, at, given)
        yield from _check_clock(test, at)
        for part, below in parts_of(test):
            if isinstance(part, StandIn):
                yield from _check_stand_in(part, (*at, *below))
        yield from known.check_calls(test.stand_ins or {}, (*at, "stand_ins"))
        if test.expect is not None:
            yield from _check_expectation(test.expect, (*at, "expect"), known)


def _check_name(test: PlaybookTest, at: Path, given: set[str]) -> Iterator[Finding]:
    if not test.name:
        yield Finding(Code.MISSING, at, "the test has no name", "add name: what it shows", lacks="name")
    elif test.name in given:
        message = f"another test is called {quote_value(test.name)}, too"
        yield Finding(Code.DUPLICATE_NAME, (*at, "name"), message, "each has a name of its own")
    given.add(test.name or "")


def _check_clock(test: PlaybookTest, at: Path) -> Iterator[Finding]:
    try:
        if test.clock is not None:
            instant(test.clock)
    except Broken as error:
        message = f"`clock` is no instant: it {error}"
        yield Finding(Code.VALUE, (*at, "clock"), message, "write clock: 2026-01-31T12:00:00Z")


def _check_stand_in(one: StandIn, at: Path) -> Iterator[Finding]:
    said = [way for way in WAYS if way in one.model_fields_set]
    if not said:
        # A key that is not known explains that there is none.
        if not one.model_extra:
            message = "the stand-in does not say what comes of the call"
            yield Finding(Code.MISSING, at, message, f"add one of {', '.join(WAYS)}")
    elif len(said) > 1:
        message = f"the stand-in says {' and '.join(f'`{way}`' for way in said)}, which exclude one another"
        yield Finding(Code.MISPLACED, (*at, said[1]), message, "keep one of them", at_key=True)
    for fault in check(one.result):
        yield Finding(
            Code.TEMPLATE, (*at, "result", *fault.path), fault.message, "write recorded: for a text"
        )


def _check_expectation(expect: Expectation, at: Path, known: CallNames) -> Iterator[Finding]:
    for key in ("path", "not_run"):
        for index, step in enumerate(getattr(expect, key) or []):
            yield from known.check_step(step, (*at, key, index))
    for step in expect.steps or {}:
        yield from known.check_step(step, (*at, "steps", step), at_key=True)
    yield from known.check_calls(expect.calls or {}, (*at, "calls"))
    for pattern, below in _patterns(expect.model_dump(exclude_unset=True, by_alias=True), at):
        try:
            re.compile(pattern)
        except re.error as error:
            message = f"{quote_value(pattern)} is no regular expression: {error.msg}"
            yield Finding(Code.VALUE, below, message, "what is behind ~ is one")


def _patterns(value: Any, path: Path) -> Iterator[tuple[str, Path]]:
    match value:
        case str() if value.startswith(PATTERN):
            yield value.removeprefix(PATTERN), path
        case dict():
            for key, inner in value.items():
                yield from _patterns(inner, (*path, key))
        case list():
            for index, inner in enumerate(value):
                yield from _patterns(inner, (*path, index))


@dataclass(frozen=True, slots=True)
class CallNames:
    """The names that tests of a playbook may use. `kinds` are those that are installed: playbooks
    that are called may have any of them."""

    net: Net
    names: DottedNames
    kinds: Container[str]

    def check_calls(self, given: Iterable[str], path: Path) -> Iterator[Finding]:
        """Names of calls: steps, `step.task`, or kinds of tools; those of called playbooks are
        known only when these are called."""
        tasks = [(step.name, task) for step in self.net.transitions for task in step.calls]
        known = {task.kind for _, task in tasks} | {step for step, _ in tasks}
        known |= {f"{step}.{task.name}" for step, task in tasks}
        calls_others = any(task.kind == _PLAYBOOK for _, task in tasks)
        for name in given:
            if name in known or (calls_others and (name in self.kinds or IN_CALLED in name)):
                continue
            step, dot, task = name.partition(".")
            is_task = bool(dot) and step in self.net.steps
            what = f"step {quote_value(step)} has no task {quote_value(task)}" if is_task else ""
            what = what or f"no step, task or kind of tool of the playbook is called {quote_value(name)}"
            if name in self.net.steps:
                what = f"step {quote_value(name)} has no task, so that nothing is called"
            code = Code.UNKNOWN_TASK if is_task else Code.UNKNOWN_STEP
            yield Finding(code, (*path, name), what, self.names.suggest(name, known), at_key=True)

    def check_step(self, name: str, path: Path, *, at_key: bool = False) -> Iterator[Finding]:
        """The name of a step."""
        if name not in self.net.steps:
            message = f"the playbook has no step {quote_value(name)}"
            hint = self.names.suggest(name, self.net.steps)
            yield Finding(Code.UNKNOWN_STEP, path, message, hint, at_key=at_key)
