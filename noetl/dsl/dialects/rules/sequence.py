"""What one rule runs, in order: a pipeline in the step itself, then new steps, then named steps,
then `next`.

Named steps run one after another: between two of them stands a gate, a step without a tool whose
`auto` join waits for all that the branch before it can still send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from noetl.dsl.dialects.parts import reach
from noetl.dsl.dialects.rules.drafts import (
    Branch,
    Choice,
    Gate,
    NextRoutes,
    RewriteContext,
    Route,
    RuleAction,
    RuleCourse,
    StepDraft,
    Work,
    Workflow,
)
from noetl.dsl.dialects.rules.parsing import has_retry
from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Rewritten, Tree

#: Keys of a step that hold for the steps made of its tasks as well.
_SHARED: Final = ("input", "args", "spec")
#: What of a step's `spec` is about how it is entered.
_OF_ENTRY: Final = frozenset({"join"})


@dataclass(slots=True)
class SequenceBuilder:
    """Puts what is run behind the step `source`. Steps that it makes are in `added`."""

    context: RewriteContext
    source: StepDraft
    path: Path
    added: list[StepDraft] = field(default_factory=list)

    def arrange(self, branches: Sequence[Branch], onward: NextRoutes | None, *, parallel: bool) -> RuleCourse:
        """`onward` comes after all of it."""
        if parallel and len(branches) > 1:
            return RuleCourse((), self._side_by_side(branches, onward))
        works = [branch for branch in branches if isinstance(branch, Work)]
        tail = self._one_after_another([branch for branch in branches if isinstance(branch, Route)], onward)
        segments = list(_segments(works))
        head: tuple[RuleAction, ...] = ()
        if segments and not isinstance(first := segments[0], Work):
            head, segments = first, segments[1:]
        for segment in reversed(segments):
            entry = (
                self._fork(segment, tail) if isinstance(segment, Work) else [self._serial(segment, "", tail)]
            )
            tail = NextRoutes(self.path, choices=[entry])
        return RuleCourse(head, tail)

    def _one_after_another(self, routes: list[Route], onward: NextRoutes | None) -> NextRoutes | None:
        tail = onward
        for route in reversed(routes):
            if tail is None or not tail.choices:
                tail = NextRoutes(self.path, choices=[[route]])
                continue
            gate = self._gate(f"{self.source.name}.after.{route.step}", tail, route.path)
            self._waits_for(gate, route)
            tail = NextRoutes(self.path, choices=[[route, Route(route.path, gate.name, route.path)]])
        return tail

    def _side_by_side(self, branches: Sequence[Branch], onward: NextRoutes | None) -> NextRoutes:
        gate = None
        if onward is not None and onward.choices:
            gate = self._gate(f"{self.source.name}.after", onward, self.path)
        entry: Choice = []
        behind = (
            None
            if gate is None
            else NextRoutes(self.path, choices=[[Route(self.path, gate.name, self.path)]])
        )
        for branch in branches:
            match branch:
                case Route():
                    entry.append(branch)
                    if gate is not None:
                        self._waits_for(gate, branch)
                case Work(parallel=True):
                    entry.extend(self._fork(branch, behind))
                case Work():
                    entry.append(self._serial(branch.actions, branch.name, behind))
        if gate is not None and all(isinstance(branch, Route) for branch in branches):
            entry.append(Route(self.path, gate.name, self.path))
        return NextRoutes(self.path, choices=[entry])

    def _gate(self, name: str, tail: NextRoutes, path: Path) -> StepDraft:
        made = self._step(name, path, {}, tail)
        self.added.append(made)
        return made

    def _waits_for(self, gate: StepDraft, route: Route) -> None:
        self.context.gates.append(Gate(gate.name, route.step or "", self.source.name, route.path))

    def _serial(self, actions: Sequence[RuleAction], name: str, tail: NextRoutes | None) -> Route:
        path = actions[0].path if actions else self.path
        name = name or next((one.name for one in actions if one.name), "then")
        body: dict[str, Tree] = {**self._shared_keys(), "tool": [one.tree() for one in actions]}
        made = self._step(f"{self.source.name}.{name}", path, body, tail)
        self.added.append(made)
        return Route(path, made.name, path)

    def _fork(self, work: Work, tail: NextRoutes | None) -> Choice:
        """A step for each action, and one that all of them lead to. Its result, and ctx.<task>, is
        a mapping from the names of the actions to their results."""
        prefix = f"{self.source.name}.{work.name}"
        keep: dict[str, Tree] = {f"ctx.{work.name}": "{{ result }}"} if work.name else {}
        join = self._step(prefix, work.path, {"spec": {"join": "all"}, "set": keep}, tail)
        if join.onward is None:
            join.body["tool"] = {"kind": "noop"}
        entry: Choice = []
        for number, one in enumerate(work.actions):
            args: dict[str, Tree] = {one.name or f"task_{number}": "{{ result }}"}
            route = Route(one.path, join.name, one.path, body={"args": args})
            onward = NextRoutes(one.path, choices=[[route]])
            body: dict[str, Tree] = {**self._shared_keys(), "tool": [one.tree()]}
            made = self._step(f"{prefix}.{number}", one.path, body, onward)
            self.added.append(made)
            entry.append(Route(one.path, made.name, one.path))
        self.added.append(join)
        return entry

    def _shared_keys(self) -> dict[str, Tree]:
        """What the step says for all that it runs."""
        shared: dict[str, Any] = {key: self.source.body[key] for key in _SHARED if key in self.source.body}
        if has_retry(_plain(self.source.body.get("retry"))):
            shared["retry"] = self.source.body["retry"]
        if isinstance(spec := _plain(shared.get("spec")), dict):
            shared["spec"] = {key: value for key, value in spec.items() if key not in _OF_ENTRY}
            if isinstance(policy := spec.get("policy"), dict):
                shared["spec"]["policy"] = {key: value for key, value in policy.items() if key != "admit"}
        return {
            key: Rewritten(value, (*self.source.path, key))
            for key, value in shared.items()
            if value is not None
        }

    def _step(self, name: str, path: Path, body: dict[str, Tree], onward: NextRoutes | None) -> StepDraft:
        """A step like those that `source` is made of; `name` where no other one has it."""
        new = self.context.workflow.names.new(name)
        return StepDraft(new, path, body, onward and onward.copy(), path, self.source.place)


def _plain(value: Tree) -> Tree:
    while isinstance(value, Rewritten):
        value = value.value
    return value


def _segments(works: Sequence[Work]) -> Iterator[tuple[RuleAction, ...] | Work]:
    """Actions that run in one pipeline, and tasks whose actions run side by side."""
    serial: list[RuleAction] = []
    for work in works:
        if not work.parallel or len(work.actions) < 2:
            serial.extend(work.actions)
            continue
        if serial:
            yield tuple(serial)
            serial = []
        yield work
    if serial:
        yield tuple(serial)


def close_gates(context: RewriteContext) -> None:
    """Gives each gate an arc, which never fires, from wherever its branch may end: as long as the
    branch can reach its gate, the gate waits."""
    closing = _GateClosing(context.workflow)
    for gate in context.gates:
        closing.close(gate)


class _GateClosing:
    """Takes the gates of one rule from the last to the first: what comes after one comes after
    those before it as well, and is walked once for all of them."""

    def __init__(self, workflow: Workflow) -> None:
        self._drafts = {draft.name: draft for draft in workflow.drafts}
        self._targets = workflow.targets()
        self._gate: Gate | None = None
        #: The steps that come after the gate, and those before it that lead to it.
        self._later: dict[str, None] = {}
        self._reaching: set[str] = set()

    def close(self, gate: Gate) -> None:
        self._turn_to(gate)
        closed = ({gate.source}, self._reaching, self._later)
        branch = reach([gate.branch], self._targets, lambda name: not any(name in steps for steps in closed))
        for name in reversed(branch):
            if self._reaching.isdisjoint(self._targets[name]):
                choice = [Route(gate.path, gate.name, gate.path, when=False, when_path=gate.path)]
                self._drafts[name].lead().choices.insert(0, choice)
                self._targets[name].append(gate.name)
            self._reaching.add(name)

    def _turn_to(self, gate: Gate) -> None:
        before, self._gate = self._gate, gate
        if before is not None and (before.name, before.source) == (gate.name, gate.source):
            return
        starts = self._targets[gate.name]
        if before is None or before.source != gate.source or before.name not in starts:
            self._later = {}
        self._reaching = {gate.name}
        reach(starts, self._targets, lambda name: name not in (gate.source, gate.name), self._later)
