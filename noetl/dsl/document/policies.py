"""Rules of tasks, admission of steps, and what failure means."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, Tag

from noetl.dsl.document.base import (
    Assigned,
    Count,
    DocumentPart,
    Duration,
    Key,
    SetCtx,
    SetIter,
    expect,
    older,
)
from noetl.facts.limits import OnFull
from noetl.net.model import Spelling


class Then(DocumentPart):
    """What a rule does once it matches."""

    # What stands below `else` may be what follows itself.
    rewritten: ClassVar[tuple[str, ...]] = ("then",)

    do: Literal["continue", "retry", "jump", "break", "fail"] | None = None
    """`continue` unless given."""
    attempts: Count = None
    """The most tries, the first included (3 unless given); or a template."""
    count: Literal["all", "alike"] | None = None
    """Which tries `attempts` bounds: all of them (unless given), or those that ended alike: all
    that went well, or those that failed since."""
    backoff: Literal["none", "fixed", "linear", "exponential"] | None = None
    delay: Duration = None
    """Seconds, `500ms`, `10s`, `5m`, `2h`, `1d`, ISO 8601, or a template."""
    jitter: Duration = None
    """Seconds at most added to the delay."""
    to: Annotated[str | None, Key(required_if=("do", "jump"))] = None
    """The task that a jump goes to, or `previous`."""
    set: Assigned = None
    set_ctx: SetCtx = older()
    set_iter: SetIter = older()


class Allow(DocumentPart):
    """The verdict of an admission rule."""

    rewritten: ClassVar[tuple[str, ...]] = ("then",)

    allow: bool | None = None


class ElseThen(DocumentPart):
    """`else: {then: ...}`."""

    then: Then | None = None


class ElseAllow(DocumentPart):
    """`else: {then: {allow: ...}}`."""

    then: Allow | None = None


_OTHERWISE = expect("a mapping", lambda form: "<then>" if "then" in form else "<direct>")


class PolicyRule(DocumentPart):
    """`{when, then}`, `{when, then, else}`, `{else: {then}}`, `{else: {do}}` or `{else: null,
    then}`."""

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


class AdmitRule(DocumentPart):
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


class Admit(DocumentPart):
    """Whether a token may enter the step; the first rule that matches decides."""

    rules: list[AdmitRule] | None = None
    on_deny: Literal["pending", "skip", "pass", "fail"] | None = None
    mode: Annotated[Any, Spelling(values=("exclusive",))] = None
    """`exclusive`, without effect: the first rule that matches decides."""


class Tolerate(DocumentPart):
    """How many iterations may fail."""

    count: int | None = None
    percent: int | float | None = None


class FailurePolicy(DocumentPart):
    """What one failure means for the rest."""

    mode: Literal["fail_fast", "best_effort", "run_all"] | None = None
    tolerate: Tolerate | None = None


class Defaults(DocumentPart):
    """What holds unless something nearer says so: another way to write it in the spec."""

    timeout_s: Annotated[int | float | str | None, Spelling("../../timeout")] = None
    """The same as `timeout` of the spec, which wins."""


class ExecutionRetry(DocumentPart):
    """Whether a whole execution that has failed is retried by itself: `noetl execution retry`."""

    attempts: Count = None
    """All executions together, the first included (3 unless given); or a template."""
    backoff: Literal["none", "fixed", "linear", "exponential"] | None = None
    delay: Duration = None
    """Seconds, `500ms`, `10s`, `5m`, `2h`, `1d`, ISO 8601, or a template."""
    when: bool | str | None = None
    """A guard over `error`, `attempt`, `workload` and `ctx`; without one every failure is
    retried."""
    allow_effects: bool | None = None
    """Calls that may have had effects outside of NoETL are made again; else, where some would be,
    the failure stands."""


class ConcurrencySpec(DocumentPart):
    """How many of those with the same key run at once."""

    limit: Annotated[int | float | str | None, Key(required=True, example="3")] = None
    """A whole number from 1, or a template."""
    key: str | int | float | None = None
    """What is bounded: all that say the same key, in whatever playbook. A text or a template;
    without one the path of the playbook and the name of the step."""
    on_full: OnFull | None = None
    """What becomes of one more: it waits (`wait`, the default), is skipped, fails, or the oldest
    that runs is cancelled for it (`cancel_oldest`)."""


ConcurrencyForm = Annotated[
    Annotated[ConcurrencySpec, Tag("<mapping>")] | Annotated[list[ConcurrencySpec], Tag("<list>")],
    expect("a mapping with limit, or a list of such"),
]


class RateSpec(DocumentPart):
    """How many of those with the same key begin in any time of a length."""

    limit: Annotated[int | float | str | None, Key(required=True, example="10")] = None
    """A whole number from 1, or a template."""
    per: Annotated[Duration, Key(required=True, example="1m")] = None
    """Seconds, `10s`, `1m`, `1h`, ISO 8601, or a template."""
    key: str | int | float | None = None
    """As of `concurrency`; rates have keys of their own."""


class Policy(DocumentPart):
    """Rules for tasks, admission for steps, failure for steps, loops and executions, retries of
    executions."""

    place: ClassVar[str] = "policy:"

    rules: list[PolicyRule] | None = None
    admit: Admit | None = None
    failure: FailurePolicy | None = None
    retry: ExecutionRetry | None = None
    # What it says is rewritten by itself; what is left of it means nothing.
    defaults: Annotated[Defaults | None, Spelling(values=({},))] = None
    """`timeout_s` in it is `timeout` of the spec."""
    exec: Annotated[Any, Spelling(values=("local", "distributed"))] = None
    """`local` or `distributed`, without effect: iterations run on any worker."""
    results: Annotated[Any, Spelling()] = None
    """No effect: results are in the order of the items."""
