"""Business keys: an execution gets the one that its playbook makes, or its start brings, unless an
open execution of that playbook has it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from datetime import datetime

from noetl.engine.admission import Admitted
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.state import initial_state
from noetl.engine.workload import render_business_key
from noetl.errors import BadRequest, KeyTaken
from noetl.facts.business_key import OnConflict, read_key
from noetl.facts.secret import Keychain
from noetl.usecases import control
from noetl.usecases.ports import ENDED, NamedKey, Transaction
from noetl.usecases.runtime import Runtime


@dataclass(frozen=True, slots=True)
class WantedKey:
    """A key, and what becomes of the start where an open execution has it."""

    name: NamedKey
    on_conflict: OnConflict


def render_key(rt: Runtime, plan: Plan, given: Admitted, execution_id: str, now: datetime) -> str | None:
    """The key that a playbook makes of what it is `given`, without secrets. Raises BadRequest, and
    NotFound where a value that it reads is gone."""
    if plan.net.key is None:
        return None
    state = replace(initial_state(execution_id), payload=given.payload, overrides=given.overrides)
    keychain = Keychain(plan.net.keychain, execution_id, rt.seal)
    inputs = Inputs(now=now, load=rt.load, env=rt.env, keychain=keychain)
    return render_business_key(plan.net, state, inputs)


def want_key(
    plan: Plan, path: str, made: str | None, key: str | None, on_conflict: OnConflict | None
) -> WantedKey | None:
    """Which key an execution is to have: the one that its start brings, else the one that its
    playbook made. Raises BadRequest."""
    said = check_key(key) if key is not None else made
    if said is None and on_conflict is not None:
        raise BadRequest(
            f"`on_conflict` is given without a key, and playbook {plan.net.path!r} makes none: give `key` "
            "as well."
        )
    if said is None:
        return None
    of_playbook = None if plan.net.key is None else plan.net.key.on_conflict
    return WantedKey(NamedKey(path, said), on_conflict or of_playbook or "reject")


def check_key(key: str) -> str:
    """A key that somebody has given. Raises BadRequest for one that is none."""
    try:
        return read_key(key)
    except ValueError as error:
        raise BadRequest(f"`key` {error}.") from error


def find_holder(tx: Transaction, name: NamedKey, new_id: str, begun: Container[str] = ()) -> str | None:
    """The open execution that a key means, which was claimed before; None where it means `new_id`,
    which takes it of one that has ended. Those in `begun` are about to be recorded."""
    while True:
        holder = tx.business_keys.get(name)
        assert holder is not None, "it was claimed"
        if holder == new_id:
            return None
        row = tx.executions.get(holder)
        if holder in begun or (row is not None and row.status not in ENDED):
            return holder
        if tx.business_keys.take_over(name, holder, new_id):
            return None


def take_key(rt: Runtime, tx: Transaction, wanted: WantedKey, new_id: str) -> str | None:
    """Gives the execution `new_id` its key, which was claimed before; the open execution that keeps
    it, if one does."""
    while True:
        holder = find_holder(tx, wanted.name, new_id)
        if holder is None or wanted.on_conflict != "cancel_other":
            return holder
        # Locked first, as whoever ends it does.
        row = tx.executions.lock(holder)
        if row is None or row.status in ENDED or not tx.business_keys.take_over(wanted.name, holder, new_id):
            continue
        control.ask_to_cancel(rt, tx, row, cancel_reason(wanted.name.key, new_id))
        return None


def take_free(rt: Runtime, tx: Transaction, name: NamedKey, new_id: str) -> None:
    """Gives the execution `new_id` a key that no open one has. Raises KeyTaken."""
    tx.business_keys.claim({name: new_id})
    holder = take_key(rt, tx, WantedKey(name, "reject"), new_id)
    if holder is not None:
        raise key_taken(name, holder)


def cancel_reason(key: str, new_id: str) -> str:
    """What the log of an execution says that gives way to another one."""
    return f"execution {new_id} was started with its key {key!r}"


def key_taken(name: NamedKey, holder: str) -> KeyTaken:
    """The error of a start that is refused because `holder` is open."""
    return KeyTaken(
        f"Execution {holder} of playbook {name.path!r} is open and has the key {name.key!r}: wait for its "
        "end, cancel it, or start with `on_conflict` return or cancel_other.",
        holder,
    )
