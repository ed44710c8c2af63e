"""kind: wait - waits for time, a signal, or a condition, without a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from noetl.errors import ToolError
from noetl.facts.durations import seconds
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean
from noetl.facts.waits import Awaited, LaterGuard, SoughtSignal, Wait
from noetl.net.model import Spelling
from noetl.pipeline.model import Call
from noetl.tools.kit.base import Tool
from noetl.tools.kit.declaration import ToolConfig, ToolDeclaration
from noetl.tools.wait_approval import ApprovalConfig

#: Longest name of a signal, and of one of several things that are waited for.
LONGEST_NAME: Final = 128
#: How many things one task may wait for.
MOST: Final = 100

#: As it is written a template, and at the call `{when, names}`.
Guard = Annotated[str | bool | dict[str, Any], Field()]


class SignalConfig(BaseModel):
    """Which signals are meant."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=LONGEST_NAME, description="What the signal is called.")
    match: dict[str, Any] = Field(
        default_factory=dict, description="What its payload has to hold: dotted name → value."
    )
    when: Guard | None = Field(
        default=None, description="A guard over `signal` (`signal.payload`, `signal.by`) and ctx."
    )
    correlate: str | int | None = Field(
        default=None, description="The value that a signal to whoever waits for it names."
    )


class CallbackConfig(BaseModel):
    """A call of the task's own address, `callback.<task>.url`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Branch(BaseModel):
    """One thing to wait for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    timer: int | float | str | None = Field(default=None, description="A time from now on: `10m`.")
    until: str | None = Field(default=None, description="An instant: ISO 8601.")
    signal: str | SignalConfig | None = Field(
        default=None, description="A signal: its name, or `{name, match, when, correlate}`."
    )
    condition: Guard | None = Field(default=None, description="A guard over ctx.")
    approval: ApprovalConfig | None = Field(
        default=None,
        description="People: `{by, count, message, show, form, four_eyes, expires, remind}`.",
    )
    callback: CallbackConfig | None = Field(
        default=None, description="A call of `callback.<task>.url`: `{}`."
    )

    def given(self) -> list[str]:
        return [name for name in _SINGLE if getattr(self, name) is not None]


#: What one can wait for.
_SINGLE: Final = ("timer", "until", "signal", "condition", "approval", "callback")


class WaitConfig(ToolConfig):
    """Configuration of a wait task."""

    timer: int | float | str | None = Field(
        default=None, description="How long: seconds, `500ms`, `10m`, `2h`, `1d`, ISO 8601."
    )
    until: str | None = Field(
        default=None, description="An instant: ISO 8601 (UTC where it names no time zone)."
    )
    signal: str | SignalConfig | None = Field(
        default=None,
        description="A signal: its name, or `{name, match, when, correlate}`. `match` is what its payload "
        "has to hold (dotted name → value), `when` a guard over `signal` and ctx, `correlate` a value by "
        "which it is found without the execution's id.",
    )
    condition: Guard | None = Field(
        default=None, description="A guard over ctx, asked at once and whenever ctx changes."
    )
    approval: ApprovalConfig | None = Field(
        default=None,
        description="What people have to approve: `{by, count, message, show, form, four_eyes, expires, "
        "remind}`. `by` names them and their groups (`group:ops`), `form` is declared like `inputs`.",
    )
    callback: CallbackConfig | None = Field(
        default=None,
        description="The first call of the address `callback.<task>.url`, which an earlier task of the same "
        "step hands to a service: `{}`.",
    )
    any: dict[str, Branch] | list[Branch] | None = Field(
        default=None, description="Name → one of the keys above (or a list of them): the first that comes."
    )
    all: dict[str, Branch] | list[Branch] | None = Field(
        default=None, description="The same, until all have come."
    )

    @model_validator(mode="after")
    def _check_one(self) -> WaitConfig:
        given = [name for name in _KEYS if getattr(self, name) is not None]
        if len(given) > 1:
            several = " and ".join(given)
            raise ValueError(f"it waits for one thing, not for {several}: put them below `any` or `all`")
        for key in ("any", "all"):
            _check_branches(key, getattr(self, key))
        return self


_KEYS: Final = (*_SINGLE, "any", "all")


def _check_branches(key: str, branches: Mapping[str, Branch] | Sequence[Branch] | None) -> None:
    if branches is None:
        return
    if not 1 <= len(branches) <= MOST:
        raise ValueError(f"`{key}` has {len(branches)} things to wait for; from 1 to {MOST} are possible")
    for name, branch in _named(branches):
        given = branch.given()
        if len(given) != 1:
            found = " and ".join(given) or "nothing"
            known = f"{', '.join(_SINGLE[:-1])} and {_SINGLE[-1]}"
            raise ValueError(f"`{key}.{name}` is one of {known}, not {found}")


def _named(branches: Mapping[str, Branch] | Sequence[Branch]) -> Iterator[tuple[str, Branch]]:
    """Those of a list are called by what they wait for: the signal's name, or the key."""
    if isinstance(branches, Mapping):
        yield from branches.items()
        return
    taken: set[str] = set()
    for branch in branches:
        key = next(iter(branch.given()), "nothing")
        signal = branch.signal
        base = key if signal is None else signal if isinstance(signal, str) else signal.name
        name = next(one for one in (base, *(f"{base}_{n}" for n in range(2, MOST + 2))) if one not in taken)
        taken.add(name)
        yield name, branch


class WaitForIt(Tool):
    """Waits for a time, an instant, a signal, a condition over ctx, or the approval of people, or
    for the first or all of several, while no worker is held. What a wait means:
    [waits](../reference/waits.md)."""

    declaration = ToolDeclaration(
        kind="wait",
        # It only says what it waits for; every deployment serves this queue.
        queue="python",
        sections=(),
        effects="none",
        description="Waits for time, a signal, a condition or people, without holding a worker.",
        result="""
            Of a time `{at}`, when it was due; of a signal `{signal, payload, by, at, id}`; of a condition
            `{}`; of an approval `{by, at, values, answers}`; of a call of its address `{payload, at}`. Of
            `any` the same with the `name` of what came first; of `all` `{results: {<name>: …}}`.
        """,
        errors="""
            A `timeout` that ends first is an error of kind `timeout`, type `WaitTimeout`; an approval that
            nobody gave in time one of type `ApprovalExpired`. A rejection is one of kind `client_error`, type
            `Rejected`; a guard that cannot be evaluated one of kind `template`; what is no time or
            instant, and an approval that nobody could give, one of kind `client_error`.
        """,
        example="""
            - step: start
              tool:
                kind: wait
                any:
                  paid: {signal: {name: payment, match: {order: "{{ workload.order }}"}}}
                  late: {timer: 1h}
              next:
                arcs:
                  - {step: ship, when: "{{ start.name == 'paid' }}"}
                  - {step: remind}
            - step: ship
              tool: {kind: noop, input: {by: "{{ start.by }}"}}
            - step: remind
              tool: {kind: noop}
        """,
        config_model=WaitConfig,
        spellings={"duration": Spelling("timer"), "seconds": Spelling("timer")},
        required=(_KEYS,),
        may_be_empty=("approval", "callback"),
        deferred=("when", "condition"),
        declares=("approval.form", "any.*.approval.form", "all.*.approval.form"),
        suspends=True,
        hands_on=True,
        credentials=(),
    )

    def run(self, _call: Call, config: WaitConfig) -> Wait:
        several = config.all or config.any
        if several is not None:
            awaited = tuple(_awaited(*one) for one in _named(several))
            return Wait("any" if config.all is None else "all", awaited, named=True)
        single = Branch(**{name: getattr(config, name) for name in _SINGLE})
        (name,) = single.given()
        return Wait("any", (_awaited(name, single),))


def _awaited(name: str, branch: Branch) -> Awaited:
    """Raises ToolError for what is no time, and no instant."""
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise ToolError("client_error", f"{name[:40]!r} is no name for what is waited for.")
    try:
        return Awaited(
            name,
            seconds=None if branch.timer is None else seconds(branch.timer),
            until=None if branch.until is None else _instant(branch.until),
            signal=None if branch.signal is None else _sought(branch.signal),
            condition=None if branch.condition is None else _guard(branch.condition),
            approval=None if branch.approval is None else branch.approval.sought(),
            callback=branch.callback is not None,
        )
    except ValueError as error:
        raise ToolError("client_error", f"What {name!r} waits for cannot be read: {error}") from error


def _instant(text: str) -> str:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text[:60]!r} is no instant; write ISO 8601, like 2026-12-31T18:00:00Z.") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _sought(signal: str | SignalConfig) -> SoughtSignal:
    if isinstance(signal, str):
        signal = SignalConfig(name=signal)
    correlate = None if signal.correlate is None else str(signal.correlate)
    guard = None if signal.when is None else _guard(signal.when)
    return SoughtSignal(signal.name, signal.match, guard, correlate)


def _guard(given: str | bool | Mapping[str, Json]) -> LaterGuard:
    if isinstance(given, Mapping):
        if not given.keys() <= {"when", "names"}:
            raise ValueError(f"a guard is a template, not a mapping.{did_you_mean('when', given)}")
        return LaterGuard(given.get("when"), given.get("names") or {})
    return LaterGuard(given)
