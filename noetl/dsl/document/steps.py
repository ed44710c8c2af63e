"""Steps: their loops, their tools, and where they lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from noetl.dsl.document.base import Names, Part, expect, older, shape_of
from noetl.dsl.document.specs import ClaimSpec, LoopSpec, NextSpec, OutputForm, StepSpec
from noetl.dsl.document.tools import ToolForm


class Arc(Part):
    """One way onwards; without a step it only assigns."""

    step: str | None = None
    when: bool | str | None = None
    args: Names | None = None
    input: Names | None = None
    set: Names | None = None
    set_ctx: Names | None = older()
    desc: Any = None


ArcForm = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Arc, Tag("<mapping>")],
    expect("the name of a step or a mapping with step"),
]


ChoiceForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[ArcForm], Tag("<list>")]
    | Annotated[Arc, Tag("<mapping>")],
    expect("the name of a step, a mapping with step or a list of them"),
]


class Router(Part):
    """`next: {spec: {mode}, arcs: [...]}`; arcs that stand in a list of their own are one choice."""

    spec: NextSpec | None = None
    arcs: list[ChoiceForm] | None = None


def _next(value: object) -> str | None:
    if isinstance(value, Mapping):
        return "<arc>" if "step" in value and not {"arcs", "spec"} & value.keys() else "<router>"
    return "<arc>" if isinstance(value, Arc) else shape_of(value)


NextForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[ArcForm], Tag("<list>")]
    | Annotated[Arc, Tag("<arc>")]
    | Annotated[Router, Tag("<router>")],
    Discriminator(
        _next,
        custom_error_type="shape",
        custom_error_message="a router with arcs, a list or the name of a step",
    ),
]


class Cursor(Part):
    """Where rows are claimed. Keys that are not named here are those of the kind: `auth`, `database`..."""

    kind: str | None = None
    claim: str | None = None
    """The statement: it marks rows as taken and returns them."""
    params: Names | None = None
    """What `:name` in the claim stands for, besides `:max_rows`, `:execution_id`, `:run` and `:worker`."""
    spec: ClaimSpec | None = None


class Loop(Part):
    """Runs the step's pipeline once for each element."""

    in_: Any = Field(None, alias="in")
    cursor: Cursor | None = None
    """In the place of `in`: rows of a database, claimed until none are left."""
    iterator: str | None = None
    mode: Literal["sequential", "parallel"] | None = older()
    spec: LoopSpec | None = None


class Step(Part):
    """One step of the workflow."""

    step: str | None = None
    desc: Any = None
    spec: StepSpec | None = None
    loop: Loop | None = None
    tool: ToolForm | None = None
    next: NextForm | None = None
    set: Names | None = None
    set_ctx: Names | None = older()
    input: Names | None = None
    args: Names | None = None
    output: OutputForm = None
    """How the results of its tasks are kept: the same as `spec.result`, which wins."""
