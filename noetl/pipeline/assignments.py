"""`set`: evaluates what rules and tasks assign.

The values of one `set` all see the same names, so that their order in the document means nothing; a
task's own `set` sees what that of the rule has assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import assert_never

from noetl.errors import BadRequest
from noetl.expressions import evaluate_at
from noetl.expressions.scope import layer_names
from noetl.facts.events import CtxPatched, VariablesSet
from noetl.facts.json import Json
from noetl.facts.reference import assign_below
from noetl.facts.warnings import Warned
from noetl.net.model import Assignment
from noetl.pipeline.model import PipelinePorts, PipelineSpec
from noetl.pipeline.names import TemplateScope
from noetl.pipeline.patches import apply_patch, assign


@dataclass(slots=True)
class Changes:
    """What one boundary of a pipeline assigned, by scope: patches, and the writes that wait for
    reducers."""

    program: PipelineSpec
    ports: PipelinePorts
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

    def apply(self, assignments: Iterable[Assignment], sight: TemplateScope, place: str = "set") -> None:
        """Evaluates `assignments` and adds them; `place` is where they stand. Raises TemplateError
        and BadRequest."""
        for assignment, value in self.evaluate(assignments, sight, place):
            self.keep(assignment, value, sight)

    def evaluate(
        self, assignments: Iterable[Assignment], sight: TemplateScope, place: str = "set"
    ) -> Iterator[tuple[Assignment, Json]]:
        """`assignments`, each with its value; what became null is added to the warnings. Raises
        TemplateError."""
        if self.ports.now is not None:
            sight = layer_names(sight, {"now": self.ports.now})
        for one in assignments:
            at = f"{place}.{target(one)}"
            yield one, evaluate_at(at, one.value, sight, self.warnings, load=self.ports.load)

    def keep(self, assignment: Assignment, value: Json, sight: TemplateScope) -> None:
        """Adds that `assignment` has come to `value`. Raises BadRequest for one that a parallel
        loop cannot keep."""
        name, scope = assignment.name, assignment.scope
        if "." in name and scope in sight:
            # The whole is assigned where it is kept by reference: of that no part can change.
            store = apply_patch(sight[scope], getattr(self, scope))
            name, value = assign_below(store, name, value, self.ports.load, self.ports.is_large)
        match scope:
            case "local":
                self.local = assign(self.local, name, value)
            case "iter":
                self.iter = assign(self.iter, name, value)
            case "step":
                self.step = assign(self.step, name, value)
            case "ctx" if self.program.parallel_loop:
                if name not in self.program.reducers:
                    raise BadRequest(
                        f"ctx.{name} is assigned in a parallel loop that has no reducer for it; add "
                        f"`loop.spec.reduce: {{ctx.{name}: append}}` (or sum, min, max, merge, last), "
                        f"assign iter.{name}, or assign it once, when `event.name` is 'loop.done'."
                    )
                self.writes = (*self.writes, (name, value))
            case "ctx":
                self.ctx = assign(self.ctx, name, value)
            case _:
                assert_never(scope)


def target(assignment: Assignment) -> str:
    """What is assigned, as it is written and read."""
    return assignment.name if assignment.scope == "local" else f"{assignment.scope}.{assignment.name}"
