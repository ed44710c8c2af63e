"""Steps, arcs and actions while a document is rewritten, and what all of that shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from noetl.dsl.dialects.parts import NewNames
from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Rewritten, Tree
from noetl.dsl.read.report import ProblemReport

#: As `when` has it: None and true always hold.
Guard: TypeAlias = bool | str | None
Mode = Literal["exclusive", "inclusive", "first"]
#: What the rules of a step are called.
RULES: Final = ("rules", "cases", "rule")


@dataclass(slots=True)
class Route:
    """An arc. `body` is the rest of it: what is passed and assigned."""

    path: Path
    step: str | None = None
    step_path: Path = ()
    when: Guard = None
    when_path: Path = ()
    body: dict[str, Tree] = field(default_factory=dict)

    def with_guard(self, when: Guard, path: Path) -> Route:
        """The same arc under another guard, which comes from `path`."""
        return Route(self.path, self.step, self.step_path, when, path, dict(self.body))

    def tree(self) -> Tree:
        made: dict[str, Tree] = {}
        if self.step is not None:
            made["step"] = Rewritten(self.step, self.step_path or self.path)
        if self.when is not None:
            made["when"] = Rewritten(self.when, self.when_path or self.path)
        return Rewritten({**made, **self.body}, self.path)


Choice = list[Route]


@dataclass(slots=True)
class NextRoutes:
    """What `next` says: `written` where it can stay as it is."""

    path: Path
    mode: Mode = "exclusive"
    choices: list[Choice] = field(default_factory=list)
    spec: dict[str, Tree] = field(default_factory=dict)
    written: Tree = None

    @property
    def routes(self) -> Iterator[Route]:
        return (route for choice in self.choices for route in choice)

    def copy(self) -> NextRoutes:
        """The same arcs once more: each copy is changed by itself."""
        choices = [
            [route.with_guard(route.when, route.when_path) for route in choice] for choice in self.choices
        ]
        return replace(self, choices=choices, spec=dict(self.spec))

    def mark_changed(self) -> None:
        self.written = None

    def tree(self) -> Tree:
        if self.written is not None:
            return Rewritten(self.written, self.path)
        arcs = [
            choice[0].tree() if len(choice) == 1 else [route.tree() for route in choice]
            for choice in self.choices
        ]
        if self.mode == "exclusive" and "mode" not in self.spec:
            spec = dict(self.spec)
        else:
            spec = {**self.spec, "mode": self.mode}
        return Rewritten({**({"spec": spec} if spec else {}), "arcs": arcs}, self.path)


# By identity: one is looked for among all others.
@dataclass(slots=True, eq=False)
class StepDraft:
    """A step; `body` are its other keys. One that is made up says by `path` what it is made
    from."""

    name: str
    path: Path
    body: dict[str, Tree]
    onward: NextRoutes | None = None
    name_path: Path = ()
    #: The step of the document that it is, or is made from.
    place: int = 0

    def lead(self) -> NextRoutes:
        """Its arcs, to be changed."""
        if self.onward is None:
            # Arcs that are put in must not make an end of one that has none.
            self.onward = NextRoutes(self.path, spec={"no_next_is_error": False})
        self.onward.mark_changed()
        return self.onward

    def tree(self) -> Tree:
        name = Rewritten(self.name, self.name_path or (*self.path, "step"))
        made = {"step": name, **self.body} if self.name else dict(self.body)
        if self.onward is not None:
            made["next"] = self.onward.tree()
        return Rewritten(made, self.path)


@dataclass(slots=True)
class Workflow:
    """The steps as they will be, in order."""

    names: NewNames
    drafts: list[StepDraft] = field(default_factory=list)

    def by_name(self, name: str) -> StepDraft | None:
        return next((draft for draft in self.drafts if draft.name == name), None)

    def behind(self, draft: StepDraft, added: list[StepDraft]) -> None:
        """Puts steps behind `draft`, and what was put there before."""
        at = self.drafts.index(draft) + 1
        self.drafts[at:at] = added

    def targets(self) -> dict[str, list[str]]:
        """Where each step leads."""
        return {
            draft.name: [route.step for route in draft.onward.routes if route.step] if draft.onward else []
            for draft in self.drafts
        }


@dataclass(frozen=True, slots=True)
class RuleAction:
    """A tool call. `body` is it as a task of a tool list; `name` is empty where it has none of its
    own."""

    name: str
    path: Path
    body: Mapping[str, Tree]
    #: Whether it has rules for its errors, or may get some from the workbook.
    ruled: bool = False

    def under(self, name: str) -> RuleAction:
        return replace(self, name=name)

    def entries(self, *keys: str) -> dict[str, Tree]:
        """The entries of the mapping that `keys` lead to; none where there is no such mapping."""
        value: Any = self.body
        for key in keys:
            value = names_of(value).get(key)
        return entries_at(value, (*self.path, *keys))

    def tree(self) -> Tree:
        """As an item of a tool list."""
        named_by = "label" if "label" in self.body or self.body.get("kind") == "workbook" else "name"
        if not self.name or self.body.get(named_by) == self.name:
            return Rewritten(dict(self.body), self.path)
        # Whatever its kind makes of `name`, `label` is what the task is called.
        body = {key: value for key, value in self.body.items() if key != "label"}
        return Rewritten({"label": self.name, **body}, self.path)


@dataclass(frozen=True, slots=True)
class Work:
    """The actions of a task, or one that stands in `run` itself (then without a name)."""

    name: str
    path: Path
    actions: tuple[RuleAction, ...]
    parallel: bool = False


Branch: TypeAlias = Route | Work


@dataclass(slots=True)
class RuleCourse:
    """`head` runs in the step itself; `tail` is where its router leads then."""

    head: tuple[RuleAction, ...]
    tail: NextRoutes | None


@dataclass(slots=True)
class RuleDraft:
    """A rule of a step, and the course that follows where `when` holds, after `assigned`."""

    when: Guard
    path: Path
    branches: Sequence[Branch]
    onward: NextRoutes | None
    assigned: dict[str, Tree]
    course: RuleCourse = field(default_factory=lambda: RuleCourse((), None))
    #: What its guard is called.
    key: str = "when"

    @property
    def when_path(self) -> Path:
        return (*self.path, self.key)

    @property
    def always(self) -> bool:
        return self.when is None or self.when is True

    @property
    def only_routes(self) -> bool:
        tail = self.course.tail
        if self.course.head or tail is None or len(tail.choices) != 1:
            return False
        return all(route.when is None and route.step is not None for route in tail.routes)


@dataclass(slots=True)
class RuleTasks:
    """The entries of `tasks` by name, and which of them were run."""

    works: dict[str, Work] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Gate:
    """A step that waits until nothing of what `branch` leads to can still be running."""

    name: str
    branch: str
    #: The step that sent the branch on its way: the branch ends where it begins again.
    source: str
    path: Path


@dataclass(slots=True)
class RewriteContext:
    """The document, and its workflow as it will be."""

    report: ProblemReport
    steps: set[str]
    book: set[str]
    tasks: RuleTasks
    workflow: Workflow
    #: Whether the executor has rules for all tasks.
    ruled: bool = False
    gates: list[Gate] = field(default_factory=list)


def entries_at(value: Any, path: Path) -> dict[str, Tree]:
    """The entries of the mapping `value`, which stands at `path`."""
    return {name: Rewritten(one, (*path, name)) for name, one in names_of(value).items()}


def names_of(value: Any) -> dict[str, Any]:
    """A mapping as a document has it, where null is an empty one."""
    return value if isinstance(value, dict) else {}
