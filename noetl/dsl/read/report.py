"""Collects the problems of one document, each at its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from noetl.dsl.problems import NEWER, Code, Finding, Path, Problem, Severity, format_path, severity_of
from noetl.dsl.read.source import Source
from noetl.facts.nearest import ALIKE, nearest

#: Characters compared at most in search of nearest names: a document full of unknown names gets few
#: hints.
_MAX_COMPARED = 200_000


class DottedNames:
    """Suggests names for unknown ones, with a bound on how much of a document it
    compares."""

    def __init__(self) -> None:
        self._compared = 0

    def suggest(
        self, name: str, known: Iterable[str], otherwise: str = "", *, likeness: float = ALIKE
    ) -> str:
        """`did you mean 'x'?` for the known name nearest to `name`, else `otherwise`."""
        candidates = list(known)
        if self._compared > _MAX_COMPARED:
            return otherwise
        self._compared += len(name) * len(candidates)
        close = nearest(name, candidates, likeness)
        return f"did you mean {close!r}?" if close else otherwise


class ProblemReport:
    """Problems found so far. `strict` turns warnings into errors; `lenient` says that the document
    was accepted before: what older versions let pass stays a warning."""

    def __init__(self, source: Source, *, strict: bool = False, lenient: bool = False) -> None:
        self.source = source
        self.names = DottedNames()
        self.strict = strict
        self.lenient = lenient
        self._problems: dict[tuple[str, str, int, int], Problem] = {}
        self._faulty: set[Path] = set()
        self._secrets: set[Path] = set()
        self._respelled: set[Path] = set()
        for problem in source.problems:
            self._keep(problem)

    def add(
        self,
        code: Code,
        path: Path,
        message: str,
        hint: str = "",
        *,
        within: tuple[str, int] | None = None,
        at_key: bool = False,
    ) -> None:
        """Adds a problem of the part at `path`; `within` says at which character of the text
        there."""
        self.keep(Finding(code, path, message, hint, within, at_key))

    def missing(self, path: Path, key: str, message: str, hint: str = "") -> None:
        """Adds that `key` is missing in the part at `path`, unless one of the two is known to be
        faulty."""
        self.keep(Finding(Code.MISSING, path, message, hint, lacks=key))

    def keep(self, finding: Finding) -> None:
        """Adds a finding at its place in the text, unless another problem explains it."""
        path, lacks = finding.path, finding.lacks
        if lacks and (self.is_faulty(path) or self.is_faulty((*path, lacks))):
            return
        code = finding.code
        line, column = self._place(finding)
        written = self.source.path_in_text(path)
        own: Severity = "warning" if self.lenient and code in NEWER else severity_of(code)
        file, at = self.source.file, format_path(written)
        self._keep(Problem(code, own, file, line, column, at, finding.message, finding.hint))
        if own == "error":
            self._faulty.add(written)
            if finding.explains is not None:
                self._faulty.add(self.source.path_in_text(finding.explains))
        for secret in finding.hides:
            self.hide(secret)

    def _place(self, finding: Finding) -> tuple[int, int]:
        path, within = finding.path, finding.within
        if within is not None and (found := self.source.position(path, *within)) is not None:
            return found
        mark = self.source.key_mark(path) if finding.at_key else self.source.mark(path)
        return mark.line, mark.column

    def respell(self, path: Path) -> None:
        """Says that the canonical form has the part at `path` in another way, and that no warning
        says so."""
        self._respelled.add(self.source.path_in_text(path))

    @property
    def respelled(self) -> int:
        """In how many places that is so."""
        return len(self._respelled)

    def hide(self, path: Path) -> None:
        """Says that the texts at or below `path` are secrets, which are not shown."""
        self._secrets.add(path)

    @property
    def shown(self) -> str:
        """The text of the document without them."""
        return self.source.without(self._secrets)

    def is_faulty(self, path: Path) -> bool:
        """Whether an error was found at exactly this part."""
        return self.source.path_in_text(path) in self._faulty

    def suggest(
        self, name: str, known: Iterable[str], otherwise: str = "", *, likeness: float = ALIKE
    ) -> str:
        """See `DottedNames.suggest`."""
        return self.names.suggest(name, known, otherwise, likeness=likeness)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems in the order of the text. What cannot be run means nothing yet: its notes
        are left out."""
        failed = self.failed
        found = (one for one in self._problems.values() if not (failed and one.severity == "note"))
        return tuple(sorted(found, key=lambda p: (p.line, p.column, p.code)))

    @property
    def failed(self) -> bool:
        """Whether any problem is an error."""
        return any(problem.severity == "error" for problem in self._problems.values())

    def _keep(self, problem: Problem) -> None:
        """Each once: what an alias repeats is one fault."""
        if self.strict and problem.severity == "warning":
            problem = replace(problem, severity="error")
        self._problems.setdefault((problem.code, problem.message, problem.line, problem.column), problem)
