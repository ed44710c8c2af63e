"""The document model: what a playbook may look like, before it means anything.

Types only. Everything that must be there or must fit together is the compiler's business, so that one
wrong value never hides the other faults. Unknown keys are kept (`model_extra`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

#: Any JSON value in which strings may be templates.
Template = Any
Names = dict[str, Template]


class Part(BaseModel):
    """Base of all parts: strict types, unknown keys kept."""

    # Built when a document is first read, as one whole: each part by itself would cost every start 20 ms.
    model_config = ConfigDict(
        extra="allow", strict=True, frozen=True, use_attribute_docstrings=True, defer_build=True
    )


def _shape(value: object) -> str | None:
    match value:
        case str():
            return "<text>"
        case list():
            return "<list>"
        case Mapping() | BaseModel():
            return "<mapping>"
        case _:
            return None


def _expect(words: str) -> Discriminator:
    return Discriminator(_shape, custom_error_type="shape", custom_error_message=words)


# --- policies -------------------------------------------------------------------------------


class Then(Part):
    """What a rule does once it matches."""

    do: Literal["continue", "retry", "jump", "break", "fail"] | None = None
    """`continue` unless given."""
    attempts: int | str | None = None
    """All tries together, the first included (3 unless given); or a template."""
    backoff: Literal["none", "fixed", "linear", "exponential"] | None = None
    delay: int | float | str | None = None
    """Seconds, `500ms`, `10s`, `5m`, `2h`, `1d`, ISO 8601, or a template."""
    jitter: int | float | str | None = None
    """Seconds at most added to the delay."""
    to: str | None = None
    """The task that a jump goes to, or `previous`."""
    set: Names | None = None
    set_ctx: Names | None = None
    set_iter: Names | None = None


class Allow(Part):
    """The verdict of an admission rule."""

    allow: bool | None = None


class ElseThen(Part):
    """`else: {then: ...}`."""

    then: Then | None = None


class ElseAllow(Part):
    """`else: {then: {allow: ...}}`."""

    then: Allow | None = None


def _otherwise(value: object) -> str | None:
    if isinstance(value, bool):
        return "<flag>"
    if isinstance(value, Mapping):
        return "<then>" if "then" in value else "<direct>"
    return (
        ("<then>" if isinstance(value, ElseThen | ElseAllow) else "<direct>")
        if isinstance(value, Part)
        else None
    )


_OTHERWISE = Discriminator(_otherwise, custom_error_type="shape", custom_error_message="a mapping")


class PolicyRule(Part):
    """`{when, then}`, `{when, then, else}`, `{else: {then}}`, `{else: {do}}` or `{else: null, then}`."""

    when: bool | str | None = None
    then: Then | None = None
    else_: (
        Annotated[
            Annotated[bool, Tag("<flag>")]
            | Annotated[ElseThen, Tag("<then>")]
            | Annotated[Then, Tag("<direct>")],
            _OTHERWISE,
        ]
        | None
    ) = Field(None, alias="else")


class AdmitRule(Part):
    """The same forms as `PolicyRule`, with `{allow: true|false}` as what follows."""

    when: bool | str | None = None
    then: Allow | None = None
    else_: (
        Annotated[
            Annotated[bool, Tag("<flag>")]
            | Annotated[ElseAllow, Tag("<then>")]
            | Annotated[Allow, Tag("<direct>")],
            _OTHERWISE,
        ]
        | None
    ) = Field(None, alias="else")


class Admit(Part):
    """Whether a token may enter the step; the first rule that matches decides."""

    rules: list[AdmitRule] | None = None
    on_deny: Literal["pending", "skip", "fail"] | None = None


class Tolerate(Part):
    """How many iterations may fail."""

    count: int | None = None
    percent: int | float | None = None


class FailurePolicy(Part):
    """What one failure means for the rest."""

    mode: Literal["fail_fast", "best_effort"] | None = None
    tolerate: Tolerate | None = None


class Policy(Part):
    """Rules for tasks, admission for steps, failure for steps, loops and executions."""

    rules: list[PolicyRule] | None = None
    admit: Admit | None = None
    failure: FailurePolicy | None = None


# --- specs ------------------------------------------------------------------------------------


class SelectSpec(Part):
    """A part of a result under a name of its own."""

    path: str | None = None
    """`data.rows[0].id`; `$.` may stand before it."""
    as_: str | None = Field(None, alias="as")
    """Readable as `<task>.<as>`."""


SelectForm = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[SelectSpec, Tag("<mapping>")],
    _expect("a path or {path, as}"),
]


class ResultSpec(Part):
    """How a task's result is kept."""

    inline_bytes: int | None = None
    """Results whose JSON has more bytes are kept by reference."""
    inline: int | None = None
    """The same as `inline_bytes`, which wins."""
    select: list[SelectForm] | None = None
    """Parts that are kept with the reference, and read without a fetch."""
    scope: Literal["step", "execution", "permanent"] | None = None
    """How long it is kept: while its execution runs, as long as the execution is kept, or for good."""
    ttl: int | float | str | None = None
    """Seconds, `10m`, `2h`, `7d`: after that it may be gone, whatever the scope."""


class TaskSpec(Part):
    """How a task runs; what is left out comes from the loop, the step, the executor, the kind."""

    timeout: int | float | str | dict[str, Any] | None = None
    render: bool | None = None
    quote: bool | None = None
    isolation: Literal["inline", "process", "sandbox"] | None = None
    queue: str | None = None
    policy: Policy | None = None
    result: ResultSpec | None = None


class JoinSpec(Part):
    """How many tokens enable a step that several arcs lead to."""

    mode: Literal["auto", "all", "any", "first", "count"] | None = None
    count: int | None = None
    cancel_rest: bool | None = None


class StepSpec(TaskSpec):
    """How a step runs."""

    join: (
        Annotated[
            Annotated[Literal["auto", "all", "any", "first"], Tag("<text>")]
            | Annotated[JoinSpec, Tag("<mapping>")],
            _expect("auto, all, any, first or a mapping"),
        ]
        | None
    ) = None


class LoopSpec(TaskSpec):
    """How a loop runs."""

    mode: Literal["sequential", "parallel"] | None = None
    max_in_flight: int | str | None = None
    reduce: dict[str, Literal["append", "sum", "min", "max", "merge", "last"]] | None = None
    commit: Literal["each", "batch"] | None = None


class ExecutorSpec(TaskSpec):
    """How the execution runs."""

    entry_step: str | None = None
    final_step: str | None = None
    no_next_is_error: bool | None = None


class NextSpec(Part):
    """How a router chooses among its arcs."""

    mode: Literal["exclusive", "inclusive"] | None = None
    no_next_is_error: bool | None = None
    on_no_match: Literal["quiet", "error"] | None = None


# --- steps ------------------------------------------------------------------------------------


class Pagination(Part):
    """Calls an http task again for every page of an answer, and collects their items."""

    type: Literal["page", "offset", "cursor", "link"] | None = None
    """How the next page is asked for: by its number, by what was seen, by a mark in the body, by the Link header."""
    param: str | None = None
    """The query parameter: `page`, `offset` or `cursor` unless given."""
    start: int | str | None = None
    """The first number: 1 of pages, 0 of offsets; the first mark; or a template."""
    size: int | str | None = None
    """Items that a full page has: a shorter one is the last; or a template."""
    limit: int | str | None = None
    """The same for offsets, which grow by it; sent as `limit`."""
    path: str | None = None
    """Where the mark of the next page stands in the body, such as `meta.next`."""
    items: str | None = None
    """Where the list stands in the body, such as `data.rows`; the body itself unless given."""
    stop_when: bool | str | None = None
    """A template that says whether this page is the last, over `output` as in the task's `set`."""
    max_pages: int | str | None = None
    """100 unless given; or a template. Then the result is `truncated`."""
    collect: Literal["append", "replace"] | None = None
    """All items (default), or those of the last page."""
    delay: int | float | str | None = None
    """Between pages: seconds, `500ms`, `10s`, or a template."""


class Tool(Part):
    """One tool call. Keys that are not named here are the tool's own."""

    kind: str | None = None
    name: str | None = None
    label: str | None = None
    desc: Any = None
    spec: TaskSpec | None = None
    input: Names | None = None
    args: Names | None = None
    with_: Names | None = Field(None, alias="with")
    pagination: Pagination | None = None
    set: Names | None = None
    set_ctx: Names | None = None
    set_iter: Names | None = None
    output: Any = None
    output_select: list[SelectForm] | None = None
    """The same as `spec.result.select`, and wins."""


def _item(value: object) -> str | None:
    match value:
        case str():
            return "<text>"
        case Mapping() if (
            "kind" not in value and len(value) == 1 and isinstance(next(iter(value.values())), Mapping)
        ):
            return "<label>"
        case Mapping() | BaseModel():
            return "<mapping>"
        case _:
            return None


ToolItem = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[dict[str, Tool], Tag("<label>")]
    | Annotated[Tool, Tag("<mapping>")],
    Discriminator(_item, custom_error_type="shape", custom_error_message="a task (a mapping with kind)"),
]

ToolForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[ToolItem], Tag("<list>")]
    | Annotated[Tool, Tag("<mapping>")],
    _expect("a mapping with kind, a list of tasks or the name of a workbook task"),
]


class Arc(Part):
    """One way onwards."""

    step: str | None = None
    when: bool | str | None = None
    args: Names | None = None
    input: Names | None = None
    set: Names | None = None
    set_ctx: Names | None = None
    desc: Any = None


ArcForm = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Arc, Tag("<mapping>")],
    _expect("the name of a step or a mapping with step"),
]


class Router(Part):
    """`next: {spec: {mode}, arcs: [...]}`."""

    spec: NextSpec | None = None
    arcs: list[ArcForm] | None = None


def _next(value: object) -> str | None:
    if isinstance(value, Mapping):
        return "<arc>" if "step" in value and not {"arcs", "spec"} & value.keys() else "<router>"
    return "<arc>" if isinstance(value, Arc) else _shape(value)


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


class Loop(Part):
    """Runs the step's pipeline once for each element."""

    in_: Any = Field(None, alias="in")
    cursor: Any = None
    iterator: str | None = None
    mode: Literal["sequential", "parallel"] | None = None
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
    set_ctx: Names | None = None
    input: Names | None = None
    args: Names | None = None
    output: Any = None


# --- root -------------------------------------------------------------------------------------


class Metadata(Part):
    """What the catalog knows the playbook by."""

    name: str | None = None
    path: str | None = None
    version: str | int | float | None = None
    description: Any = None
    labels: Any = None
    tags: Any = None


class Executor(Part):
    """What runs the playbook, and how."""

    profile: Any = None
    version: Any = None
    requires: Any = None
    spec: ExecutorSpec | None = None


class NamedTask(Part):
    """An entry of a workbook as `{name, tool}`."""

    name: str | None = None
    desc: Any = None
    tool: Tool | None = None


def _entry(value: object) -> str | None:
    if isinstance(value, Mapping):
        return "<named>" if "tool" in value and "kind" not in value else "<tool>"
    return ("<named>" if isinstance(value, NamedTask) else "<tool>") if isinstance(value, Part) else None


WorkbookEntry = Annotated[
    Annotated[NamedTask, Tag("<named>")] | Annotated[Tool, Tag("<tool>")],
    Discriminator(_entry, custom_error_type="shape", custom_error_message="a task (a mapping with kind)"),
]

Workbook = Annotated[
    Annotated[dict[str, WorkbookEntry], Tag("<mapping>")] | Annotated[list[WorkbookEntry], Tag("<list>")],
    _expect("a mapping from names to tasks or a list of tasks"),
]

Keychain = Annotated[
    Annotated[dict[str, dict[str, Any]], Tag("<mapping>")] | Annotated[list[dict[str, Any]], Tag("<list>")],
    _expect("a list of mappings with name"),
]


class Document(Part):
    """A playbook."""

    api_version: Literal["noetl.io/v1", "noetl.io/v2", "noetl.io/v10"] | None = Field(
        None, alias="apiVersion"
    )
    kind: Literal["Playbook"] | None = None
    metadata: Metadata | None = None
    keychain: Keychain | None = None
    executor: Executor | None = None
    workload: dict[str, Template] | None = None
    workbook: Workbook | None = None
    workflow: list[Step] | None = None


def known_keys(model: type[Part]) -> tuple[str, ...]:
    """The keys that a part may have, as documents write them."""
    return tuple(field.alias or name for name, field in model.model_fields.items())
