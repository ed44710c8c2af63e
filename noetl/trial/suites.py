"""The tests of one file, read with their playbook: everything that is wrong with them comes back
together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn

from noetl.dsl import Code, Compiled, Problem, compile_playbook
from noetl.dsl.checks.trials import CallNames, find_faults
from noetl.dsl.document import PlaybookTest, TrialFile
from noetl.dsl.document.base import parts_of
from noetl.dsl.document.validation import read_as, unknown_keys
from noetl.dsl.problems import Finding
from noetl.dsl.read.report import ProblemReport
from noetl.dsl.read.source import MAX_BYTES, Source, read
from noetl.errors import PlaybookInvalid
from noetl.net.model import KindInfo, Net
from noetl.store.library import SUFFIXES

#: How files of tests end: `orders.test.yaml` is about `orders.yaml`.
ENDINGS: Final = tuple(f".test{suffix}" for suffix in SUFFIXES)
TESTS: Final = "tests"
#: The root key of tests, in a playbook or a file of their own.
_KEY: Final = re.compile(rb"""^["']?tests["']?[ \t]*:""", re.MULTILINE)
_PLAYBOOK: Final = re.compile(rb"""^["']?playbook["']?[ \t]*:""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests that stand in `file`, at `tests` of `source`; `text` is that of the `playbook`."""

    file: Path
    source: Source
    tests: Sequence[PlaybookTest]
    playbook: Path
    text: str
    net: Net


def has_tests(file: Path) -> bool:
    """Whether a file has a root key `tests`. One that cannot be read counts: reading it reports
    why."""
    try:
        with file.open("rb") as opened:
            return _KEY.search(opened.read(MAX_BYTES)) is not None
    except OSError:
        return True


def is_test_file(file: Path) -> bool:
    """Whether it is called as files of tests are."""
    return file.name.endswith(ENDINGS)


def is_meant(file: Path) -> bool:
    """Whether a file that is called so is meant for NoETL: others have tests in such files, too."""
    try:
        text = file.read_bytes()
    except OSError:
        return False
    beside = any(one.is_file() for one in _beside(file))
    return _KEY.search(text) is not None and (beside or _PLAYBOOK.search(text) is not None)


def _beside(file: Path) -> list[Path]:
    """Where the playbook of a file of tests is that does not name it."""
    stem = next(file.name.removesuffix(one) for one in ENDINGS if file.name.endswith(one))
    return [file.with_name(f"{stem}{suffix}") for suffix in SUFFIXES]


def tests_beside(playbook: Path) -> list[Path]:
    """The files of tests that are called like a playbook."""
    named = (playbook.with_name(f"{playbook.stem}{ending}") for ending in ENDINGS)
    return [file for file in named if file.is_file()]


def read_suite(file: Path, kinds: Mapping[str, KindInfo]) -> Suite:
    """Reads a file of tests, or a playbook with tests. Raises PlaybookInvalid with every
    problem."""
    return (_of_test_file if is_test_file(file) else _of_playbook)(file, kinds)


def _of_playbook(file: Path, kinds: Mapping[str, KindInfo]) -> Suite:
    compiled = _compile(file, kinds)
    problems = [_strict(one) if one.path.startswith(TESTS) else one for one in compiled.problems]
    if compiled.net is None or compiled.document is None or _errors(problems):
        _refuse(file, problems)
    tests = compiled.document.tests or []
    return Suite(file, compiled.source, tests, file, compiled.source.text, compiled.net)


def _of_test_file(file: Path, kinds: Mapping[str, KindInfo]) -> Suite:
    report = ProblemReport(read(_content(file), str(file)))
    data = report.source.data
    found = read_as(TrialFile, data, report) if data is not None else None
    if found is None:
        _refuse(file, report.problems)
    document = found[0]
    for finding in _check(document, report):
        report.keep(finding)
    playbook = _playbook_of(file, document, report)
    if playbook is None:
        _refuse(file, [_strict(one) for one in report.problems])
    compiled = _compile(playbook, kinds)
    if compiled.net is None:
        _refuse(playbook, [*map(_strict, report.problems), *compiled.problems])
    for finding in find_faults(document.tests or [], (TESTS,), CallNames(compiled.net, report.names, kinds)):
        report.keep(finding)
    problems = [_strict(one) for one in report.problems]
    if _errors(problems):
        _refuse(file, problems)
    text = compiled.source.text
    return Suite(file, report.source, document.tests or [], playbook, text, compiled.net)


def _check(document: TrialFile, report: ProblemReport) -> Iterator[Finding]:
    for part, path in parts_of(document):
        yield from unknown_keys(part, path, report.names)
    if document.tests is None:
        yield Finding(Code.MISSING, (), "the file has no tests", "add tests: [{name: ...}]", lacks=TESTS)


def _playbook_of(file: Path, document: TrialFile, report: ProblemReport) -> Path | None:
    """The file of the playbook; None where there is none, which is reported."""
    named = document.playbook
    candidates = _beside(file) if named is None else [file.parent / named]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    hint = "name it: playbook: FILE, from the directory of this file"
    report.add(Code.FILE, ("playbook",), f"the playbook {str(candidates[0])!r} is not there", hint)
    return None


def _strict(problem: Problem) -> Problem:
    """Keys that mean nothing in a test are errors: what it does not say, it does not show."""
    return replace(problem, severity="error") if problem.code == Code.UNKNOWN_KEY else problem


def _errors(problems: Sequence[Problem]) -> list[Problem]:
    return [one for one in problems if one.severity == "error"]


def _refuse(file: Path, problems: Sequence[Problem]) -> NoReturn:
    raise PlaybookInvalid(f"The tests of {file} cannot be run.", tuple(_errors(problems)))


def _compile(file: Path, kinds: Mapping[str, KindInfo]) -> Compiled:
    return compile_playbook(_content(file), file=str(file), kinds=kinds, parse_sql=True)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        problem = Problem(Code.FILE, "error", str(file), 1, 1, "", f"it cannot be read: {reason}")
        raise PlaybookInvalid(f"{str(file)!r} cannot be read: {reason}.", (problem,)) from error
