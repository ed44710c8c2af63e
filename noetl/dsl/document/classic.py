"""The keys of the classic dialect: `case`, `sink` and `retry`, which `noetl.dsl.dialects`
rewrites."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field, Tag

from noetl.dsl.document.arcs import Destination
from noetl.dsl.document.base import (
    Assigned,
    Count,
    DocumentPart,
    Duration,
    Inputs,
    OlderInputs,
    SetCtx,
    expect,
    older,
)
from noetl.dsl.document.specs import CallSpec


class Classic(DocumentPart):
    """Base of the parts that only this dialect has."""


class Sink(DocumentPart):
    """A task that takes a result as `data`: the tool mapping itself, or below `tool`. Other keys
    are the tool's own."""

    is_open: ClassVar[bool] = True

    tool: (
        Annotated[
            Annotated[str, Tag("<text>")] | Annotated[Sink, Tag("<mapping>")],
            expect("a mapping with kind or the name of a kind"),
        ]
        | None
    ) = None
    """The tool mapping, or its kind; keys beside it are laid over it."""
    kind: str | None = None
    name: str | None = None
    label: str | None = None
    spec: CallSpec | None = None
    input: Inputs = None
    args: Inputs = None
    with_: OlderInputs = older("with")


SinkForm: TypeAlias = Annotated[
    Annotated[list[Sink], Tag("<list>")] | Annotated[Sink, Tag("<mapping>")],
    expect("a tool mapping, {tool: {kind, ...}} or a list of such"),
]


class Target(Destination, Classic):
    """A step that a case leads to; its `when` must hold besides the rule's own guard."""


TargetForm: TypeAlias = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Target, Tag("<mapping>")],
    expect("the name of a step or a mapping with step"),
]


class CaseThen(Classic):
    """What a rule does once its guard holds."""

    next: (
        Annotated[
            Annotated[str, Tag("<text>")]
            | Annotated[list[TargetForm], Tag("<list>")]
            | Annotated[Target, Tag("<mapping>")],
            expect("the name of a step, a mapping with step or a list of them"),
        ]
        | None
    ) = None
    sink: SinkForm | None = None
    set: Assigned = None
    set_ctx: SetCtx = older()


class CaseRule(Classic):
    """`{when, then}`; without `when` it always acts."""

    when: bool | str | None = None
    then: (
        Annotated[
            Annotated[list[CaseThen], Tag("<list>")] | Annotated[CaseThen, Tag("<mapping>")],
            expect("a mapping with next, sink or set, or a list of such"),
        ]
        | None
    ) = None


class RetryCall(Classic):
    """What the next call has other than the last one."""

    params: Any = None
    url: Any = None
    headers: Any = None
    args: Inputs = None
    data: Any = None
    json_: Any = Field(None, alias="json")


class RetryCollect(Classic):
    """What is gathered over all calls."""

    strategy: Literal["append", "replace", "merge"] | None = None
    path: str | None = None
    """From the response (for http from its body); the whole of it unless given."""
    into: str | None = None
    """The variable that takes it; `data` of the result unless given."""


class PerIteration(Classic):
    """What follows every call."""

    sink: SinkForm | None = None


class RetryThen(Classic):
    """How often and how soon; with `next_call` it is a success that is repeated."""

    max_attempts: Count = None
    """All calls together, the first included."""
    attempts: Count = None
    delay: Duration = None
    initial_delay: Duration = None
    max_delay: Duration = None
    backoff: Literal["none", "fixed", "linear", "exponential"] | int | float | None = None
    """A number is a fixed `delay`."""
    backoff_seconds: int | float | str | None = None
    """The same as `delay`, which wins."""
    backoff_multiplier: int | float | None = None
    jitter: Duration = None
    next_call: RetryCall | None = None
    collect: RetryCollect | None = None
    per_iteration: PerIteration | None = None


class Retry(RetryThen):
    """`{when, then}`, or all in one mapping."""

    when: bool | str | None = None
    retry_when: bool | str | None = None
    stop_when: bool | str | None = None
    retry_on: list[str] | str | None = None
    """Kinds of errors; one of them, or of `retry_on_status`, has to be there besides `when`."""
    retry_on_status: list[int] | int | None = None
    """HTTP status codes."""
    then: RetryThen | None = None
