"""`set`: what rules and tasks assign, evaluated.

The values of one `set` all see the same names, so that their order in the document means nothing; a
task's own `set` sees what that of the rule has assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

from noetl.errors import BadRequest
from noetl.expressions import evaluate_at
from noetl.expressions.scope import layered
from noetl.facts.events import CtxPatched, VariablesSet
from noetl.facts.json import Json
from noetl.facts.reference import assigned_below
from noetl.facts.warnings import Warned
from noetl.net.model import Assignment
from noetl.pipeline.model import PipelinePorts, Program
from noetl.pipeline.names import TemplateScope
from noetl.pipeline.patches import applied, assign


@dataclass(slots=True)
class Changes:
    """What one boundary assigned, by scope: patches, and the writes that wait for reducers."""

    local: dict[str, Json] = field(default_factory=dict)
    iter: dict[str, Json] = field(default_factory=dict)
    step: dict[str, Json] = field(default_factory=dict)
    ctx: dict[str, Json] = field(default_factory=dict)
    writes: tuple[tuple[str, Json], ...] = ()
    #: Of values that came out undefined and are null now.
    warnings: list[Warned] = field(default_factory=list)

    def facts(self, task: str) -> list[VariablesSet | CtxPatched]:
        """The facts that record the changes, in their order; none where nothing was assigned."""
        facts: list[VariablesSet | CtxPatched] = []
        if self.local or self.iter or self.step or self.writes:
            facts.append(VariablesSet(task, self.local, self.iter, self.step, self.writes))
        if self.ctx:
            facts.append(CtxPatched(self.ctx, "task"))
        return facts

    def assign(self, program: Program, assignment: Assignment, value: Json) -> None:
        """Adds one assignment. Raises BadRequest for one that a parallel loop cannot keep."""
        name = assignment.name
        match assignment.scope:
            case "local":
                self.local = assign(self.local, name, value)
            case "iter":
                self.iter = assign(self.iter, name, value)
            case "step":
                self.step = assign(self.step, name, value)
            case "ctx" if program.parallel_loop:
                self.writes = (*self.writes, (_reduced(program, name), value))
            case "ctx":
                self.ctx = assign(self.ctx, name, value)
            case _:
                assert_never(assignment.scope)


def apply(
    changes: Changes,
    program: Program,
    assignments: Iterable[Assignment],
    sight: TemplateScope,
    hands: PipelinePorts,
    place: str = "set",
) -> None:
    """Evaluates `assignments` and adds them to `changes`; `place` is where they stand. Raises
    TemplateError and BadRequest."""
    for assignment, value in evaluated(changes, assignments, sight, hands, place):
        keep(changes, program, assignment, value, sight, hands)


def evaluated(
    changes: Changes,
    assignments: Iterable[Assignment],
    sight: TemplateScope,
    hands: PipelinePorts,
    place: str = "set",
) -> Iterator[tuple[Assignment, Json]]:
    """`assignments`, each with its value; what became null is added to the warnings. Raises
    TemplateError."""
    if hands.now is not None:
        sight = layered(sight, {"now": hands.now})
    for assignment in assignments:
        at = f"{place}.{target(assignment)}"
        yield assignment, evaluate_at(at, assignment.value, sight, changes.warnings, load=hands.load)


def keep(
    changes: Changes,
    program: Program,
    assignment: Assignment,
    value: Json,
    sight: TemplateScope,
    hands: PipelinePorts,
) -> None:
    """Adds to `changes` that `assignment` has come to `value`. Raises BadRequest."""
    changes.assign(program, *_whole(changes, assignment, value, sight, hands))


def target(assignment: Assignment) -> str:
    """What is assigned, as it is written and read."""
    return assignment.name if assignment.scope == "local" else f"{assignment.scope}.{assignment.name}"


def _whole(
    changes: Changes, assignment: Assignment, value: Json, sight: TemplateScope, hands: PipelinePorts
) -> tuple[Assignment, Json]:
    """The assignment; of the whole where it would change a part of what the log keeps by
    reference."""
    scope = assignment.scope
    if "." not in assignment.name or scope not in sight:
        return assignment, value
    store = applied(sight[scope], getattr(changes, scope))
    name, value = assigned_below(store, assignment.name, value, hands.load, hands.is_large)
    return replace(assignment, name=name), value


def _reduced(program: Program, name: str) -> str:
    if name in program.reducers:
        return name
    raise BadRequest(
        f"ctx.{name} is assigned in a parallel loop that has no reducer for it; add "
        f"`loop.spec.reduce: {{ctx.{name}: append}}` (or sum, min, max, merge, last), or assign iter.{name}."
    )
