"""Tool calls, in all their forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, Tag

from noetl.dsl.document.base import (
    Assigned,
    Count,
    DocumentPart,
    Duration,
    Inputs,
    Key,
    OlderInputs,
    SetCtx,
    SetIter,
    expect,
    is_labelled,
    older,
)
from noetl.dsl.document.classic import SinkForm
from noetl.dsl.document.retries import RetryForm
from noetl.dsl.document.specs import CallSpec, LoopSpec, OutputForm, SelectForm, SizeThreshold
from noetl.net.model import ValueType


class Pagination(DocumentPart):
    """Calls an http task again for every page of an answer, and collects their items."""

    type: Literal["page", "offset", "cursor", "link"] | None = None
    """How the next page is asked for: by its number, by what was seen, by a mark in the body, by
    the Link header."""
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
    max_pages: Count = None
    """100 unless given; or a template. Then the result is `truncated`."""
    collect: Literal["append", "replace"] | None = None
    """All items (default), or those of the last page."""
    delay: Duration = None
    """Between pages: seconds, `500ms`, `10s`, or a template."""


class TaskLoop(DocumentPart):
    """Runs one task of a pipeline once for each element, in the same worker."""

    in_: Annotated[Any, Key(required=True)] = Field(None, alias="in")
    """Null is empty, a scalar or a mapping is one element."""
    iterator: Annotated[str | None, Key(required=True)] = None
    """What the element is called: `iter.<iterator>`, and bare."""
    spec: LoopSpec | None = None
    """Only `policy.failure` means something here."""


class NextCall(DocumentPart):
    """What differs in the request of the call that follows: mappings are merged deeply, everything
    else replaces."""

    when: bool | str | None = None
    """Over the names that the rules of a policy see; always unless given."""
    params: Annotated[Any, Key(example="{name: value}")] = None
    url: Any = None
    headers: Annotated[Any, Key(example="{Name: value}")] = None
    data: Any = None
    json_: Any = Field(None, alias="json")
    args: Inputs = None
    """Inputs."""


class Collect(DocumentPart):
    """What is kept of every call."""

    path: str | None = None
    """Where it stands in the response, for http in its body, such as `data.rows`; all of it unless
    given."""
    strategy: Literal["append", "replace", "merge"] | None = None
    """A list of all (default), the last one, or all merged: mappings deeply, lists one behind the
    other."""
    into: str | None = None
    """The name in ctx that it is assigned to; the `data` of the result unless given."""


class Repeat(DocumentPart):
    """Calls a task again after a success, as long as an entry of `next` holds."""

    next: Annotated[
        Annotated[
            Annotated[list[NextCall], Tag("<list>")] | Annotated[NextCall, Tag("<mapping>")],
            expect("a mapping or a list of mappings"),
        ]
        | None,
        Key(required=True),
    ] = None
    """The first one that holds is merged into the last request."""
    max: Count = None
    """All calls together, the first included: 100 unless given; or a template. Then the result is
    `truncated`."""
    delay: Duration = None
    """Between calls: seconds, `500ms`, `10s`, or a template."""
    backoff: Literal["none", "fixed", "linear", "exponential"] | None = None
    """How the delay grows with the number of calls: not, unless given."""
    collect: Collect | None = None
    each: ToolForm | None = None
    """Tasks that run after every call, with the inputs `data`, `result` and `response`."""


class CacheSpec(DocumentPart):
    """What a call came to stands in for equal calls of later executions."""

    ttl: Annotated[Duration, Key("duration", required=True)] = None
    """How long, from when the call was made: seconds, `10m`, `1d`, or a template; 0: not at all."""
    key: Any = None
    """A template of what tells calls apart that are written the same; unless given, their
    configuration and inputs do."""
    scope: Literal["playbook", "global"] | None = None
    """Calls of this playbook, in all of its versions (default), or of every playbook."""
    lock: bool | None = None
    """Whether a call waits for an equal one that is being made; both are made unless given."""
    allow_effects: bool | None = None
    """Needed where `effects` is `external`: what happened once does not happen again."""


CacheForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[int | float, Tag("<number>")]
    | Annotated[CacheSpec, Tag("<mapping>")],
    expect("a length of time, or a mapping with ttl"),
]


Demands = Annotated[
    Annotated[list[str], Tag("<list>")] | Annotated[dict[str, ValueType], Tag("<mapping>")],
    expect("a list of names or a mapping from names to types"),
]


class Assert(DocumentPart):
    """What a task needs, and what it leaves."""

    expects: Demands | None = None
    """Inputs that must be given and not null: names, or name → type. Names may be dotted."""
    returns: Demands | None = None
    """What its result must have; of http its body, or it."""


class Tool(DocumentPart):
    """One tool call. Keys that are not named here are the tool's own."""

    is_open: ClassVar[bool] = True
    rewritten: ClassVar[tuple[str, ...]] = (
        *("credential", "timeout_seconds", "pool", "task", "verify_ssl", "follow_redirects", "cmds"),
        *("chunk_size", "mapping", "result_ref"),
    )

    kind: str | None = None
    """Which tool is called."""
    name: str | None = None
    """What its result is called by."""
    label: str | None = None
    """The same as `name`, and wins."""
    desc: Any = None
    """What it is for."""
    spec: CallSpec | None = None
    effects: Literal["none", "idempotent", "external"] | None = None
    """What one more call changes: nothing, nothing beyond what the first one did, or something
    outside of NoETL. Unless given, what its kind says of its keys."""
    cache: CacheForm | None = None
    """Whether what a call came to stands in for equal calls later: for how long, or more."""
    input: Inputs = None
    """Values for the call, which its templates read."""
    args: Inputs = None
    with_: OlderInputs = older("with")
    assert_: Assert | None = Field(None, alias="assert")
    """What it needs and what it leaves, checked at every call."""
    pagination: Pagination | None = None
    repeat: Repeat | None = None
    """Calls it again, each time with what the last answer says."""
    retry: RetryForm = None
    """How often its call is tried: a number of attempts, or more. In the place of
    `spec.policy.rules`."""
    loop: TaskLoop | None = None
    """Runs it for each element of a collection."""
    set: Assigned = None
    """Variables that it assigns when it has ended."""
    set_ctx: SetCtx = older()
    set_iter: SetIter = older()
    output: OutputForm = None
    """How its result is kept: the same as `spec.result`, which wins."""
    sink: SinkForm | None = older()
    output_select: (
        Annotated[
            Annotated[list[SelectForm], Tag("<list>")] | Annotated[SizeThreshold, Tag("<mapping>")],
            expect("a list of paths, or a mapping with strategy: size_threshold"),
        ]
        | None
    ) = None
    """The same as `spec.result.select`, and wins."""


def _item(form: Mapping[str, Any]) -> str:
    return "<label>" if "kind" not in form and is_labelled(form) else "<mapping>"


ToolItem = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[dict[str, Tool], Tag("<label>")]
    | Annotated[Tool, Tag("<mapping>")],
    expect("a task (a mapping with kind)", _item),
]

ToolForm = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[ToolItem], Tag("<list>")]
    | Annotated[Tool, Tag("<mapping>")],
    expect("a mapping with kind, a list of tasks or the name of a workbook task"),
]
