"""Tests of a playbook: under its key `tests`, or in a file beside it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Tag

from noetl.dsl.document.base import DocumentPart, Key, Names, expect
from noetl.facts.outcome import ErrorKind


class StandInError(DocumentPart):
    """What a call fails with."""

    kind: ErrorKind = "internal"
    message: str = "The stand-in says so."
    type: str = ""
    retryable: bool | None = None
    """Whether trying again may help; unless given, as the kinds `connection`, `timeout`,
    `rate_limit` and `server_error` say."""
    status: Any = None
    """What the tool knows of the failure besides: `503` of an http answer."""


class StandIn(DocumentPart):
    """What stands in for a call: one of `result`, `recorded`, `error` and `run`."""

    result: Any = None
    """What the call yields. Templates in it see `args`, `config`, `attempt` and `iteration` of the
    call."""
    recorded: Any = None
    """The same, as an execution recorded it: templates in it are texts."""
    error: (
        Annotated[
            Annotated[str, Tag("<text>")] | Annotated[StandInError, Tag("<mapping>")],
            expect("a text or a mapping with kind and message"),
        ]
        | None
    ) = None
    extras: Names | None = None
    """The section that the outcome of its tool has: `{http: {status: 503}}`."""
    run: Literal[True] | None = None
    """The tool is really called."""


_One = Annotated[StandIn, Tag("<mapping>")]
_Item = Annotated[
    _One | Annotated[list[StandIn], Tag("<list>")],
    expect("a stand-in (a mapping with result, recorded, error or run) or a list of them"),
]
StandInForms = Annotated[
    _One | Annotated[list[_Item], Tag("<list>")],
    expect("a stand-in (a mapping with result, recorded, error or run) or a list of them"),
]


class ExpectedCall(DocumentPart):
    """One call: what it was handed."""

    args: Any = None
    config: Any = None
    """The keys of the task, rendered."""
    attempt: int | None = None


class Expectation(DocumentPart):
    """How an execution is to go. A mapping says of the keys that it has, a text that begins with
    `~ ` is a regular expression, everything else is equal."""

    status: Literal["completed", "failed", "partial", "waiting", "paused", "cancelled", "refused"] | None = (
        None
    )
    """`completed` unless `error` is given; `refused`: it was not started, as its inputs are
    wrong."""
    path: list[str] | None = None
    """The steps that ran, in the order in which they began."""
    not_run: list[str] | None = None
    """Steps that did not run."""
    calls: dict[str, list[ExpectedCall] | int] | None = None
    """By step, task or kind: all of its calls in their order, or how many there were."""
    steps: dict[str, Any] | None = None
    """By step: its `status`, `result`, `runs`, `error`, as `noetl run --json` has them."""
    result: Any = None
    ctx: Names | None = None
    error: Any = None
    """The error of the execution, or what its message is."""


class PlaybookTest(DocumentPart):
    """One test: an execution with stand-ins, and how it is to go."""

    name: Annotated[str | None, Key(required=True)] = None
    inputs: Names | None = None
    """The payload of the execution."""
    set: Names | None = None
    """Overrides, by dotted names, as `--set` has them."""
    env: dict[str, str] | None = None
    """The environment that templates see."""
    clock: str | None = None
    """When it begins: an instant. Delays pass at once, and move the clock."""
    patches: list[Names] | None = None
    """What somebody outside assigns to ctx while the execution waits, one after the other, by
    dotted names."""
    stand_ins: Annotated[dict[str, StandInForms] | None, Key(example="{step: {result: ...}}")] = None
    """By step, `step.task` or kind of tool; of a called playbook by `path:step`."""
    expect: Expectation | None = None


class TrialFile(DocumentPart):
    """Tests that stand beside their playbook."""

    playbook: str | None = None
    """The file of the playbook, from the directory of this one; unless given, that of the same
    name."""
    tests: Annotated[
        list[PlaybookTest] | None, Key(required=True, example="[{name: ..., expect: {...}}]")
    ] = None
