"""Steps and their loops."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from noetl.dsl.document.arcs import NextForm
from noetl.dsl.document.base import Assigned, Inputs, Key, Names, Part, SetCtx, older
from noetl.dsl.document.classic import CaseRule, RetryForm, SinkForm
from noetl.dsl.document.rules import Rule, RunForm
from noetl.dsl.document.specs import ClaimSpec, LoopSpec, OutputForm, StepSpec
from noetl.dsl.document.tools import ToolForm


class Cursor(Part):
    """Where rows are claimed. Keys that are not named here are those of the kind: `auth`,
    `database`..."""

    is_open: ClassVar[bool] = True

    kind: str | None = None
    claim: str | None = None
    """The statement: it marks rows as taken and returns them."""
    params: Inputs = None
    """What `:name` in the claim stands for, besides `:max_rows`, `:execution_id`, `:run` and
    `:worker`."""
    spec: ClaimSpec | None = None


class Loop(Part):
    """Runs the step's pipeline once for each element."""

    in_: Annotated[Any, Key(required_unless="cursor")] = Field(None, alias="in")
    cursor: Cursor | None = None
    """In the place of `in`: rows of a database, claimed until none are left."""
    iterator: Annotated[str | None, Key(required=True)] = None
    mode: Annotated[Literal["sequential", "parallel", "cursor"] | None, Key(instead="spec: {mode: ...}")] = (
        older()
    )
    spec: LoopSpec | None = None


class Step(Part):
    """One step of the workflow."""

    step: Annotated[str | None, Key(required=True)] = None
    desc: Any = None
    spec: StepSpec | None = None
    loop: Annotated[Loop | None, Key(example="{in: ..., iterator: item}")] = None
    tool: ToolForm | None = None
    next: NextForm | None = None
    set: Assigned = None
    set_ctx: SetCtx = older()
    input: Inputs = None
    args: Inputs = None
    output: OutputForm = None
    """How the results of its tasks are kept: the same as `spec.result`, which wins."""
    iteration: str | None = None
    """The name in ctx of the scope of the iteration that the step is a part of: `iter` in its
    templates."""
    vars: Names | None = older()
    case: list[CaseRule] | None = older()
    sink: SinkForm | None = older()
    retry: RetryForm | None = older()
    rules: list[Rule] | None = older()
    cases: list[Rule] | None = older()
    run: RunForm | None = older()
    parallel: bool | None = older()
    pass_: bool | str | None = older("pass")
    end_loop: str | None = older()
    result: Names | None = older()
