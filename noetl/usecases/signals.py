"""Signals: what executions are told from outside. T7, one event each; the turn holds it against
what waits."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from noetl.engine.waits import hears_about
from noetl.errors import BadRequest, Conflict, NotFound
from noetl.facts.callers import Caller
from noetl.facts.events import SignalReceived
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import Retention
from noetl.net.model import Net
from noetl.pipeline.templates import has_template
from noetl.usecases import moment
from noetl.usecases.large_values import hold_draft
from noetl.usecases.ports import ENDED, Correlation, ExecutionRow, KeptSignal, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import wake

#: Longest name of a signal, and of its id.
LONGEST: Final = 128
#: Longest value that a signal is about.
LONGEST_VALUE: Final = 512


@dataclass(frozen=True, slots=True)
class SignalRequest:
    """A signal to an execution. Of two with one `id` the second one is the first. It expires after
    `lifetime_s` seconds where nothing takes it (None: with its execution). `everyone`: all that
    wait for it take it."""

    name: str
    payload: Json = None
    id: str | None = None
    lifetime_s: float | None = None
    everyone: bool = False


@dataclass(frozen=True, slots=True)
class SentSignal:
    """A signal that an execution has in its log. `existing`: it had it before."""

    execution_id: str
    id: str
    version: int
    existing: bool = False


def send_signal(rt: Runtime, execution_id: str, request: SignalRequest) -> SentSignal:
    """Tells the execution; whether anything waits for it yet does not matter.

    Raises NotFound for an execution that there is not, and for a name that nothing in its playbook
    ever waits for; Conflict after its end; BadRequest, LimitExceeded for what cannot be sent.
    """
    check_signal(rt, request)
    with rt.store.begin() as tx:
        row = _lock(tx, execution_id)
        check_name(rt.plan(tx, row.digest).net, request.name)
        sent = write_signal(rt, tx, row, request)
    wake(rt)
    return sent


def write_signal(
    rt: Runtime, tx: Transaction, row: ExecutionRow, request: SignalRequest, about: str | None = None
) -> SentSignal:
    """The same in a transaction that has locked the execution, which has not ended. `about`: only
    what waits for that value takes it."""
    name = request.id or secrets.token_hex(8)
    key = f"signal:{name}"
    if request.id is not None and tx.events.recorded(row.execution_id, key):
        return SentSignal(row.execution_id, name, _find_version(tx, row.execution_id, name), existing=True)
    now = rt.clock()
    fact = SignalReceived(
        request.name, name, now.isoformat(), request.payload, _expiry(request, now), request.everyone, about
    )
    draft = hold_draft(rt, rt.ask_for(fact, key), Retention(row.execution_id))
    (event,) = tx.events.append(row.execution_id, row.head_version, [draft], now)
    return SentSignal(row.execution_id, name, event.version)


# --- about a value ------------------------------------------------------------------------------


def send_about(rt: Runtime, value: str, request: SignalRequest) -> tuple[str, list[SentSignal]]:
    """Sends a signal to whoever waits for one of its name about `value`: the oldest execution, or
    (`everyone`) all of them. Where nobody does it is kept, until it expires, for the first that
    will: then nobody is told yet. Returns its id, and who was told. Raises BadRequest,
    LimitExceeded."""
    check_signal(rt, request)
    if not 0 < len(value) <= LONGEST_VALUE or not value.isprintable():
        raise BadRequest(f"{value[:60]!r} is no value that a signal can be about.")
    now = rt.clock()
    about = Correlation(request.name, value)
    signal = KeptSignal(
        request.id or secrets.token_hex(8),
        about,
        request.payload,
        now,
        None if request.lifetime_s is None else now + timedelta(seconds=request.lifetime_s),
        request.everyone,
        rt.principal,
        None if rt.caller is None else rt.caller.request_id,
    )
    with rt.store.begin() as tx:
        if tx.correlations.keep(signal):
            rt.record(tx, "signal.sent", request.name, {"id": signal.id, "about": value})
    # Behind the commit: an execution that begins to wait meanwhile sees it as well.
    sent = hand_on(rt, signal)
    if sent:
        wake(rt)
    return signal.id, sent


def hand_on(rt: Runtime, signal: KeptSignal) -> list[SentSignal]:
    """Hands a kept signal to those that wait for it; only one of several that try does. One that
    has expired is for nobody."""
    if signal.expires_at is not None and signal.expires_at <= rt.clock():
        return []
    with rt.store.read() as tx:
        waiting = tx.correlations.waiting(signal.correlation)
    places: dict[str, list[str]] = {}
    for one in waiting:
        places.setdefault(one.execution_id, []).append(one.place)
    sent: list[SentSignal] = []
    for execution_id, own in places.items():
        with rt.store.begin() as tx:
            row = _lock_waiting(rt, tx, execution_id, own, signal)
            if row is not None:
                sent += _tell(rt, tx, row, signal)
        if sent and not signal.everyone:
            return sent
    if sent:
        with rt.store.begin() as tx:
            tx.correlations.take(signal.id, rt.clock())
    return sent


def _lock_waiting(
    rt: Runtime, tx: Transaction, execution_id: str, places: Sequence[str], signal: KeptSignal
) -> ExecutionRow | None:
    """The execution, locked, where it waits for the signal. Its rows say what its last turn left,
    or what an earlier version did not remove. Where a time of it has come its next turn says
    whether it waits still, and a sweep looks again."""
    row = tx.executions.lock(execution_id)
    if row is None or row.status in ENDED:
        tx.correlations.wait_no_more(execution_id)
        return None
    if row.next_wake_at is not None and row.next_wake_at <= rt.clock():
        return None
    state, about = moment.look(tx, row).state(), signal.correlation
    if hears_about(state, about.name, about.value, row.decided_version):
        return row
    if row.decided_version == row.head_version:
        tx.correlations.wait_no_more(execution_id, places)
    return None


def _tell(rt: Runtime, tx: Transaction, row: ExecutionRow, signal: KeptSignal) -> list[SentSignal]:
    """Records the signal, unless somebody has taken it."""
    if tx.correlations.get(signal.id) is None:
        return []
    if not signal.everyone and not tx.correlations.take(signal.id, rt.clock()):
        return []
    asking, about = _acting_for(rt, signal), signal.correlation.value
    return [write_signal(asking, tx, row, _request_of(signal), about)]


def hand_on_kept(rt: Runtime, correlations: Sequence[Correlation]) -> None:
    """What was kept about these is handed to executions that have just begun to wait for it."""
    with rt.store.read() as tx:
        kept = tx.correlations.matches_of(correlations)
    handed_on = [one for signal in kept for one in hand_on(rt, signal)]
    if handed_on:
        wake(rt)


def _acting_for(rt: Runtime, signal: KeptSignal) -> Runtime:
    if signal.principal is None:
        return rt
    return rt.acting_for(Caller(signal.principal, signal.request_id or ""))


def _request_of(signal: KeptSignal) -> SignalRequest:
    return SignalRequest(signal.correlation.name, signal.payload, signal.id, None, signal.everyone)


def _expiry(request: SignalRequest, now: datetime) -> str | None:
    return None if request.lifetime_s is None else (now + timedelta(seconds=request.lifetime_s)).isoformat()


def _find_version(tx: Transaction, execution_id: str, signal_id: str) -> int:
    found = tx.events.read(execution_id, types=(SignalReceived.type,))
    return next(one.version for one in found if getattr(one.fact, "id", None) == signal_id)


def _lock(tx: Transaction, execution_id: str) -> ExecutionRow:
    row = tx.executions.lock(execution_id)
    if row is None:
        raise NotFound(f"There is no execution {execution_id!r}.")
    moment.refuse_specimen(row)
    if row.status in ENDED:
        raise Conflict(f"Execution {execution_id} has ended ({row.status}); nothing in it hears a signal.")
    return row


def check_signal(rt: Runtime, request: SignalRequest) -> None:
    """Raises BadRequest, LimitExceeded for what cannot be sent."""
    for what, text in (("name", request.name), ("id", request.id or "-")):
        if not 0 < len(text) <= LONGEST or not text.isprintable():
            raise BadRequest(
                f"{text[:60]!r} is no {what} of a signal: up to {LONGEST} printable characters are."
            )
    if request.lifetime_s is not None and request.lifetime_s <= 0:
        raise BadRequest(f"A signal that expires after {request.lifetime_s:g} s would never be heard.")
    rt.check_payload(request.payload, "payload")


def check_name(net: Net, name: str) -> None:
    """Raises NotFound for a name that nothing in the playbook ever waits for."""
    known = signal_names(net)
    if None in known or name in known:
        return
    names = sorted(one for one in known if one is not None)
    hint = did_you_mean(name, names) or (f" It waits for {', '.join(names[:5])}." if names else "")
    raise NotFound(f"Nothing in playbook {net.path!r} waits for a signal {name!r}.{hint}")


def signal_names(net: Net) -> set[str | None]:
    """The names of all signals that tasks of the playbook wait for; None among them: some are known
    only when they do."""
    tasks = (task for step in net.transitions for task in step.calls if task.kind == "wait")
    return {name for task in tasks for name in _names_in(task.config)}


def _names_in(config: Mapping[str, Any]) -> Iterator[str | None]:
    for key, value in config.items():
        match key, value:
            case "signal", str() | dict():
                name = value if isinstance(value, str) else value.get("name")
                yield None if has_template(name) else name
            case "any" | "all", _:
                branches = value.values() if isinstance(value, Mapping) else value
                if not isinstance(branches, list | tuple) and not isinstance(value, Mapping):
                    yield None
                    continue
                for branch in branches:
                    yield from _names_in(branch if isinstance(branch, Mapping) else {})
            case _:
                pass
