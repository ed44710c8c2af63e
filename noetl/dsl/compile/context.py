"""What every part of a compilation shares: the document, notes for the checks, assignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from noetl.dsl.document import Arc, Document, Step, Then, Tool
from noetl.dsl.document.identifiers import NOT_ASSIGNABLE, SCOPES
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path, quote_value
from noetl.dsl.read.report import ProblemReport
from noetl.facts.json import JsonMap
from noetl.net.model import Assignment, Demand, KindInfo, Scope, Task, Template

#: In the place of a step: a workbook task by itself, whose callers decide which names it sees.
WORKBOOK = ""
#: The keychain, whose templates see less than those of the workload. No step can be called so.
KEYCHAIN = "#keychain"
#: The policy that is asked behind the end of an execution.
RETRY = "#retry"


@dataclass(frozen=True, slots=True)
class TemplateUse:
    """A template and where it stands: in a step, the WORKBOOK, the KEYCHAIN, the RETRY, or
    (None) the workload. `also` are names that it sees besides those of its place."""

    path: Path
    template: Template
    step: str | None
    guard: bool = False
    also: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class InputDemand:
    """A task that expects inputs. `given` are those that it says itself, and whether with a value
    or as null; `own` are those among them that the workbook does not know."""

    path: Path
    step: str
    expects: tuple[Demand, ...]
    given: Mapping[str, bool]
    own: frozenset[str]


@dataclass(frozen=True, slots=True)
class CompiledCall:
    """A task of a step (or of the WORKBOOK) that was compiled, in the pipeline at `pipeline`.
    `parts` are where its mappings stand, the outermost first; `paths` where each key of its
    configuration does; `rules` where its policy does, or the `retry` that it is, if it is the
    document's."""

    step: str
    pipeline: Path
    path: Path
    kind: KindInfo
    task: Task
    parts: tuple[Path, ...]
    paths: Mapping[str, Path]
    rules: Path | None = None
    #: Whether it claims the rows of a loop.
    claims: bool = False


@dataclass(frozen=True, slots=True)
class ParallelWrite:
    """An assignment to `ctx.<name>` by iterations that run side by side, and the names that their
    loop reduces."""

    path: Path
    name: str
    reduced: frozenset[str]


@dataclass(slots=True)
class Notes:
    """All that compiling one document notes. `is_whole`: no step and no arc was left out because of
    an error, so that the net says what follows what."""

    uses: list[TemplateUse] = field(default_factory=list)
    calls: list[CompiledCall] = field(default_factory=list)
    expecting: list[InputDemand] = field(default_factory=list)
    parallel_writes: list[ParallelWrite] = field(default_factory=list)
    #: Where each arc stands, by its id.
    arcs: dict[str, Path] = field(default_factory=dict)
    is_whole: bool = True


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

    def use(
        self,
        path: Path,
        template: Template,
        step: str | None,
        *,
        guard: bool = False,
        also: frozenset[str] = frozenset(),
    ) -> None:
        """Remembers a template; all are checked at the end, when every name is known."""
        if isinstance(template, str | list | dict) and template:
            self.notes.uses.append(TemplateUse(path, template, step, guard, also))

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


def whole_number(context: Context, value: Template, at: Path, default: Template, hint: str = "") -> Template:
    """`value` where it is a whole number from 1 or a template; else `default`, with a problem."""
    if is_template(value) or (isinstance(value, int) and value >= 1):
        return value
    hint = hint or "write a whole number from 1, or a template"
    context.report.add(Code.VALUE, at, f"{at[-1]} is {quote_value(value)}", hint)
    return default


def as_number(value: int | str) -> int | str:
    """Digits in quotes are a number."""
    digits = isinstance(value, str) and value.strip().isdecimal() and len(value) < 9
    return int(value) if digits else value


@dataclass(frozen=True, slots=True)
class PipelineSite:
    """Where a pipeline stands. `specs` are those around its tasks, outermost first.

    `reduced` are the ctx names that the reducers of a parallel loop fold; None outside of such
    loops.
    """

    step: str | None
    specs: tuple[Path, ...] = ()
    iterating: bool = False
    reduced: frozenset[str] | None = None


def inputs_of(context: Context, part: Step | Arc, path: Path, step: str) -> dict[str, Template]:
    """The inputs that a step, or an arc of `step`, gives; `input` wins over `args`."""
    found: dict[str, Template] = {}
    for key, given in (("args", part.args or {}), ("input", part.input or {})):
        for name, value in given.items():
            context.use((*path, key, name), value, step)
        found |= given
    return found


def assignments(
    context: Context, part: Tool | Then | Step | Arc, path: Path, site: PipelineSite, bare: Scope = "local"
) -> tuple[Assignment, ...]:
    """All that a part assigns, in the order of the document. `bare` is what names without a scope
    mean: of steps and arcs, whose iterations are over, it is ctx."""
    made = []
    for name, value in (part.set or {}).items():
        at = (*path, "set", name)
        one = assignment(context, at, name, value, site, bare)
        if one is not None:
            context.use(at, value, site.step)
            made.append(one)
    return tuple(made)


def assignment(
    context: Context, at: Path, target: str, value: Template, site: PipelineSite, bare: Scope = "local"
) -> Assignment | None:
    """The assignment of `value` to `target`, which stands at `at`; None where it cannot be
    assigned."""
    head, dot, rest = target.partition(".")
    scope, name = (SCOPES[head], rest) if dot and head in SCOPES else (bare, target)
    fault = _fault(target, head if dot else "", scope, name, site)
    if fault is not None:
        context.report.add(Code.SCOPE, at, *fault, at_key=True)
        return None
    if scope == "ctx" and site.reduced is not None:
        context.notes.parallel_writes.append(ParallelWrite(at, name, site.reduced))
    return Assignment(scope, name, value)


def _fault(target: str, head: str, scope: Scope, name: str, site: PipelineSite) -> tuple[str, str] | None:
    if head in NOT_ASSIGNABLE:
        return (
            f"{quote_value(target)} cannot be assigned: {head} does not change",
            f"assign ctx.{name.partition('.')[2]}",
        )
    if not all(part.strip() for part in name.split(".")):
        return (
            f"{quote_value(target)} names nothing to assign",
            "write ctx.<name>, iter.<name>, step.<name> or a name",
        )
    if scope == "iter" and not site.iterating:
        return (
            f"{quote_value(target)} is assigned outside of an iteration",
            "assign ctx.<name> or step.<name> here",
        )
    return None
