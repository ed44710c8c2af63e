"""Steps while they are rewritten: each with the arcs that lead away from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Moved, Tree

#: As `when` has it: None and true always hold.
Guard: TypeAlias = bool | str | None
Mode = Literal["exclusive", "inclusive", "first"]


@dataclass(slots=True)
class Route:
    """An arc. `body` is the rest of it: what is handed over and assigned."""

    path: Path
    step: str | None = None
    step_path: Path = ()
    when: Guard = None
    when_path: Path = ()
    body: dict[str, Tree] = field(default_factory=dict)

    def guarded(self, when: Guard, path: Path) -> Route:
        """The same arc under another guard, which comes from `path`."""
        return Route(self.path, self.step, self.step_path, when, path, dict(self.body))

    def assign(self, names: dict[str, Tree]) -> None:
        """Assigns `names`, after what it assigns itself."""
        if names:
            self.body["set"] = {**(self.body.get("set") or {}), **names}

    def tree(self) -> Tree:
        made: dict[str, Tree] = {}
        if self.step is not None:
            made["step"] = Moved(self.step, self.step_path or self.path)
        if self.when is not None:
            made["when"] = Moved(self.when, self.when_path or self.path)
        return Moved({**made, **self.body}, self.path)


Choice = list[Route]


@dataclass(slots=True)
class Onward:
    """What `next` says: `written` where it can stay as it is."""

    path: Path
    mode: Mode = "exclusive"
    choices: list[Choice] = field(default_factory=list)
    spec: dict[str, Tree] = field(default_factory=dict)
    written: Tree = None

    @property
    def routes(self) -> Iterator[Route]:
        return (route for choice in self.choices for route in choice)

    def changed(self) -> None:
        self.written = None

    def tree(self) -> Tree:
        if self.written is not None:
            return Moved(self.written, self.path)
        arcs = [
            choice[0].tree() if len(choice) == 1 else [route.tree() for route in choice]
            for choice in self.choices
        ]
        if self.mode == "exclusive" and "mode" not in self.spec:
            spec = dict(self.spec)
        else:
            spec = {**self.spec, "mode": self.mode}
        return Moved({**({"spec": spec} if spec else {}), "arcs": arcs}, self.path)


# By identity: one is looked for among all others.
@dataclass(slots=True, eq=False)
class StepDraft:
    """A step; `body` are its other keys. One that is made up says by `path` what it is made
    from."""

    name: str
    path: Path
    body: dict[str, Tree]
    onward: Onward | None = None
    name_path: Path = ()
    #: The step of the document that it is, or is made from.
    place: int = 0

    def lead(self) -> Onward:
        """Its arcs, to be changed."""
        if self.onward is None:
            # Arcs that are put in must not make an end of one that has none.
            self.onward = Onward(self.path, spec={"no_next_is_error": False})
        self.onward.changed()
        return self.onward

    def tree(self) -> Tree:
        name = Moved(self.name, self.name_path or (*self.path, "step"))
        made = {"step": name, **self.body} if self.name else dict(self.body)
        if self.onward is not None:
            made["next"] = self.onward.tree()
        return Moved(made, self.path)


@dataclass(slots=True)
class Workflow:
    """The steps as they will be, in order; `taken` are all their names."""

    drafts: list[StepDraft] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def fresh(self, name: str) -> str:
        """`name`, or the like where a step is called so."""
        number = 2
        found = name
        while found in self.taken:
            found = f"{name}.{number}"
            number += 1
        self.taken.add(found)
        return found

    def by_name(self, name: str) -> StepDraft | None:
        return next((draft for draft in self.drafts if draft.name == name), None)

    def behind(self, draft: StepDraft, added: list[StepDraft]) -> None:
        """Puts steps behind `draft`, and what was put there before."""
        at = self.drafts.index(draft) + 1
        self.drafts[at:at] = added

    def reached(self, starts: Collection[str], closed: Collection[str]) -> list[str]:
        """The steps that are reached from `starts` (which are among them), the nearest first; those
        in `closed` are not entered."""
        steps = {draft.name: draft for draft in self.drafts}
        found: dict[str, None] = {}
        waiting = deque(name for name in starts if name in steps and name not in closed)
        while waiting:
            name = waiting.popleft()
            if name in found:
                continue
            found[name] = None
            onward = steps[name].onward
            routes = onward.routes if onward is not None else iter(())
            waiting.extend(
                route.step
                for route in routes
                if route.step and route.step in steps and route.step not in closed
            )
        return list(found)


def names_of(value: Any) -> dict[str, Any]:
    """A mapping as a document has it, where null is an empty one."""
    return value if isinstance(value, dict) else {}
