"""What every part of a compilation shares, and where in the playbook a part stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from noetl import expressions
from noetl.dsl.compile.notes import Notes, Use
from noetl.dsl.document import Document, Tool
from noetl.dsl.problems import Code, Path
from noetl.dsl.read.report import ProblemReport
from noetl.errors import TemplateError
from noetl.facts.json import JsonMap
from noetl.net.model import KindInfo, Template

#: Characters that tasks may share in all: each gets a copy, and a net has to stay small.
MAX_SHARED = 1_000_000


@dataclass(slots=True)
class Context:
    """The document being compiled, the problems found, the templates met."""

    document: Document
    report: ProblemReport
    kinds: Mapping[str, KindInfo]
    step_names: frozenset[str] = frozenset()
    workbook: Mapping[str, tuple[Tool, Path]] = field(default_factory=dict)
    notes: Notes = field(default_factory=Notes)
    _shared: int = 0
    _sizes: dict[Path, int] = field(default_factory=dict)
    _heads: dict[tuple[str, bool], frozenset[str]] = field(default_factory=dict)

    def use(self, path: Path, template: Template, step: str | None, *, guard: bool = False) -> None:
        """Remembers a template; all are checked at the end, when every name is known."""
        if isinstance(template, str | list | dict) and template:
            self.notes.uses.append(Use(path, template, step, guard))

    def heads(self, text: str, *, guard: bool) -> frozenset[str]:
        """The names that a template begins its chains with. Parsed once for each text."""
        known = self._heads.get((text, guard))
        if known is None:
            try:
                names = expressions.names_used(text, guard=guard)
            except TemplateError:
                # `check_templates` reports it, with its line.
                names = frozenset()
            known = self._heads[text, guard] = frozenset(chain[0] for chain in names)
        return known

    def raw(self, path: Path) -> JsonMap:
        """The mapping at `path` as it was read; empty where there is none."""
        return self.report.source.raw(path)

    def may_share(self, paths: Iterable[Path], task: Path) -> bool:
        """Whether one more task may have its own copy of the parts at `paths`; adds a problem where
        not."""
        within = self._shared <= MAX_SHARED
        self._shared += sum(self._size(path) for path in paths)
        if within and self._shared > MAX_SHARED:
            self.report.add(
                Code.TOO_LARGE,
                task,
                f"specs and workbook tasks add up to more than {MAX_SHARED:,} characters over all tasks",
                "shorten what all tasks share",
            )
        return self._shared <= MAX_SHARED

    def _size(self, path: Path) -> int:
        known = self._sizes.get(path)
        if known is None:
            known = self._sizes[path] = len(str(self.raw(path)))
        return known

    def line(self, path: Path) -> int:
        """The line on which the content at `path` begins."""
        return self.report.source.line_of_content(path)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a pipeline stands. `specs` are those around its tasks, outermost first.

    `reduced` are the ctx names that the reducers of a parallel loop fold; None outside of such
    loops.
    """

    step: str | None
    specs: tuple[Path, ...] = ()
    iterating: bool = False
    reduced: frozenset[str] | None = None
