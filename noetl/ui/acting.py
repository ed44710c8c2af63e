"""What somebody does to executions that were chosen on a page: first it is shown what that means,
then it is done, and each is answered for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flask import Response, request

from noetl.errors import BadRequest
from noetl.ui.site import Visitor, here, own_path, show
from noetl.usecases.chosen import MOST, Act, act_on
from noetl.usecases.ports import ENDED, ExecutionRow

#: What each does, in words of a button and of a question.
ACTS: Final[Mapping[Act, str]] = {
    "cancel": "Cancel",
    "pause": "Pause",
    "resume": "Resume",
    "retry": "Retry",
}
_ABOUT: Final[Mapping[Act, str]] = {
    "cancel": "What runs is stopped, what was done is undone where the playbook says how, and they end as "
    "cancelled, with all that they called.",
    "pause": "What runs comes to its end; nothing new begins until they are resumed.",
    "resume": "They go on where they were paused.",
    "retry": "A new execution begins for each where it failed. Steps that succeeded are kept.",
}


@dataclass(frozen=True, slots=True)
class ChosenExecution:
    """One that was chosen. `obstacle`: why nothing will come of it; empty where something may."""

    execution_id: str
    row: ExecutionRow | None
    obstacle: str = ""


def act() -> Response:
    """Asks whether that is meant, or does it and says what came of it.

    Raises BadRequest where nothing was chosen, or too much.
    """
    visitor, which = here().find_visitor(), _read_act()
    ids = list(dict.fromkeys(request.form.getlist("id")))
    if not ids:
        raise BadRequest(f"No execution was chosen: mark those to {which}, then press the button again.")
    if len(ids) > MOST:
        raise BadRequest(f"{len(ids)} executions were chosen; at most {MOST} are acted on at once.")
    reason, back = request.form.get("reason", "").strip(), own_path(request.form.get("back", "/"))
    if request.form.get("sure") != "yes":
        chosen = find_chosen(visitor, which, ids)
        names: dict[str, Any] = {"chosen": chosen, "reason": reason, "back": back}
        return show("act.html", act=which, word=ACTS[which], about=_ABOUT[which], **names)
    confirmed = request.form.get("confirmed") == "yes"
    done = act_on(visitor.rt, visitor.principal, which, ids, reason, confirmed=confirmed)
    return show("acted.html", act=which, word=ACTS[which], done=done, back=back)


def _read_act() -> Act:
    given = request.form.get("act", "")
    for known in ACTS:
        if known == given:
            return known
    raise BadRequest(f"{given[:40]!r} is nothing that can be done: {', '.join(ACTS)}.")


def find_chosen(visitor: Visitor, which: Act, ids: Sequence[str]) -> list[ChosenExecution]:
    """Those of the ids, as far as the visitor may see them."""
    with visitor.rt.store.read() as tx:
        rows = {one: tx.executions.get(one) for one in ids}
    return [_choose(visitor, which, one, row) for one, row in rows.items()]


def _choose(visitor: Visitor, which: Act, execution_id: str, row: ExecutionRow | None) -> ChosenExecution:
    if row is None or not visitor.principal.may("read", row.path):
        return ChosenExecution(execution_id, None, "there is no such execution")
    if not visitor.principal.may("operate", row.path):
        return ChosenExecution(execution_id, row, f"{visitor.principal.name} has no scope `operate` for it")
    return ChosenExecution(execution_id, row, _obstacle(which, row))


def find_acts(visitor: Visitor, row: ExecutionRow) -> Mapping[Act, str]:
    """What the visitor may do to one, in words."""
    if not visitor.principal.may("operate", row.path):
        return {}
    done: Sequence[Act] = ("resume" if row.status == "paused" else "pause", "cancel", "retry")
    return {one: ACTS[one] for one in done if not _obstacle(one, row)}


def _obstacle(which: Act, row: ExecutionRow) -> str:
    """What can be said before it is tried."""
    if row.imported_at is not None:
        return "it was imported, to be looked at"
    if which == "retry":
        return "" if row.status in ENDED else f"it is {row.status}: a retry begins where it has ended"
    return f"it has ended ({row.status})" if row.status in ENDED else ""
