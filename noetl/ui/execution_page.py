"""The page of one execution, which also takes the answers to what it asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from flask import Response, redirect, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from noetl.engine.awaited import who_waits
from noetl.engine.waits import join_awaited
from noetl.errors import BadRequest, Conflict, Forbidden, NoetlError
from noetl.facts.json import JsonMap
from noetl.ui.acting import find_acts
from noetl.ui.approvals import as_text, show_approvals, take_answer, typed_in
from noetl.ui.site import here, show
from noetl.usecases import inspect
from noetl.usecases.address import resolve

#: What waits that one page shows.
MOST: Final = 50


@dataclass(frozen=True, slots=True)
class ShownWait:
    """Something that waits, as the page shows it."""

    who: str
    what: str
    since: str | None
    until: str | None

    @classmethod
    def of(cls, wait: JsonMap) -> Self:
        return cls(who_waits(wait), join_awaited(wait), wait["since"], wait["until"])


def show_execution(address: str) -> Response:
    """The page of the execution at that id or key."""
    return _show(resolve(here().rt, address))


def take_answers(address: str) -> AnyResponse:
    """Takes the answer that a form of the page sends. What is wrong with it is said there, beside
    what was typed."""
    visitor, sent = here().find_visitor(), request.form.to_dict()
    execution_id = resolve(visitor.rt, address)
    try:
        take_answer(visitor, execution_id, sent)
    except (Forbidden, Conflict, BadRequest) as error:
        return _show(execution_id, typed_in(sent), error)
    # The page again, without the form: reloading it sends nothing.
    return redirect(url_for("pages.execution", address=execution_id), 303)


def _show(
    execution_id: str, typed: Mapping[str, str] | None = None, refused: NoetlError | None = None
) -> Response:
    visitor = here().find_visitor()
    found = inspect.report(visitor.rt, execution_id, resolve=False)
    approvals, more = show_approvals(visitor, execution_id, typed)
    waits = [ShownWait.of(wait) for wait in found.waits[:MOST]]
    return show(
        "execution.html",
        200 if refused is None else here().status_of(refused) or 500,
        report=found.as_json(),
        row=found.row,
        is_over=found.row.is_over and not found.row.waits_for_retry,
        # Looking again would lose what was typed.
        typed=bool(typed),
        became=inspect.BECAME,
        acts=find_acts(visitor, found.row),
        result=as_text(found.result),
        waits=waits,
        more_waits=len(found.waits) - len(waits),
        approvals=approvals,
        more_approvals=more,
        refused="" if refused is None else refused.message,
    )
