"""Text to Net: reads, validates, compiles and checks. All problems come back together."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from noetl.dsl.checks.registry import OF_DOCUMENTS, OF_NETS, findings
from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.context import Context
from noetl.dsl.compile.document import compile_document
from noetl.dsl.dialects.lower import expand, lower
from noetl.dsl.document import Document
from noetl.dsl.document.validation import to_document
from noetl.dsl.problems import Problem
from noetl.dsl.read.report import ProblemReport
from noetl.dsl.read.source import Source, read
from noetl.errors import PlaybookInvalid
from noetl.net.model import Input, KindInfo, Net
from noetl.net.soundness import SoundnessBounds

#: Looks at so few markings that no compilation takes long; the same ones on every machine.
QUICK: Final = SoundnessBounds(markings=1_000)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a playbook. `net` is None where any problem is an error.

    `document` is what could be read of it, `source` its text and its canonical form; `problems` are
    errors, warnings and notes in the order of the text; `shown` is the text without the secrets
    that stand in it. `respelled` counts the places that the canonical form says otherwise, besides
    those that a warning tells of. `inputs` are what it takes, as far as that could be read.
    """

    net: Net | None
    document: Document | None
    problems: tuple[Problem, ...]
    source: Source
    shown: str
    respelled: int = 0
    inputs: tuple[Input, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    @property
    def notes(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "note")


def compile_playbook(
    text: bytes | str,
    *,
    file: str,
    kinds: Mapping[str, KindInfo],
    strict: bool = False,
    lenient: bool = False,
    sources: Callable[[str], str] | None = None,
    parse_sql: bool = False,
    bounds: SoundnessBounds = QUICK,
) -> Compiled:
    """Compiles `text`, which problems call `file`, for the installed `kinds`. Never raises for bad
    input.

    `strict` makes warnings errors. `lenient` is for versions that the catalog has: what was a
    warning when they were registered is no error now. `sources` yields the text of a source file by
    the name that the playbook has for it, and raises NoetlError where there is none: with it such
    files are checked too. `parse_sql` looks at SQL, too, whose parsers are slow to load. `bounds`
    says how far to look for runs that come to no proper end.
    """
    with _without_collector():
        report = ProblemReport(read(text, file), strict=strict, lenient=lenient)
        return _compile_report(report, kinds, sources, parse_sql, bounds)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Puts the garbage collector off: a compilation makes many objects that all stay until it ends,
    and to look through them again and again takes a tenth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _compile_report(
    report: ProblemReport,
    kinds: Mapping[str, KindInfo],
    sources: Callable[[str], str] | None,
    parse_sql: bool,
    bounds: SoundnessBounds,
) -> Compiled:
    data = report.source.data
    read_as = to_document(data, report) if data is not None else None
    lowered = lower(*read_as, kinds, report) if read_as is not None else None
    if lowered is None:
        return Compiled(None, None, report.problems, report.source, report.shown)
    (document, canonical), source = lowered, report.source
    subject = Subject(document, source, kinds, report.names, sources, parse_sql, bounds)
    for finding in findings(subject, OF_DOCUMENTS):
        report.keep(finding)
    expanded = expand(document, canonical, report)
    if expanded is None:
        return Compiled(None, document, report.problems, source, report.shown)
    context = Context(expanded, report, kinds)
    net = compile_document(context)
    subject = replace(subject, document=expanded, source=report.source, net=net, notes=context.notes)
    for finding in findings(subject, OF_NETS):
        report.keep(finding)
    found = None if report.failed else net
    return Compiled(
        found,
        document,
        report.problems,
        source,
        report.shown,
        report.respelled,
        net.inputs if net is not None else (),
    )


def load_playbook(
    text: bytes | str,
    *,
    file: str,
    kinds: Mapping[str, KindInfo],
    strict: bool = False,
    lenient: bool = False,
) -> Net:
    """The net of `text`. Raises PlaybookInvalid with every problem found where any is an error."""
    return net_of(compile_playbook(text, file=file, kinds=kinds, strict=strict, lenient=lenient))


def net_of(compiled: Compiled) -> Net:
    """What was compiled. Raises PlaybookInvalid with every problem found where any is an error."""
    if compiled.net is not None:
        return compiled.net
    errors = compiled.errors
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    raise PlaybookInvalid(f"The playbook cannot be run: {errors[0]}{more}", compiled.problems)
