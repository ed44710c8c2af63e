"""What a task hands over to the playbook that it calls, and the business key that the execution
gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from noetl.engine.admission import Admitted, admit
from noetl.engine.decision import Notification
from noetl.engine.plan import Plan
from noetl.errors import BadRequest, ConfigError, KeyTaken, NotFound
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import is_reference, open_references
from noetl.usecases.business_keys import (
    WantedKey,
    cancel_reason,
    find_holder,
    render_key,
    want_key,
)
from noetl.usecases.input_secrets import seal_given
from noetl.usecases.ports import Transaction
from noetl.usecases.runtime import Runtime

#: Up to how many bytes a value that comes by reference is looked into.
_SMALL: Final = 65_536


def admit_call(rt: Runtime, plan: Plan, payload: JsonMap) -> Admitted:
    """`payload` as the playbook of `plan` takes it. A small value is read by the type of its input
    however it comes; a large one that comes by reference stays what it is.

    Raises InputsInvalid, and NotFound where a small value is gone.
    """
    if plan.net.inputs:
        payload = {name: _open_small(rt, value) for name, value in payload.items()}
    return admit(plan, payload, {})


def _open_small(rt: Runtime, value: Json) -> Json:
    if not isinstance(value, dict) or not is_reference(value):
        return value
    size = (value.get("meta") or {}).get("bytes")
    return open_references(value, rt.load) if size is not None and size <= _SMALL else value


def find_call_key(
    rt: Runtime, now: datetime, plan: Plan, path: str, payload: JsonMap, child_id: str
) -> WantedKey | ErrorInfo | None:
    """The business key that a call wants for the execution of that id; or why the playbook does not
    take `payload`."""
    try:
        given = seal_given(rt, plan.net, admit_call(rt, plan, payload), "").given
        made = render_key(rt, plan, given, child_id, now)
    except (BadRequest, ConfigError, NotFound) as error:
        return ErrorInfo("client_error", error.message, type=type(error).__name__)
    return want_key(plan, path, made, None, None)


def foresee_call(
    rt: Runtime, now: datetime, plan: Plan, path: str, payload: JsonMap, child_id: str
) -> str | ErrorInfo | None:
    """The business key itself; whether it is free is seen when it comes to that."""
    wanted = find_call_key(rt, now, plan, path, payload, child_id)
    return wanted.name.key if isinstance(wanted, WantedKey) else wanted


@dataclass(frozen=True, slots=True)
class TurnCalls:
    """Gives the executions that the calls of one turn begin their business keys."""

    rt: Runtime
    tx: Transaction
    now: datetime
    #: The ids of those that have one: their rows are written behind all decisions.
    begun: set[str] = field(default_factory=set)

    def take(
        self,
        caller: str,
        give_way: list[Notification],
        plan: Plan,
        path: str,
        payload: JsonMap,
        child_id: str,
    ) -> str | ErrorInfo | None:
        """The key of the execution `child_id`, which now means it; or why it cannot be called.
        Executions that give way are to be notified."""
        wanted = find_call_key(self.rt, self.now, plan, path, payload, child_id)
        if not isinstance(wanted, WantedKey):
            return wanted
        self.tx.business_keys.claim({wanted.name: child_id})
        while (holder := find_holder(self.tx, wanted.name, child_id, self.begun)) is not None:
            if holder == caller or wanted.on_conflict != "cancel_other":
                return _refuse(wanted, holder, caller)
            if self.tx.business_keys.take_over(wanted.name, holder, child_id):
                reason = cancel_reason(wanted.name.key, child_id)
                give_way.append(Notification("cancel", holder, {"reason": reason}))
        self.begun.add(child_id)
        return wanted.name.key


def _refuse(wanted: WantedKey, holder: str, caller: str) -> ErrorInfo:
    who = "which calls it," if holder == caller else "which is open,"
    more = (
        " What `on_conflict: return` answers with is not the call's to wait for."
        if wanted.on_conflict == "return"
        else ""
    )
    message = (
        f"Playbook {wanted.name.path!r} was not called: execution {holder}, {who} has the key "
        f"{wanted.name.key!r}.{more}"
    )
    return ErrorInfo("client_error", message, type=KeyTaken.__name__)
